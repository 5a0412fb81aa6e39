"""Memory: correct figures, no leaks, and a usable device after running out of memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import calor
from calor.dtypes import int64
from calor.errors import OutOfMemoryError
from calor.graph.graph import Graph
from calor.transforms.state import Stateful

from ..collecting import quick_collections
from .base import Array, Place, compiled, plain_array, plain_type
from .contract import Contracts
from .errors import raised

contract = Contracts("memory")
KIB = 1024
# Bytes that a pool may keep; they must not grow.
ROUNDS = 6


def in_use(place: Place) -> int:
    """Return the device's figure of memory in use after all work has finished."""
    gc.collect()
    calor.synchronize(place.device)
    return place.plain.memory.in_use


def _steady(place: Place, work: Callable[[], Any]) -> None:
    """Raise AssertionError if each round of some work leaves more memory in use than the last."""
    work()
    work()
    figures = []
    with quick_collections():
        for _ in range(ROUNDS):
            work()
            figures.append(in_use(place))
    grown = figures[-1] - figures[0]
    assert grown <= 0, f"{grown} bytes more in use after {ROUNDS} rounds: {figures}"


@contextmanager
def limited(place: Place, spare: int) -> Iterator[None]:
    """Set the limit to the memory in use plus some bytes."""
    backend, index = place.device.backend, place.device.index
    before = place.device.memory.limit
    backend.set_memory_limit(index, in_use(place) + spare)
    try:
        yield
    finally:
        backend.set_memory_limit(index, before)


@contextmanager
def at_the_peak(place: Place) -> Iterator[None]:
    """Allocate memory until the memory in use is at its peak, so that more raises the peak."""
    figures = place.plain.memory
    spare = min(max(figures.peak - in_use(place), 0), 256 * KIB * KIB)
    held = place.plain.backend.upload(place.plain.index, _zeros(spare))
    try:
        yield
    finally:
        del held


