"""The memory of a plan: one block of words with all data of the native code.

Requirements: a block is copied and filled in a few microseconds, so that a plan that differs from a
known one in numbers only needs no new layout. A thread that finds a plan busy runs a copy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calor.dtypes import DType
from calor_cpu.pool.pool import Pool
from calor_cpu.pool.structures import (
    LoopState,
    PlanState,
    RecordState,
    RelocationState,
    ShiftState,
)
from calor_kernel.device.protocol import Slot

Words = np.ndarray[Any, np.dtype[np.uint64]]
Places = np.ndarray[Any, np.dtype[np.int64]]
_MASK = 2**64 - 1
_WORD = 8


@dataclass(frozen=True, slots=True)
class Record:
    """A launch of a plan.

    ``function`` is the address of ``void(ptr args, i64 begin, i64 end)``. ``arguments`` has for
    each parameter a Slot, or the 64 bits of the slot (see :func:`bits`). ``cubes`` are the counts
    along x, y and z. ``grain`` is the smallest number of cubes in a chunk, and chunks are multiples
    of it; 0 keeps the launch in the calling thread. ``loop``, for the last launch of a loop: the
    number of its launches and how often they run. ``shifts``: for each argument of a launch in a
    loop what its address moves by, every first and every second time.
    """

    function: int
    arguments: tuple[Slot | int, ...]
    cubes: tuple[int, int, int] = (1, 1, 1)
    grain: int = 0
    loop: tuple[int, int] | None = None
    shifts: tuple[tuple[int, int], ...] = ()

    @property
    def count(self) -> int:
        """The number of cubes."""
        x, y, z = self.cubes
        return x * y * z


def bits(value: int | float, dtype: DType) -> int:
    """Return a number as the 64 bits of an argument's slot: its bytes low, zeros above.

    >>> from calor.dtypes import float32, int64
    >>> hex(bits(1.0, float32)), hex(bits(-1, int64))
    ('0x3f800000', '0xffffffffffffffff')
    """
    return int.from_bytes(np.asarray(value, dtype.numpy).tobytes(), "little")


class Block:
    """The memory of a plan, and the words in it that are addresses inside of it."""

    __slots__ = ("address", "pointers", "words")

    def __init__(self, words: ctypes.Array[ctypes.c_uint64], pointers: Places) -> None:
        self.words = words
        self.pointers = pointers
        self.address = ctypes.addressof(words)

    @property
    def count(self) -> int:
        """The number of launches."""
        return self.words[_COUNT]

    def own(self, owner: int, old: int = 0) -> None:
        """Relocate the block: addresses relative to ``old`` become addresses in this block."""
        words: Words = np.frombuffer(memoryview(self.words), np.uint64)
        words[self.pointers] += np.uint64(self.address - old & _MASK)
        words[_OWNER] = owner

    def copy(self, owner: int) -> Block:
        """Return another block of the same plan, not running."""
        made = Block(type(self.words).from_buffer_copy(self.words), self.pointers)
        made.words[_BUSY_AND_ERROR] = 0
        made.own(owner, self.address)
        return made


@dataclass(frozen=True, slots=True)
class Layout:
    """Header, records, relocations, bases and blocks of arguments, as words.

    ``words`` hold offsets in the block at the indices in ``pointers``. ``arguments`` has for each
    launch the index of its first argument; ``moves`` has the indices of slot offsets by launch and
    argument. ``shifts`` has those of what an address moves by first, which the second follows,
    and ``times`` those of how often a loop runs, by launch. ``count`` is the number of launches.
    """

    words: Words
    pointers: Places
    arguments: tuple[int, ...]
    moves: dict[tuple[int, int], int]
    shifts: dict[tuple[int, int], int]
    times: dict[int, int]

    @property
    def count(self) -> int:
        """The number of launches."""
        return len(self.arguments)

    @staticmethod
    def record(number: int) -> int:
        """Return the index of a launch's function; arguments, cubes and grain follow it."""
        return (ctypes.sizeof(PlanState) + ctypes.sizeof(RecordState) * number) // _WORD

    def copied(self, resume: int) -> Block:
        """Return a copy of the words, which still hold offsets."""
        words = (ctypes.c_uint64 * len(self.words)).from_buffer_copy(self.words.tobytes())
        words[_RESUME] = resume
        return Block(words, self.pointers)

    @staticmethod
    def of(pool: Pool, records: Sequence[Record], slots: int, release: bool) -> Layout:
        """Return the layout of launches."""
        moves = [
            (i, j, argument)
            for i, record in enumerate(records)
            for j, argument in enumerate(record.arguments)
            if isinstance(argument, Slot)
        ]
        records_at = ctypes.sizeof(PlanState)
        moves_at = records_at + ctypes.sizeof(RecordState) * len(records)
        bases_at = moves_at + ctypes.sizeof(RelocationState) * len(moves)
        loops_at = bases_at + _WORD * slots
        loops = [i for i, record in enumerate(records) if record.loop is not None]
        shifts_at = loops_at + ctypes.sizeof(LoopState) * len(loops)
        shifts = [
            (k, i, j, shift)
            for k, last in enumerate(loops)
            for i in range(last + 1 - records[last].loop[0], last + 1)  # type: ignore[index]
            for j, shift in enumerate(records[i].shifts)
            if shift != (0, 0)
        ]
        at = shifts_at + ctypes.sizeof(ShiftState) * len(shifts)
        args_at = []
        for record in records:
            # The error word's address precedes the arguments; the cubes along the axes follow them.
            args_at.append(at + _WORD)
            at += _WORD * (1 + len(record.arguments) + 3)
        words: Words = np.zeros(at // _WORD, np.uint64)
        header = PlanState.from_buffer(words.data)
        header.pool = pool.address
        header.records, header.count = records_at, len(records)
        header.relocations, header.relocation_count = moves_at, len(moves)
        header.bases, header.slots = bases_at, slots
        header.loops, header.loop_count = loops_at, len(loops)
        header.parallel = any(0 < record.grain < record.count for record in records)
        header.release = release
        pointers = [PlanState.records.offset, PlanState.relocations.offset, PlanState.bases.offset]
        pointers.append(PlanState.loops.offset)

        def write(at: int, *values: int) -> None:
            for k, value in enumerate(values):
                words[at // _WORD + k] = value & _MASK

        for i, (record, where) in enumerate(zip(records, args_at, strict=True)):
            at = records_at + ctypes.sizeof(RecordState) * i
            write(at, record.function, where, record.count, record.grain)
            values = (0 if isinstance(a, Slot) else a for a in record.arguments)
            write(where - _WORD, PlanState.error.offset, *values, *record.cubes)
            pointers += [at + RecordState.args.offset, where - _WORD]
        places = {}
        for k, (i, j, slot) in enumerate(moves):
            at = moves_at + ctypes.sizeof(RelocationState) * k
            write(at, args_at[i] + _WORD * j, slot.number, slot.offset)
            pointers.append(at)
            places[i, j] = (at + RelocationState.offset.offset) // _WORD
        moving: dict[tuple[int, int], int] = {}
        for n, (_, i, j, (even, odd)) in enumerate(shifts):
            at = shifts_at + ctypes.sizeof(ShiftState) * n
            write(at, args_at[i] + _WORD * j, even, odd)
            pointers.append(at)
            moving[i, j] = (at + ShiftState.even.offset) // _WORD
        times: dict[int, int] = {}
        first = 0
        for k, last in enumerate(loops):
            at = loops_at + ctypes.sizeof(LoopState) * k
            back, count = records[last].loop  # type: ignore[misc]
            own = sum(one[0] == k for one in shifts)
            write(at, 0, count, back, shifts_at + ctypes.sizeof(ShiftState) * first, own)
            first += own
            where = records_at + ctypes.sizeof(RecordState) * last + RecordState.loop.offset
            write(where, at)
            pointers += [where, at + LoopState.shifts.offset]
            times[last] = (at + LoopState.times.offset) // _WORD
        return Layout(
            words,
            np.array(pointers, np.int64) // _WORD,
            tuple(where // _WORD for where in args_at),
            places,
            moving,
            times,
        )


_OWNER = PlanState.owner.offset // _WORD
_RESUME = PlanState.resume.offset // _WORD
_COUNT = PlanState.count.offset // _WORD
# Two 32-bit words.
_BUSY_AND_ERROR = PlanState.busy.offset // _WORD
