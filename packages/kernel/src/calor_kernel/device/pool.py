"""The caching allocator: reuses memory obtained from the device.

Requirements: fresh memory costs more than most kernels (page faults on a CPU, synchronisation on a
GPU), so a repeated call makes no request to the device. Allocating and freeing a block of a known
size is one list operation without a lock. A program of ten thousand different sizes holds about as
much as a program of its largest size. Size classes round up by at most an eighth. Blocks are cut
from segments if the device has handles of parts, except large blocks that the device wants apart.
Idle blocks are joined or freed before a pool grows.

Sources: the classes are those of Berger et al., Hoard (2000), the segments those of PyTorch's
allocator.
"""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from calor.counting import ONE_AT_A_TIME, count
from calor.errors import OutOfMemoryError
from calor.units import bytes_text
from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.device.protocol import Memory

_SHIFT: Final = 6
SMALLEST: Final = 1 << _SHIFT
_STEPS: Final = 3  # Log2 of the number of classes per octave.
_SMALL, _MIDDLE, _MEGA = 1 << 20, 10 << 20, 1 << 20
# The most idle blocks of a class that are ordered.
_ORDERED: Final = 64
# A block that is large enough to look for idle memory of other classes first.
_LARGE: Final = 1 << 18


def room_for(nbytes: int) -> int:
    """Return the size class of a number of bytes.

    >>> room_for(1), room_for(1000), room_for(1025)
    (64, 1024, 1152)
    """
    if nbytes <= SMALLEST:
        return SMALLEST
    shift = (nbytes - 1).bit_length() - 1 - _STEPS
    if shift < _SHIFT:
        shift = _SHIFT
    return -(-nbytes >> shift) << shift


@dataclass(eq=False, slots=True)
class _Segment:
    """A block obtained from the device, and its idle spans as a map from start to end."""

    handle: Any
    nbytes: int
    idle: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """Bytes: in use by live buffers, held from the device, the peaks of both, and the limit."""

    in_use: int
    peak: int
    held: int
    held_peak: int
    limit: int | None