def _zeros(nbytes: int) -> Any:
    """Return about so many bytes in a dtype that the device stores."""
    dtype = plain_type()
    return np.zeros(-(-nbytes // dtype.itemsize), dtype.numpy)


@contract(
    "memory figures count live buffers: up by their bytes, and down when they die", looks=False
)
def figures(place: Place) -> None:
    before = in_use(place)
    x = calor.asarray(plain_array(np.ones(64 * KIB)))
    held = in_use(place)
    needed = x.nbytes
    assert held - before >= needed, f"{held - before} bytes more for {needed}"
    assert place.plain.memory.peak >= held
    del x
    after = in_use(place)
    assert after <= before, f"{after - before} bytes are still in use"
    peak = place.plain.memory.peak
    assert peak >= held, f"the peak fell from {held} to {peak} when memory was freed"


@contract("an op leaves nothing behind but its result")
def no_leak_of_ops(place: Place) -> None:
    x = calor.asarray(plain_array(np.ones((8, 64))))

    def work() -> None:
        y = calor.exp(x) @ calor.permute_dims(x, (1, 0))
        calor.sum(y + 1).numpy()

    _steady(place, work)


@contract("uploads and downloads leave nothing behind", looks=False)
def no_leak_of_transfers(place: Place) -> None:
    _steady(place, lambda: calor.asarray(plain_array(np.ones(1000))).numpy().sum())


@contract("a jitted function leaves nothing behind but its results", tier="compiled", looks=False)
def no_leak_of_jit(place: Place) -> None:
    x = calor.asarray(plain_array(np.ones(1000)))
    step = calor.jit(lambda x: (x * 2, calor.sum(x)))
    _steady(place, lambda: step(x)[1].numpy())


@contract("gradients leave nothing behind", tier="training")
def no_leak_of_gradients(place: Place) -> None:
    x = calor.asarray(plain_array(np.ones((16, 16))))
    loss = calor.value_and_grad(lambda x: calor.sum(calor.tanh(x @ x)))
    _steady(place, lambda: [t.numpy() for t in loss(x)])


@contract("a graph leaves nothing behind when its executable has died", looks=False)
def no_leak_of_graphs(place: Place) -> None:
    lengths = iter(range(1, 100))

    def work() -> None:
        x = calor.asarray(plain_array(np.ones(next(lengths))))
        compiled(place, calor.trace(lambda x: x * 2 + x, x))

    _steady(place, work)


@contract("a failed call leaves nothing behind", tier="full", features=("memory_limit",))
def no_leak_of_failures(place: Place) -> None:
    x = calor.asarray(plain_array(np.ones(16 * KIB)))

    def work() -> None:
        with limited(place, 100 * KIB):
            _must_run_out(lambda: calor.exp(calor.concat([x, x, x])).numpy())

    _steady(place, work)


@contract(
    "a call that an index out of range ends leaves nothing behind", tier="full", dtypes=(int64,)
)
def no_leak_of_errors(place: Place) -> None:
    x, there = calor.asarray(plain_array(np.ones(1000))), calor.asarray(np.array([0, 5000]))
    _steady(place, lambda: raised(lambda: (calor.take(x, there, axis=0) + 1).numpy()))


def _must_run_out(work: Callable[[], Any]) -> OutOfMemoryError:
    try:
        work()
    except OutOfMemoryError as error:
        return error
    raise AssertionError("the limit was passed and no OutOfMemoryError was raised")


@contract(
    "running out of memory is an OutOfMemoryError that names the op; what lives is intact, "
    "and the device goes on",
    tier="full",
    features=("memory_limit",),
)
def running_out(place: Place) -> None:
    x = calor.asarray(plain_array(np.arange(16 * KIB)))
    before = x.numpy().copy()
    with limited(place, 100 * KIB):
        wide = calor.broadcast_to(x, (8, 16 * KIB))
        error = _must_run_out(lambda: calor.exp(wide).numpy())
        assert error.op is not None, f"the error names no op: {error}"
        assert (x.numpy() == before).all(), "a live tensor changed"
        small = calor.asarray(plain_array(np.ones(3)))
        assert (small + 1).tolist() == [2.0, 2.0, 2.0], "what fits does not run"
    assert (calor.exp(x * 0).numpy() == 1).all()


@contract(
    "a limit counts all that lives, and figures follow what is in use below it as without one",
    tier="full",
    features=("memory_limit",),
    looks=False,
)
def figures_within_a_limit(place: Place) -> None:
    device = place.plain
    with quick_collections(), at_the_peak(place), limited(place, 64 * KIB):
        held: list[Any] = []

        def upload() -> None:
            held.append(device.backend.upload(device.index, _zeros(12 * KIB)))

        for count in range(1, 6):
            upload()
            figures = device.memory
            assert figures.peak >= figures.in_use, (
                f"the peak is {figures.peak} while {figures.in_use} are in use, {count} uploads in"
            )
        _must_run_out(upload)
        held.pop()
        upload()


@contract(
    "what a program needs between its operands and results is within the limit at later calls too",
    tier="full",
    features=("memory_limit",),
    op="sort",
    looks=False,
)
def scratch_within_a_limit(place: Place) -> None:
    step: Any = calor.jit(lambda x: calor.sum(calor.sort(x)[::2] * calor.sort(x * -1)[1::2]))
    x = calor.asarray(plain_array(np.arange(64 * KIB) % 7))
    for _ in range(4):
        want = step(x).numpy()
    with quick_collections(), limited(place, 64 * KIB):
        for _ in range(2):
            _must_run_out(lambda: step(x).numpy())
    assert step(x).numpy() == want, "a call that ran out changed the next one"


@contract(
    "an upload beyond the limit raises and takes nothing",
    tier="full",
    features=("memory_limit",),
    looks=False,
)
def uploads_beyond_the_limit(place: Place) -> None:
    with limited(place, 10 * KIB):
        before = in_use(place)
        _must_run_out(lambda: calor.asarray(plain_array(np.ones(100 * KIB))))
        assert in_use(place) == before, "an upload that failed is still counted"


class _State(Stateful):
    def __init__(self) -> None:
        self.w = calor.asarray(plain_array(np.ones(4 * KIB)))


@contract(
    "a jitted step that runs out of memory leaves the state as it was",
    tier="compiled",
    features=("memory_limit",),
)
def state_after_running_out(place: Place) -> None:
    state = _State()

    @calor.jit
    def step(state: _State, x: Any) -> Any:
        state.w += 1
        return calor.exp(calor.broadcast_to(x, (64, 4 * KIB))) + state.w

    x = calor.asarray(plain_array(np.zeros(4 * KIB)))
    step(state, x).numpy()
    assert state.w[0].item() == 2.0
    with limited(place, 64 * KIB):
        _must_run_out(lambda: step(state, x).numpy())
        assert state.w[0].item() == 2.0, "the state moved although the step failed"
    step(state, x).numpy()
    assert state.w[0].item() == 3.0


@contract(
    "a call allocates at most what its executable said before it ran", tier="full", looks=False
)
def required_bytes(place: Place) -> None:
    x = calor.asarray(plain_array(np.ones((64, 64))))
    calor.eval(x)
    for what, program in _PROGRAMS.items():
        ones = plain_array(np.ones((64, 64)))
        announced(place, what, calor.trace(program, x), [ones], least=x.nbytes)


# Results that are copies, of operands, of each other and of views, are memory too.
_PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: calor.maximum(x @ x, x) * x + (x + 1) @ x,
    "its operand": lambda x: (x, calor.reshape(x, (-1,))),
    "a result several times": lambda x: [x + 1] * 3,
    "views of a result": lambda x: [f(x + 1) for f in (_turned, _flat, _whole)],
    "constants": lambda x: (x + calor.full((64, 64), 3, dtype=x.dtype), calor.zeros_like(x)),
}


def _turned(x: Any) -> Any:
    return calor.permute_dims(x, (1, 0))


def _flat(x: Any) -> Any:
    return calor.reshape(x, (-1,))


def _whole(x: Any) -> Any:
    return x[:, :]


def announced(
    place: Place, what: str, graph: Graph, arrays: Sequence[Array], *, least: int = 0
) -> None:
    """Raise AssertionError if a call of a graph allocates more than was announced.

    Parameters
    ----------
    place : Place
        The device.
    what : str
        The beginning of the message.
    graph : Graph
        The graph.
    arrays : sequence of array
        Its operands.
    least : int, default 0
        What its results take at least.

    Raises
    ------
    AssertionError
        If its results, or all that is in use at once, take more than ``required_bytes``.
    """
    device = place.plain
    executable = compiled(place, graph)
    required = executable.required_bytes
    assert isinstance(required, int), f"{what}: required_bytes is {required!r}"
    buffers = [device.backend.upload(device.index, a) for a in arrays]
    with quick_collections(), at_the_peak(place):
        before, peak = in_use(place), device.memory.peak
        made = executable(buffers)
        device.backend.synchronize(device.index)
        grown = device.memory.in_use - before
        assert least <= grown <= required, (
            f"{what}: {grown} bytes were allocated, {required} announced"
        )
        # A peak far above what was held here tells nothing of this call.
        most = device.memory.peak - before
        assert most <= required or device.memory.peak == peak, (
            f"{what}: {most} bytes were allocated at once, {required} announced"
        )
        del made


CHECKS = contract.checks
