"""Failures on a device with memory of its own: told to who looks at what depends on them."""

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.errors import ElementIndexError
from calor.ops.base import find
from calor_interpreter.device import ONE_UNIT, LanesDevice, LanesMemory, LanesQueue
from calor_kernel.runtime.backend import KernelBackend


class Apart(LanesMemory):
    """Memory that the host does not see; counts copies, of which those to the host wait."""

    copies = waits = 0

    def address(self, handle):
        return None

    def copy_in(self, handle, offset, array):
        self.copies += 1
        super().copy_in(handle, offset, array)

    def copy_out(self, handle, offset, array):
        self.waits += 1
        super().copy_out(handle, offset, array)


class Counting(LanesQueue):
    """Counts how often somebody waited."""

    waits = 0

    def synchronize(self):
        self.waits += 1


@pytest.fixture
def device(small_ops):
    made = LanesDevice(ONE_UNIT, checks=False)
    made.memory = Apart()
    made.queue = Counting(checks=False)
    return device_of(KernelBackend("late", lambda index: made), 0)


def gather(x, indices):
    return find("gather")(x, indices, axis=0)


def compiled(device, function, *arrays):
    with calor.device("numpy"):
        graph = calor.trace(function, *[calor.asarray(a) for a in arrays])
    return device.backend.compile(0, graph), [device.backend.upload(0, a) for a in arrays]


X = np.arange(3, dtype=np.float32)
GOOD, BAD = np.array([2, 0]), np.array([0, 7])


def look(device, buffer, size=2):
    return device.backend.download(0, buffer, calor.specs.spec((size,), calor.float32)).tolist()


def test_a_call_does_not_wait(device):
    plan, given = compiled(device, lambda x, i: (gather(x, i) * 2, x + 1), X, GOOD)
    engine = device.backend.engine(0)
    queue, memory = engine.device.queue, engine.device.memory
    made = plan(given)
    assert queue.waits == memory.waits == 0
    assert look(device, made[0]) == [4.0, 0.0]
    assert memory.waits == 2  # The words, and the result.
    assert look(device, made[0]) == [4.0, 0.0]
    assert look(device, made[1], 3) == [1.0, 2.0, 3.0]
    assert memory.waits == 4
    assert queue.waits == 0
    device.backend.synchronize(0)
    assert memory.waits == 4


def test_an_error_of_a_plan_at_a_known_structure_is_told(device):
    for n in range(3, 9):
        x = np.arange(n, dtype=np.float32)
        plan, given = compiled(device, lambda x, i: (gather(x, i) * 2, x + 1), x, BAD + n)
        made = plan(given)
        with pytest.raises(ElementIndexError):
            look(device, made[0])
        assert look(device, made[1], n) == (x + 1).tolist()
    assert device.backend.engine(0).replanning.used


def test_an_error_reaches_what_depends_on_it(device):
    plan, given = compiled(device, lambda x, i: (gather(x, i) * 2, x + 1), X, BAD)
    after, more = compiled(device, lambda y, x: (y - 1, x * x), X[:2], X)
    lost, fine = plan(given)
    worse, well = after([lost, more[1]])
    copied = device.backend.copy(0, worse, calor.specs.spec((2,), calor.float32), 0)
    for _ in range(2):
        for buffer in (worse, lost, copied):
            with pytest.raises(ElementIndexError, match="out of range") as caught:
                look(device, buffer)
            assert caught.value.op == "gather"
    assert look(device, fine, 3) == [1.0, 2.0, 3.0]
    assert look(device, well, 3) == [0.0, 1.0, 4.0]
    device.backend.synchronize(0)


def test_who_waits_gets_the_error_that_nobody_got(device):
    plan, given = compiled(device, lambda x, i: (gather(x, i),), X, BAD)
    (lost,) = plan(given)
    with pytest.raises(ElementIndexError):
        device.backend.synchronize(0)
    device.backend.synchronize(0)
    with pytest.raises(ElementIndexError):
        look(device, lost)


def test_nothing_is_written_in_place_of_what_failed(device):
    plan, given = compiled(device, lambda x, i: (gather(x, i),), X[:2], BAD)
    (lost,) = plan(given)
    update, (w, _) = compiled(device, lambda w, g: (w - g,), X[:2], X[:2])
    with pytest.raises(ElementIndexError):
        update([w, lost], [w])
    assert look(device, w) == [0.0, 1.0]
    step, (w, bad) = compiled(device, lambda w, i: (w - gather(w, i),), X[:2], BAD)
    with pytest.raises(ElementIndexError):
        step([w, bad], [w])
    assert look(device, w) == [0.0, 1.0]
    (good,) = step([w, device.backend.upload(0, np.array([1, 1]))], [w])
    assert look(device, good) == [-1.0, 0.0]


def test_memory_comes_back_however_many_are_never_looked_at(device):
    plan, given = compiled(device, lambda x, i: (gather(x, i),), X, GOOD)
    for _ in range(3):
        plan(given)
    held = device.backend.engine(0).pool.held
    for _ in range(600):
        plan(given)
    assert device.backend.engine(0).pool.held <= held + 300 * 64
    bad = [given[0], device.backend.upload(0, BAD)]
    plan(bad)
    for _ in range(300):
        plan(given)
    with pytest.raises(ElementIndexError):
        device.backend.synchronize(0)
