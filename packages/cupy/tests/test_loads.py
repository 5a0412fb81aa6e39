"""Page-locked memory, and copies beside kernels, with streams that work as late as they may."""

import ctypes
import gc
from types import SimpleNamespace

import numpy as np
import pytest

from calor_cupy.driver.codes import Codes
from calor_cupy.driver.device import StreamMemory
from calor_cupy.driver.stream import Stream

CODES = Codes("CUDA", {2}, {700: "bad address"}, {100: "no GPU"}, {209: "old image"}, "list-gpus")
MAIN, BESIDE = 1, 2


class Lazy(SimpleNamespace):
    """A runtime whose streams do nothing before somebody waits for them."""

    streamNonBlocking, eventDisableTiming = 1, 2
    memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = range(3)

    def __init__(self):
        super().__init__(streams={}, locked={}, events=0, refuses=False)
        self.at = {}

    def setDevice(self, number):
        pass

    def streamCreateWithFlags(self, flags):
        self.streams[len(self.streams) + 1] = []
        return len(self.streams)

    def eventCreateWithFlags(self, flags):
        self.events += 1
        return self.events

    def eventRecord(self, event, stream):
        self.at[event] = stream, len(self.streams[stream])

    def streamWaitEvent(self, stream, event):
        there, count = self.at[event]
        self.streams[stream].append(lambda: self._until(there, count))

    def _until(self, stream, count):
        tasks = self.streams[stream]
        for place, task in enumerate(tasks[:count]):
            if task is not None:
                tasks[place] = None
                task()

    def streamSynchronize(self, stream):
        self._until(stream, len(self.streams[stream]))

    def memcpyAsync(self, target, source, nbytes, kind, stream):
        self.streams[stream].append(lambda: ctypes.memmove(target, source, nbytes))

    def hostAlloc(self, nbytes, flags):
        if self.refuses:
            raise RuntimeError("out of memory")
        made = np.zeros(nbytes, np.uint8)
        self.locked[made.ctypes.data] = made
        return made.ctypes.data

    def freeHost(self, address):
        del self.locked[address]


class Memory(StreamMemory):
    """Memory of the host."""

    def alloc(self, nbytes):
        raise NotImplementedError

    def free(self, handle):
        raise NotImplementedError


@pytest.fixture
def memory():
    return Memory(Stream(0, Lazy(), None, CODES))


def test_a_load_is_there_for_work_behind_its_settling(memory):
    target, result = np.zeros(1000), np.zeros(1000)
    memory.load(target.ctypes.data, np.arange(1000.0))
    runtime = memory.on.runtime
    memory.settle([target.ctypes.data])
    memory.copy_out(target.ctypes.data, 0, result)
    assert (result == np.arange(1000.0)).all()
    assert not runtime.streams[BESIDE][-1], "the copy ran"


def test_a_load_waits_for_work_before_it_and_not_for_work_behind(memory):
    runtime, seen = memory.on.runtime, []
    target = np.zeros(4)
    runtime.streams[MAIN].append(lambda: seen.append("before"))
    memory.load(target.ctypes.data, np.ones(4))
    runtime.streams[MAIN].append(lambda: seen.append("behind"))
    runtime.streamSynchronize(BESIDE)
    assert seen == ["before"]
    assert target.tolist() == [1.0] * 4


def test_only_what_is_read_is_waited_for(memory):
    runtime = memory.on.runtime
    first, second = np.zeros(4), np.zeros(4)
    memory.load(first.ctypes.data, np.ones(4))
    memory.load(second.ctypes.data, np.ones(4))
    memory.settle([first.ctypes.data, 17])
    runtime.streamSynchronize(MAIN)
    assert (first.sum(), second.sum()) == (4, 0)
    memory.settle()
    runtime.streamSynchronize(MAIN)
    assert second.sum() == 4


def test_an_array_lives_until_its_copy_has_read_it(memory):
    runtime = memory.on.runtime
    size, target = 1 << 17, np.zeros(1 << 17, np.uint8)
    room = memory.host_array(size)
    room[:] = 5
    memory.load(target.ctypes.data, room)
    del room
    memory.settle()
    other = memory.host_array(size)
    other[:] = 7
    runtime.streamSynchronize(MAIN)
    assert (target == 5).all()
    memory.on.wait()
    memory.on.wait()
    gc.collect()
    assert len(runtime.locked) == 2
    third = memory.host_array(size)
    assert len(runtime.locked) == 2, "the first block is used again"
    assert not np.shares_memory(third, other)


