"""Memory of the reference: what is counted, what a plan reserves, and running out of it."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import Device, device_of, known_devices
from calor.backends.numpy_backend import NumpyBackend, NumpyBuffer
from calor.backends.protocol import MemoryFigures
from calor.errors import (
    ArgumentError,
    DeviceError,
    DeviceLostError,
    OutOfMemoryError,
    UnsupportedError,
)
from calor.graph.graph import Graph
from calor.local import local

KIB = 1024


@pytest.fixture(autouse=True)
def no_limit() -> Iterator[None]:
    calor.eval()
    # Garbage of earlier tests must not be given back in the middle of a count.
    gc.collect()
    yield
    calor.set_memory_limit(None, "numpy")


def floats(count: int) -> Any:
    return calor.asarray(np.arange(count, dtype=np.float32))


def exported(buffer: Any) -> Any:
    return buffer.exported


def in_use() -> int:
    return calor.memory("numpy").in_use


def test_what_lives_is_counted() -> None:
    before = in_use()
    x = floats(256)
    assert in_use() == before + KIB
    y = x * 2
    z = y.reshape(16, 16)
    assert in_use() == before + 3 * KIB
    del y
    assert in_use() == before + 2 * KIB
    del x, z
    assert in_use() == before


def test_the_peak_stays() -> None:
    x = floats(256 * KIB)
    assert calor.memory("numpy").peak >= in_use() >= x.nbytes
    peak = calor.memory("numpy").peak
    del x
    assert calor.memory("numpy").peak == peak


def test_a_view_held_outside_keeps_a_tensors_memory_out_of_place() -> None:
    x = floats(4)
    buffer = x._value.buffer
    assert exported(buffer) is False
    view = x.numpy()
    assert exported(buffer) is True
    part = view[1:]
    del view
    assert exported(buffer) is True
    del part
    assert exported(buffer) is False


def test_a_result_that_is_a_view_is_exported_by_its_root() -> None:
    y = (floats(4) + 1).reshape(2, 2)
    calor.eval(y)
    view = y.numpy()
    assert y._value.buffer.exported is True
    capsule = np.from_dlpack(y)
    del view
    assert y._value.buffer.exported is True
    del capsule
    assert y._value.buffer.exported is False


def test_shared_host_memory_counts_as_exported() -> None:
    array = np.ones(4, np.float32)
    x = calor.asarray(array[:2].copy(), copy=False)
    assert x._value.buffer.exported is True


def run(graph: Graph, *arrays: Any) -> list[Any]:
    backend = NumpyBackend()
    return backend.compile(0, graph)([backend.upload(0, a) for a in arrays])


SHARING: dict[str, Callable[[Any], Any]] = {
    "the input": lambda x: (x, x),
    "a value twice": lambda x: (x + 1,) * 2,
    "a value and its view": lambda x: ((y := x + 1), y.reshape(4)),
    "two views of one value": lambda x: ((y := x + 1).reshape(4), y.reshape(1, 4)),
    "two parts of one value": lambda x: ((y := x + 1)[0], y[1]),
    "a view of the input": lambda x: (x.reshape(4), x.reshape(1, 4)),
    "an expanded number": lambda x: (calor.full((2, 2), 3.0), x.sum().broadcast_to((2, 2))),
    "a constant": lambda x: (calor.asarray([1.0, 2.0]) * 1, x),
    "reversed": lambda x: (calor.flip(x), x.transpose()),
    "a number": lambda x: (x.sum(), x.sum()),
}


@pytest.mark.parametrize("case", SHARING)
def test_outputs_share_memory_with_nothing(case: str) -> None:
    x = calor.asarray(np.arange(4.0).reshape(2, 2))
    made = SHARING[case](x)
    calor.eval(*made)
    arrays = [t._value.buffer.array for t in (x, *made) if t is not x]
    for i, a in enumerate(arrays):
        assert a.flags.c_contiguous
        assert not np.shares_memory(a, x._value.buffer.array)
        for b in arrays[:i]:
            assert a is not b or made[0]._value is made[1]._value
            assert made[0]._value is made[1]._value or not np.shares_memory(a, b)


# Programs, and how much a call of each allocates at most, in vectors of 1024 float32.
NEEDS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "add": (lambda x: x + x, 1),
    "chain": (lambda x: x.exp().exp().exp().exp(), 2),
    "number": (lambda x: x * 2.0 + 1.0, 2),
    "views": (lambda x: x.reshape(32, 32).transpose().reshape(1024), 2),
    "view of a temporary": (lambda x: x.exp()[:512] * 1, 1.5),
    "the input": (lambda x: x, 1),
    "part of a temporary": (lambda x: x.exp()[:512], 1.5),
    "twice": (lambda x: (y := x.exp(), y), 2),
    "two": (lambda x: (x.exp(), x.sin()), 2),
    "sum": (lambda x: (x * x).sum(), 1),
    "expand": (lambda x: x[:1].broadcast_to((1024,)), 1),
}


@pytest.mark.parametrize("case", NEEDS)
def test_a_plan_knows_what_it_allocates(case: str) -> None:
    function, vectors = NEEDS[case]
    array = np.ones(1024, np.float32)
    graph = calor.trace(function, calor.asarray(array))
    executable = NumpyBackend().compile(0, graph)
    number = sum(s.nbytes for s in graph.specs if not s.shape)
    assert 0 <= executable.required_bytes - vectors * 4096 <= number


def test_no_program_allocates_more_than_it_says() -> None:
    """Measured by the allocator, for programs whose references need little memory of their own."""
    array = np.ones(1 << 16, np.float32)
    for function, _ in NEEDS.values():
        graph = calor.trace(_scaled(function), calor.asarray(array))
        backend = NumpyBackend()
        executable, held = backend.compile(0, graph), backend.upload(0, array)
        executable([held])
        gc.collect()
        tracemalloc.start()
        kept = executable([held])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak <= executable.required_bytes + 4 * KIB
        del kept


def _scaled(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def scaled(x: Any) -> Any:
        rows = x.reshape(64, 1024)
        made = function((rows + 1)[0])
        return made, rows * 2

    return scaled


def test_running_out_leaves_everything_as_it_was() -> None:
    x = floats(KIB)
    before = in_use()
    calor.set_memory_limit(before + 6 * KIB, "numpy")
    y = x + 1
    calor.eval(y)
    z = y * 2
    with pytest.raises(OutOfMemoryError, match=r"needs 4\.0 KiB, .*in op 'mul'"):
        z.numpy()
    assert x.sum().item() == 1024 * 1023 / 2
    calor.set_memory_limit(None, "numpy")
    assert (y * 2)[1].item() == 4


def test_an_upload_that_does_not_fit_takes_nothing() -> None:
    before = in_use()
    calor.set_memory_limit(before + KIB, "numpy")
    with pytest.raises(OutOfMemoryError, match=r"raise the limit with calor\.set_memory_limit"):
        floats(KIB)
    assert in_use() == before


def test_only_what_fails_is_poisoned() -> None:
    x = floats(8)
    small, large = x + 1, calor.zeros((64 * KIB,)) + 1
    after = large.sum()
    calor.set_memory_limit(in_use_without_pending() + 16 * KIB, "numpy")
    assert small.tolist() == list(range(1, 9))
    for _ in range(2):
        with pytest.raises(OutOfMemoryError, match=r"256\.0 KiB"):
            large.numpy()
        with pytest.raises(OutOfMemoryError):
            after.item()
    assert (x * small).sum().item() == 168
    calor.set_memory_limit(None, "numpy")
    # What was poisoned stays so; the same computation asked for again succeeds.
    with pytest.raises(OutOfMemoryError):
        large.numpy()
    assert (calor.zeros((64 * KIB,)) + 1).sum().item() == 64 * KIB


def in_use_without_pending() -> int:
    return calor.device("numpy").memory.in_use


def test_synchronize_raises_what_failed() -> None:
    held = floats(2)
    large, small = calor.zeros((64 * KIB,)) + 1, held + 1
    calor.set_memory_limit(in_use_without_pending() + KIB, "numpy")
    with pytest.raises(OutOfMemoryError, match=r"256\.0 KiB"):
        calor.synchronize("numpy")
    assert small.tolist() == [1, 2]
    # What failed is gone with its last handle, and is not raised again.
    del large
    calor.synchronize("numpy")
    calor.synchronize()


def test_a_jitted_step_that_runs_out_keeps_the_state() -> None:
    state = floats(KIB)
    step = calor.jit(lambda x: x * 2 + 1)
    expected = step(state).numpy(copy=True)
    calor.set_memory_limit(in_use() + KIB, "numpy")
    with pytest.raises(OutOfMemoryError, match="needs"):
        step(state)
    calor.set_memory_limit(None, "numpy")
    assert np.array_equal(step(state).numpy(), expected)


def test_limits_are_checked() -> None:
    with pytest.raises(ArgumentError, match="number of bytes from 0, or None, not -1"):
        calor.set_memory_limit(-1, "numpy")
    with pytest.raises(UnsupportedError, match="null:0 has no settable memory limit: impossible"):
        calor.set_memory_limit(1, "null")


def test_figures_of_the_current_device() -> None:
    with calor.device("null"):
        assert calor.memory() == MemoryFigures(0, 0, None)
    assert calor.memory("numpy").limit is None


def test_devices_lists_what_is_present() -> None:
    assert calor.device("numpy") in calor.devices()


def test_counts_survive_threads() -> None:
    before = in_use()

    def work() -> None:
        for _ in range(200):
            NumpyBuffer(np.zeros(8), counts)

    backend = calor.device("numpy").backend
    assert isinstance(backend, NumpyBackend)
    counts = backend._memory
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert in_use() == before


def test_errors_of_synchronize_name_the_device() -> None:
    with pytest.raises(DeviceError, match='no device "none"'):
        calor.synchronize("none")


def test_a_device_that_is_lost_does_not_keep_others_from_being_waited_for() -> None:
    waited: list[str] = []

    class Waiting(NumpyBackend):
        name = "waiting"

        def synchronize(self, index: int) -> None:
            waited.append(self.name)

    class Lost(Waiting):
        name = "lost"

        def synchronize(self, index: int) -> None:
            super().synchronize(index)
            raise DeviceLostError("the first is lost")

    devices = [Device(Lost(), 0), Device(Waiting(), 0)]
    for made in devices:
        calor.eval(calor.ones((2,), device=made) + 1)
    try:
        with pytest.raises(DeviceLostError, match="the first is lost"):
            calor.synchronize()
    finally:
        for made in devices:
            del local.traces[made]
    assert [name for name in waited if name in ("lost", "waiting")] == ["lost", "waiting"]


class Waiting(NumpyBackend):
    """Counts how often it is waited for, and may be lost."""

    name = "waiting"

    def __init__(self) -> None:
        super().__init__()
        self.waited = 0
        self.lost = False

    def synchronize(self, index: int) -> None:
        self.waited += 1
        if self.lost:
            raise DeviceLostError("it does not answer")


@pytest.fixture
def waiting() -> Iterator[Device]:
    """A device of its own that no other test waits for."""
    made = device_of(Waiting(), 0)
    yield made
    del known_devices[id(made.backend), 0]


def run_elsewhere(program: Any, device: Device) -> None:
    """Call a program in another thread, so that this one has no trace of the device."""

    def call() -> None:
        program(calor.asarray(np.ones(2, np.float32), device=device))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def test_devices_of_jitted_calls_alone_are_waited_for(waiting: Device) -> None:
    program = calor.jit(lambda x: x + 1)
    run_elsewhere(program, waiting)
    for count in (1, 2):
        calor.synchronize()
        assert waiting.backend.waited == count  # type: ignore[attr-defined]
    run_elsewhere(program, waiting)
    del program
    gc.collect()
    # What the program that ended did last is waited for, and then there is nothing.
    for _ in range(2):
        calor.synchronize()
        assert waiting.backend.waited == 3  # type: ignore[attr-defined]


def test_a_lost_device_is_told_of_while_its_programs_live(waiting: Device) -> None:
    program = calor.jit(lambda x: x + 1)
    run_elsewhere(program, waiting)
    waiting.backend.lost = True  # type: ignore[attr-defined]
    with pytest.raises(DeviceLostError, match="it does not answer"):
        calor.synchronize()
    del program
    gc.collect()
    calor.synchronize()
    assert waiting.backend.waited == 2  # type: ignore[attr-defined]


def test_a_device_without_programs_is_not_waited_for(waiting: Device) -> None:
    calor.synchronize()
    assert waiting.backend.waited == 0  # type: ignore[attr-defined]
