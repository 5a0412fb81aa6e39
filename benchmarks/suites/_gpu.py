"""Cases on a GPU beside torch on CUDA: operands are there, and a call does the work several times.

Times are of one piece of work; a call waits once, at its end, as programs do. The GPU is awake when
it begins: after a rest NVIDIA's Vulkan takes half a millisecond to begin. Where the work is short,
several pieces are one CUDA graph for both, or the time would be that of Python. Numbers are drawn
once for all cases, and operands of one case stay in the GPU's memory for the next.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from harness import Case
from suites._operations import library, nearly

Function = Callable[..., Any]
Shape = tuple[int, ...]
# How often a call does the work at most.
_MOST = 50


@dataclass(frozen=True)
class Operand:
    """Normal numbers of a shape, or where there is a bound integers from 0 up to it."""

    shape: Shape
    below: int = 0

    @property
    def nbytes(self) -> int:
        """The bytes of the numbers, in 32 bits, or of the integers."""
        return prod(self.shape) * (8 if self.below else 4)


Operands = tuple[Operand, ...]


def normal(*shapes: Shape) -> Operands:
    """Return operands of normal numbers."""
    return tuple(Operand(shape) for shape in shapes)


def often(most: float, work: float) -> int:
    """Return how often a call does some work, of which it does ``most`` where that is twice."""
    return max(2, min(_MOST, int(most / work)))


def gpu_case(
    device: str,
    name: str,
    operands: Operands,
    ours: Function,
    theirs: Function,
    *,
    near: float,
    units: int,
    floor: Callable[[], float] | None = None,
    dtype: str = "float32",
    before: Callable[[Any], Any] | None = None,
    torch_before: Callable[[Any], Any] | None = None,
    captured: int = 1,
) -> Case:
    """Return a case of operands that both libraries have in ``dtype``.

    ``ours`` and ``theirs`` take the operands, or what ``before`` and ``torch_before`` make of them
    once, such as what a backward pass reads. Where they do several pieces of work, ``captured`` is
    how many: torch's are captured in a CUDA graph then, as calor's are that a plan has, and of the
    results the last is compared. ``units`` are pieces of work too.
    """

    def repeated(call: Callable[[], Any], wait: Callable[[], Any]) -> Callable[[], Any]:
        def several() -> Any:
            for _ in range(units // captured - 1):
                call()
            made = call()
            wait()
            return made[-1] if captured > 1 else made

        return several

    def mine() -> Callable[[], Any]:
        calor = library("calor")
        given = _tensors(device, operands, dtype)
        with calor.device(device):
            given = given if before is None else before(given)
            calor.eval(*given)
            jitted = calor.jit(ours)
            jitted(*given)
            bound = jitted.bind(*given)
        return repeated(bound, lambda: calor.synchronize(device))

    def torchs() -> Callable[[], Any]:
        torch = library("torch")
        given = [t.detach() for t in _torch_tensors(operands, dtype)]
        given = given if torch_before is None else torch_before(given)
        call = partial(theirs, *given)
        return repeated(_graph(call) if captured > 1 else call, torch.cuda.synchronize)

    assert units % captured == 0
    peers = {"torch": torchs}
    return Case(
        name, mine, peers, nearly(near), inner=1, units=units, floor=floor, awake=True
    )  # fmt: skip


def _graph(call: Callable[[], Any]) -> Callable[[], Any]:
    """Return what replays torch's work as a CUDA graph; its results are those of the capture."""
    cuda = library("torch").cuda
    # What libraries prepare at a first call must not be captured.
    call()
    cuda.synchronize()
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        made = call()

    def replayed() -> Any:
        graph.replay()
        return made

    return replayed


@lru_cache(2)
def _tensors(device: str, operands: Operands, dtype: str) -> list[Any]:
    calor = library("calor")
    with calor.device(device):
        made = [calor.asarray(a) for a in _arrays(operands)]
        made = [t if o.below else t.astype(dtype) for t, o in zip(made, operands, strict=True)]
        calor.eval(*made)
    return made


@lru_cache(1)
def _torch_tensors(operands: Operands, dtype: str) -> list[Any]:
    torch = library("torch")
    made = [torch.from_numpy(a).cuda() for a in _arrays(operands)]
    kind = getattr(torch, dtype)
    return [t if o.below else t.to(kind) for t, o in zip(made, operands, strict=True)]


def _arrays(operands: Operands) -> list[Any]:
    made, start = [], 0
    for operand in operands:
        if operand.below:
            made.append(_integers(operand))
            continue
        count = prod(operand.shape)
        made.append(_normal(start + count)[start:].reshape(operand.shape))
        start += count
    return made


@lru_cache(2)
def _integers(operand: Operand) -> Any:
    return np.random.default_rng(0).integers(0, operand.below, operand.shape, np.int64)


_DRAWN: list[Any] = [np.empty(0, np.float32)]


def _normal(count: int) -> Any:
    """Return normally distributed numbers, which are drawn once for all cases."""
    if _DRAWN[0].size < count:
        _DRAWN[0] = np.random.default_rng(0).standard_normal(count, np.float32)
    return _DRAWN[0][:count]