def test_page_locked_memory_is_kept_for_its_size(memory):
    runtime = memory.on.runtime
    first = memory.host_array(1_000_000)
    address = first.ctypes.data
    part = first[10:20]
    del first
    assert memory.host_array(1_000_000).ctypes.data != address, "a part is in use"
    del part
    assert {memory.host_array(999_999).ctypes.data for _ in range(3)} <= set(runtime.locked)
    assert len(runtime.locked) == 2
    memory.page_locked.close()
    assert not runtime.locked


def test_memory_that_waits_makes_room_for_other_sizes(memory, monkeypatch):
    monkeypatch.setattr("calor_cupy.driver.page_locked._IDLE", 1 << 20)
    for mebibytes in range(1, 5):
        memory.host_array(mebibytes << 20)
    assert sum(a.nbytes for a in memory.on.runtime.locked.values()) <= 5 << 20


def test_memory_of_steps_is_used_again(memory, monkeypatch):
    """A step replaces state, and between it holds values of other sizes."""
    monkeypatch.setattr("calor_cupy.driver.page_locked._IDLE", 1 << 20)
    runtime, made = memory.on.runtime, []
    alloc = runtime.hostAlloc
    runtime.hostAlloc = lambda *given: made.append(given) or alloc(*given)
    state = [memory.host_array(4 << 20) for _ in range(3)]
    for _ in range(4):
        before = len(made)
        between = [memory.host_array(3 << 20) for _ in range(3)]
        new = []
        for number in range(3):
            new.append(memory.host_array(4 << 20))
            between[number] = None
        state = new
    assert len(made) == before, "the last step made no block"
    del state, new
    memory.host_array(2 << 20)
    assert sum(a.nbytes for a in runtime.locked.values()) == 2 << 20, "nothing is in use"


def test_small_arrays_share_a_block_of_many_pages(memory):
    runtime = memory.on.runtime
    arrays = [memory.host_array(nbytes) for nbytes in (1, 100, 511, 512) for _ in range(3)]
    assert len(runtime.locked) == 1, "one size: less than a thousandth of the block each"
    for number, array in enumerate(arrays):
        array[:] = number
    assert all((array == number).all() for number, array in enumerate(arrays))
    addresses = {array.ctypes.data for array in arrays}
    assert all((address - min(addresses)) % 512 == 0 for address in addresses)
    arrays.clear()
    del array
    assert {memory.host_array(300).ctypes.data for _ in range(2)} <= addresses
    memory.page_locked.close()
    memory.host_array(200)
    assert len(runtime.locked) == 1, "what is cut in parts stays"


def test_nothing_and_what_is_refused_is_ordinary(memory):
    assert memory.host_array(0) is None
    memory.on.runtime.refuses = True
    assert memory.host_array(1 << 20) is None
    assert memory.host_array(100) is None


def test_a_copy_to_the_host_comes_in_stream_order(memory):
    runtime = memory.on.runtime
    there, size = np.arange(1000.0), 8000
    room = memory.host_array(size)
    memory.unload(there.ctypes.data, room)
    assert not room.any(), "nobody has waited"
    # The block is free again, for work that is queued behind.
    runtime.streams[MAIN].append(lambda: there.fill(0))
    back = np.zeros(1000)
    memory.load(back.ctypes.data, room)
    memory.settle()
    runtime.streamSynchronize(MAIN)
    assert (back == np.arange(1000.0)).all()
    assert (room.view(float) == np.arange(1000.0)).all()


def test_an_array_lives_until_its_copy_has_come(memory):
    there = np.full(1 << 17, 5, np.uint8)
    room = memory.host_array(1 << 17)
    memory.unload(there.ctypes.data, room)
    address = room.ctypes.data
    del room
    gc.collect()
    assert memory.host_array(1 << 17).ctypes.data != address
    memory.on.wait()
    gc.collect()
    taken = [memory.host_array(1 << 17) for _ in range(2)]
    assert address in {array.ctypes.data for array in taken}
