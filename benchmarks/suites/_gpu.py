"""Cases on a GPU beside torch on CUDA: operands are there, and a call does the work several times.

Times are of one piece of work; a call waits once, at its end, as programs do.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from harness import Case
from suites._operations import library, nearly

Function = Callable[..., Any]
Shape = tuple[int, ...]
# What a case computes in a call at most, in multiplications and additions; and how often.
_WORK, _MOST = 2e13, 50


def gpu_case(
    device: str,
    name: str,
    shapes: Sequence[Shape],
    ours: Function,
    theirs: Function,
    *,
    dtype: str,
    near: float,
    flops: float,
    floor: float,
    before: Callable[[Any], Any] | None = None,
    torch_before: Callable[[Any], Any] | None = None,
) -> Case:
    """Return a case of normally distributed operands.

    ``ours`` and ``theirs`` take the operands, or what ``before`` and ``torch_before`` make of them
    once, such as what a backward pass reads.
    """
    units = max(2, min(_MOST, int(_WORK / flops)))

    def arrays() -> list[Any]:
        sizes = [int(np.prod(shape)) for shape in shapes]
        drawn = np.split(_normal(sum(sizes)), np.cumsum(sizes)[:-1])
        return [part.reshape(shape) for part, shape in zip(drawn, shapes, strict=True)]

    def repeated(call: Callable[[], Any], wait: Callable[[], Any]) -> Callable[[], Any]:
        def several() -> Any:
            for _ in range(units - 1):
                call()
            made = call()
            wait()
            return made

        return several

    def mine() -> Callable[[], Any]:
        calor = library("calor")
        with calor.device(device):
            tensors = [calor.asarray(a).astype(dtype) for a in arrays()]
            given = tensors if before is None else before(tensors)
            calor.eval(*given)
            jitted = calor.jit(ours)
            jitted(*given)
            bound = jitted.bind(*given)
        return repeated(bound, lambda: calor.synchronize(device))

    def torchs() -> Callable[[], Any]:
        torch = library("torch")
        tensors = [torch.from_numpy(a).cuda().to(getattr(torch, dtype)) for a in arrays()]
        given = tensors if torch_before is None else torch_before(tensors)
        return repeated(lambda: theirs(*given), torch.cuda.synchronize)

    return Case(
        name, mine, {"torch": torchs}, nearly(near), inner=1, units=units, floor=lambda: floor
    )


_DRAWN: list[Any] = [np.empty(0, np.float32)]


def _normal(count: int) -> Any:
    """Return normally distributed numbers, which are drawn once for all cases."""
    if _DRAWN[0].size < count:
        _DRAWN[0] = np.random.default_rng(0).standard_normal(count, np.float32)
    return _DRAWN[0][:count]
