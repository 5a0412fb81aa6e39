"""The memory of a plan: one block of words that everything that the native code reads lies in.

Requirements: a block is copied and filled in a few microseconds, so that a plan that differs from a
known one only in numbers is not written anew; a thread that finds a plan busy runs a copy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calor.dtypes import DType
from calor_cpu.pool.pool import Pool
from calor_cpu.pool.structures import PlanState, RecordState, RelocationState
from calor_kernel.runtime.device import Slot

Words = np.ndarray[Any, np.dtype[np.uint64]]
_MASK = 2**64 - 1
_WORD = 8


@dataclass(frozen=True, slots=True)
class Record:
    """A launch of a plan.

    ``function``: the address of ``void(ptr args, i64 begin, i64 end)``. ``arguments``: per
    parameter a Slot, or the 64 bits of the slot (see :func:`bits`). ``cubes``: along x, y and z.
    ``grain``: the fewest cubes that are worth a chunk; chunks are whole numbers of grains; 0 keeps
    the launch in the calling thread.
    """

    function: int
    arguments: tuple[Slot | int, ...]
    cubes: tuple[int, int, int] = (1, 1, 1)
    grain: int = 0

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


@dataclass(frozen=True, slots=True)
class Layout:
    """Header, records, relocations, bases and blocks of arguments, as words.

    ``words`` hold places in the block where ``pointers`` says that addresses are. ``arguments``:
    for each launch, the word of its first argument; ``moves``: the words of the offsets of slots,
    by launch and argument. ``count`` is how many launches there are.
    """

    words: Words
    pointers: np.ndarray[Any, np.dtype[np.int64]]
    arguments: tuple[int, ...]
    moves: dict[tuple[int, int], int]

    @property
    def count(self) -> int:
        """The number of launches."""
        return len(self.arguments)

    @staticmethod
    def record(number: int) -> int:
        """Return the word of a launch's function; arguments, cubes and grain follow it."""
        return (ctypes.sizeof(PlanState) + ctypes.sizeof(RecordState) * number) // _WORD

    def with_words(self, words: Words, *, parallel: bool, release: bool) -> Layout:
        """Return the layout of the same launches with other numbers."""
        words[_FLAGS] = parallel | release << 32
        return Layout(words, self.pointers, self.arguments, self.moves)

    def placed(self, owner: int, resume: int) -> tuple[Words, int]:
        """Return words of one's own with addresses in them, and where they begin."""
        words = self.words.copy()
        start: int = words.__array_interface__["data"][0]
        words[self.pointers] += np.uint64(start)
        words[_OWNER] = owner
        words[_RESUME] = resume
        return words, start

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
        at = bases_at + _WORD * slots
        args_at = []
        for record in records:
            # Before the arguments the error word's address, behind them the cubes along the axes.
            args_at.append(at + _WORD)
            at += _WORD * (1 + len(record.arguments) + 3)
        words: Words = np.zeros(at // _WORD, np.uint64)
        header = PlanState.from_buffer(words.data)
        header.pool = pool.address
        header.records, header.count = records_at, len(records)
        header.relocations, header.relocation_count = moves_at, len(moves)
        header.bases, header.slots = bases_at, slots
        header.parallel = any(0 < record.grain < record.count for record in records)
        header.release = release
        pointers = [PlanState.records.offset, PlanState.relocations.offset, PlanState.bases.offset]

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
        return Layout(
            words,
            np.array(pointers, np.int64) // _WORD,
            tuple(where // _WORD for where in args_at),
            places,
        )


_OWNER = PlanState.owner.offset // _WORD
_RESUME = PlanState.resume.offset // _WORD
# Two flags of 32 bits, of which ``parallel`` is the low half.
_FLAGS = PlanState.parallel.offset // _WORD
