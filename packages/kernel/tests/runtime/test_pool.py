"""The caching allocator, over memories that have handles of parts and that have not."""

import gc
import random
import threading
from itertools import pairwise

import numpy as np
import pytest

from calor.errors import OutOfMemoryError
from calor_kernel.device.pool import Pool, room_for
from calor_kernel.device.protocol import Memory

MIB = 1 << 20


class Addresses(Memory):
    """Memory of numbers alone. ``parts``: whether a part has a handle, an address too."""

    def __init__(self, parts=True, limit=None):
        self.parts = parts
        self.limit = limit
        self.pieces = {}
        self.next = 1 << 20
        self.allocations = 0

    def alloc(self, nbytes):
        if self.limit is not None and sum(self.pieces.values()) + nbytes > self.limit:
            raise OutOfMemoryError("full")
        self.allocations += 1
        start = self.next
        self.next += nbytes + 4096
        self.pieces[start] = nbytes
        return start

    def free(self, handle):
        del self.pieces[handle]

    def part(self, handle, offset, nbytes):
        return handle + offset if self.parts else None

    def copy_in(self, handle, offset, array):
        raise NotImplementedError

    def copy_out(self, handle, offset, array):
        raise NotImplementedError

    def copy(self, target, at, source, offset, nbytes):
        raise NotImplementedError


class Apart(Addresses):
    """The same, of which large pieces are asked for by themselves."""

    apart = MIB


def test_large_pieces_are_apart_where_a_device_wants_them_so():
    memory = Apart()
    pool = Pool(memory)
    small = [pool.take(MIB // 4) for _ in range(3)]
    large = [pool.take(2 * MIB) for _ in range(3)]
    # What was given out is a piece of the device's by itself, and is used again as a whole.
    assert all(memory.pieces.get(piece.handle) == 2 * MIB for piece in large)
    assert not any(piece.handle in memory.pieces for piece in small[1:])
    was, count = large[0].handle, memory.allocations
    del large[0]
    again = pool.take(2 * MIB)
    assert (again.handle, memory.allocations) == (was, count)
    held = pool.held
    del small, large, again
    pool.trim()
    assert not memory.pieces
    assert pool.held == 0
    assert held > 6 * MIB


class Handle:
    """A piece that is of no use once it was finalized, as objects of drivers are."""

    def __init__(self):
        self.alive = True

    def __del__(self):
        self.alive = False


@pytest.mark.parametrize("apart", [MIB, None])
def test_a_piece_outlives_the_cycle_of_its_buffer(apart):
    class Handles(Addresses):
        def alloc(self, nbytes):
            return Handle()

        def free(self, handle):
            assert handle.alive

    memory = Handles(parts=False)
    memory.apart = apart
    pool = Pool(memory)
    cycle = [pool.take(2 * MIB)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert pool.take(2 * MIB).handle.alive
    pool.trim()
    assert pool.held == 0


def test_the_limit_holds_for_pieces_that_are_apart():
    pool = Pool(Apart())
    pool.set_limit(8 * MIB)
    for size in (3, 4, 5, 6, 7, 3):
        piece = pool.take(size * MIB)
        assert pool.held <= 8 * MIB
        del piece


@pytest.fixture(params=[True, False], ids=["parts", "whole"])
def memory(request):
    return Addresses(request.param)


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 1000, 4096, 4097, 10**6, 3 * 10**9 + 7])
def test_room_is_at_most_an_eighth_larger(nbytes):
    room = room_for(nbytes)
    assert room >= nbytes
    assert room % 64 == 0
    assert room <= max(64, nbytes + max(nbytes // 8, 64))
    assert room_for(room) == room


def test_a_size_that_was_used_is_given_again(memory):
    pool = Pool(memory)
    first = pool.take(1000)
    handle = first.handle
    del first
    before = memory.allocations
    assert pool.take(1010).handle == handle
    assert memory.allocations == before


def test_pieces_do_not_overlap(memory):
    pool, rng = Pool(memory), random.Random(0)
    live = []
    for _ in range(3000):
        if live and rng.random() < 0.5:
            live.pop(rng.randrange(len(live)))
        else:
            live.append(pool.take(rng.choice([1, 100, 3000, 70_000, 2 * MIB, 11 * MIB])))
    spans = sorted((b.handle, b.handle + b.nbytes) for b in live)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    for start, end in spans:
        assert any(p <= start and end <= p + n for p, n in memory.pieces.items())
    assert pool.in_use == sum(b.nbytes for b in live)
    live.clear()
    pool.trim()
    assert (memory.pieces, pool.held, pool.in_use) == ({}, 0, 0)


def test_ten_thousand_sizes_hold_about_as_much_as_the_largest(memory):
    pool, rng = Pool(memory), random.Random(1)
    sizes = [rng.randrange(1, 20 * MIB) for _ in range(10_000)]
    for nbytes in sizes:
        a = pool.take(nbytes)
        b = pool.take(nbytes // 2)
        del a, b
    assert pool.figures().held_peak <= 4 * 30 * MIB
    before = memory.allocations
    for nbytes in sizes[:2000]:
        pool.take(nbytes)
    if memory.parts:
        assert memory.allocations == before


def test_figures():
    pool = Pool(Addresses())
    a, b = pool.take(100), pool.take(1000)
    assert (pool.in_use, pool.peak) == (1100, 1100)
    del a
    assert (pool.in_use, pool.peak) == (1000, 1100)
    pool.reserve(50)
    assert pool.peak == 1100
    pool.reserve(500)
    assert (pool.in_use, pool.peak) == (1000, 1500)
    del b
    assert pool.figures().held >= 1100


def test_limit():
    pool = Pool(Addresses())
    kept = pool.take(1000)
    pool.set_limit(3000)
    with pytest.raises(OutOfMemoryError, match="needs 2.0 KiB, but 1000 B of the limit of 2.9 KiB"):
        pool.take(2001)
    assert pool.in_use == 1000
    del kept
    pool.take(3000)
    pool.set_limit(None)
    pool.take(1 << 30)


def test_a_device_that_is_full_gets_idle_memory_back(memory):
    memory.limit = 100 * MIB
    pool = Pool(memory)
    pieces = [pool.take(11 * MIB) for _ in range(4)]
    del pieces
    large = pool.take(90 * MIB)
    with pytest.raises(OutOfMemoryError):
        pool.take(60 * MIB)
    del large
    pool.take(60 * MIB)


@pytest.mark.parametrize("parts", [True, False])
def test_the_last_memory_of_a_device_is_given(parts):
    pool = Pool(Addresses(parts, limit=7 * MIB))
    held = [pool.take(size) for size in (5 * MIB, MIB // 2)]
    with pytest.raises(OutOfMemoryError):
        pool.take(3 * MIB)
    assert len({buffer.handle for buffer in held}) == 2


def test_threads():
    pool = Pool(Addresses())
    failures = []

    def work(number):
        rng = random.Random(number)
        try:
            for _ in range(2000):
                held = [pool.take(rng.randrange(1, 10_000)) for _ in range(5)]
                spans = sorted((b.handle, b.nbytes) for b in held)
                assert all(a + n <= c for (a, n), (c, _) in pairwise(spans))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert pool.in_use == 0


def test_large_sizes_are_numbers_of_python():
    assert type(room_for(np.int64(5000).item())) is int