class Pool:
    """The memory of one device.

    ``in_use`` counts the requested bytes of live buffers. ``ceiling`` is the total below which a
    reservation needs no action: the peak, or the limit if that is lower.
    """

    # Compiled calls read and write the counters in place.
    __slots__ = ("__dict__", "__weakref__", "ceiling", "in_use")

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.in_use = 0
        self.peak = 0
        self.held = 0
        self.held_peak = 0
        self.limit: int | None = None
        self.ceiling = 0
        self._bins: dict[int, list[Any]] = {}
        self._segments: list[_Segment] = []
        self._owners: dict[Any, tuple[_Segment, int]] = {}
        # Blocks outside segments, by identity. The pool holds a reference of its own, because a
        # buffer in a reference cycle returns its block while the collector finalizes the block.
        self._whole: dict[int, Any] = {}
        # Idle spans by size: (bytes, number of the segment, start).
        self._spans: list[tuple[int, int, int, _Segment]] = []
        self._splits: bool | None = None
        # Holders of optional memory, which they drop when memory runs short.
        self.keepers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.unlock()

    def unlock(self) -> None:
        """Start with a new lock, in a forked child."""
        self._lock = threading.RLock()

    @property
    def parts(self) -> bool:
        """Whether the device has handles of parts; known after the first allocation."""
        return bool(self._splits)

    def bin(self, room: int) -> list[Any]:
        """Return the idle blocks of a class, most recently used last; always the same list."""
        found = self._bins.get(room)
        return self._bins.setdefault(room, []) if found is None else found

    def reserve(self, nbytes: int, op: str | None = None) -> None:
        """Reserve the bytes of a call; OutOfMemoryError if they would exceed the limit."""
        total = self.in_use + nbytes
        if total > self.ceiling:
            self._pass(total, nbytes, op)

    def _pass(self, total: int, nbytes: int, op: str | None) -> None:
        if self.limit is not None and total > self.limit:
            raise OutOfMemoryError(
                f"a call needs {bytes_text(nbytes)}, but {bytes_text(self.in_use)} of the limit of "
                f"{bytes_text(self.limit)} are in use; free tensors, or raise the limit with "
                f"calor.set_memory_limit",
                op=op,
            )
        with self._lock:
            self.peak = max(self.peak, total)
            self._set_ceiling()

    def _set_ceiling(self) -> None:
        self.ceiling = self.peak if self.limit is None else min(self.peak, self.limit)

    def set_limit(self, limit: int | None) -> None:
        """Set the limit of bytes in use; idle memory beyond it returns to the device."""
        self.limit = limit
        self._set_ceiling()
        if limit is not None and self.held > limit:
            self.trim()

    def take(self, nbytes: int) -> KernelBuffer:
        """Return a new buffer; OutOfMemoryError if the limit or the device is exceeded."""
        self.reserve(nbytes)
        handle, room = self.raw(nbytes)
        if ONE_AT_A_TIME:
            self.in_use += nbytes
        else:
            count(self, nbytes)
        return KernelBuffer(self, handle, self.bin(room), nbytes)

    def taker(self, nbytes: int) -> Callable[[], KernelBuffer]:
        """Return :meth:`take` specialized for one size, with its class computed once."""
        room = room_for(nbytes)
        idle = self.bin(room)

        def take() -> KernelBuffer:
            total = self.in_use + nbytes
            if total > self.ceiling:
                self._pass(total, nbytes, None)
            try:
                handle = idle.pop()
            except IndexError:
                return self.take(nbytes)
            if ONE_AT_A_TIME:
                self.in_use += nbytes
            else:
                count(self, nbytes)
            return KernelBuffer(self, handle, idle, nbytes)

        return take

    def uncounted(self, nbytes: int) -> KernelBuffer:
        """Return a buffer outside the tensor count: a plan's constants or its kept memory."""
        handle, room = self.raw(nbytes)
        return KernelBuffer(self, handle, self.bin(room), 0)

    def raw(self, nbytes: int) -> tuple[Any, int]:
        """Return an uncounted block and its class; :meth:`give` takes it back."""
        room = room_for(nbytes)
        idle = self.bin(room)
        try:
            return idle.pop(), room
        except IndexError:
            return self.find(room)

    def settle(self) -> None:
        """Order idle blocks, so that a program takes the same ones whatever order freed them.

        A program of many stages frees blocks in another order than it takes them, and would have
        another permutation at each call, for which devices prepare launches anew. Ordering takes
        30 ns a block, so classes with many idle blocks are left as they are.
        """
        for idle in list(self._bins.values()):
            if 1 < len(idle) <= _ORDERED:
                # No Python code runs meanwhile, in which the list could change.
                idle.sort(key=id)

    def has_room(self, nbytes: int, beside: int) -> bool:
        """Return whether the limit allows uncounted bytes beside those of a call."""
        if self.limit is None:
            return True
        return max(self.held, self.in_use + beside) + nbytes <= self.limit

    def give(self, handle: Any, room: int, nbytes: int) -> None:
        """Take a block back and subtract ``nbytes``; also called during garbage collection.

        It takes no lock where one thread runs at a time, because a list append is atomic.
        """
        self.bin(room).append(handle)
        if ONE_AT_A_TIME:
            self.in_use -= nbytes
        else:
            count(self, -nbytes)

    def trim(self) -> None:
        """Return all idle memory to the device."""
        with self._lock:
            for keeper in list(self.keepers):
                keeper.drop()
            self._gather()
            for segment in [s for s in self._segments if s.idle.get(0) == s.nbytes]:
                self._take_span(segment, 0)
                self._segments.remove(segment)
                self._free(segment.handle, segment.nbytes)

    def figures(self) -> PoolFigures:
        """Return the byte counts."""
        return PoolFigures(self.in_use, self.peak, self.held, self.held_peak, self.limit)

    # Allocation without an idle block of the class.
    def find(self, room: int) -> tuple[Any, int]:
        with self._lock:
            if self._splits is None:
                probe = self._allocate(SMALLEST)
                self._splits = self.memory.part(probe, 0, SMALLEST) is not None
                self._free(probe, SMALLEST)
            if not self._splits or (self.memory.apart is not None and room > self.memory.apart):
                return self._find_whole(room)
            if room >= _LARGE and self._unused() >= room:
                # Memory that a program of other sizes left idle comes before untouched memory.
                self._gather()
            handle = self._cut(room)
            if handle is None and any(self._bins.values()):
                self._gather()
                handle = self._cut(room)
            if handle is None:
                self._grow(room)
                handle = self._cut(room)
            return handle, room

    def _find_whole(self, room: int) -> tuple[Any, int]:
        """Return a block of at most twice the size, or a new one; blocks cannot be split."""
        near = [r for r, idle in [*self._bins.items()] if room < r <= 2 * room and idle]
        for other in sorted(near):
            return self._bins[other].pop(), other
        unused = self._unused()
        above = self.limit is not None and self.held + room > self.limit
        if unused > self.held // 2 or above:
            self.trim()
        handle = self._allocate(room)
        self._whole[id(handle)] = handle
        return handle, room

    def _unused(self) -> int:
        """Return the bytes of idle blocks."""
        return sum(r * len(idle) for r, idle in [*self._bins.items()])

    def _grow(self, room: int) -> None:
        if room <= _SMALL:
            nbytes = 2 * _MEGA
        elif room <= _MIDDLE:
            nbytes = 2 * _MIDDLE
        else:
            nbytes = -(-room // (2 * _MEGA)) * 2 * _MEGA
        if self.limit is not None and self.held + nbytes > self.limit:
            self.trim()
            nbytes = room if self.held + nbytes > self.limit else nbytes
        try:
            segment = _Segment(self._allocate(nbytes), nbytes)
        except OutOfMemoryError:
            if nbytes <= room:
                raise
            # The device may have the requested bytes, but not a whole segment.
            nbytes = room
            segment = _Segment(self._allocate(nbytes), nbytes)
        self._segments.append(segment)
        self._add_span(segment, 0, nbytes)

    def _allocate(self, nbytes: int) -> Any:
        try:
            handle = self.memory.alloc(nbytes)
        except OutOfMemoryError:
            self.trim()
            handle = self.memory.alloc(nbytes)
        self.held += nbytes
        self.held_peak = max(self.held_peak, self.held)
        return handle

    def _free(self, handle: Any, nbytes: int) -> None:
        self._whole.pop(id(handle), None)
        self.memory.free(handle)
        self.held -= nbytes

    def _cut(self, room: int) -> Any | None:
        """Return a block cut from the smallest idle span that is large enough."""
        place = bisect_left(self._spans, (room, -1, -1))
        if place == len(self._spans):
            return None
        nbytes, _, start, segment = self._spans[place]
        self._take_span(segment, start)
        if nbytes > room:
            self._add_span(segment, start + room, nbytes - room)
        handle = self.memory.part(segment.handle, start, room)
        self._owners[handle] = (segment, start)
        return handle

    def _gather(self) -> None:
        """Join all idle blocks with their neighbours, or free the unsplit ones."""
        for room, idle in list(self._bins.items()):
            while idle:
                handle = idle.pop()
                owner = self._owners.pop(handle, None)
                if owner is None:
                    self._free(handle, room)
                else:
                    self._join(*owner, room)

    def _join(self, segment: _Segment, start: int, nbytes: int) -> None:
        after = segment.idle.get(start + nbytes)
        if after is not None:
            self._take_span(segment, start + nbytes)
            nbytes += after
        before = next((s for s, n in segment.idle.items() if s + n == start), None)
        if before is not None:
            nbytes += segment.idle[before]
            self._take_span(segment, before)
            start = before
        self._add_span(segment, start, nbytes)

    def _add_span(self, segment: _Segment, start: int, nbytes: int) -> None:
        segment.idle[start] = nbytes
        insort(self._spans, (nbytes, id(segment), start, segment))

    def _take_span(self, segment: _Segment, start: int) -> None:
        nbytes = segment.idle.pop(start)
        del self._spans[bisect_left(self._spans, (nbytes, id(segment), start))]
