"""A plan: launches recorded once, run by one native call with the addresses of this time.

Requirements: the call is short, so a plan is one block of memory that holds everything that the
native code reads; a plan may be called from several threads at once; a plan that takes long gives
up the interpreter's lock, a short one keeps it, since to give it up and take it back costs more.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from calor.dtypes import DType
from calor.errors import ArgumentError, DeviceError
from calor_cpu.pool.pool import Pool
from calor_cpu.pool.structures import (
    PlanState,
    RecordState,
    RelocationState,
    Status,
)
from calor_kernel.runtime.device import Slot

# Below this estimate a run keeps the interpreter's lock.
_KEEP_S = 5e-6
_MASK = 2**64 - 1


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


class KernelFailure(DeviceError):
    """A kernel set its plan's error word: ``record`` is the launch's number, ``code`` the word."""

    def __init__(self, record: int, code: int) -> None:
        super().__init__(f"launch {record} of a plan failed with code {code}")
        self.record = record
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return (KernelFailure, (self.record, self.code))


Explain = Callable[[int, int], Exception]


class Plan:
    """Launches that run in order; ``slots`` addresses are given at each call.

    ``seconds`` is the estimated time of a run, None for a long one. ``keep`` is kept alive as long
    as the plan: what its functions' code belongs to. ``call(*addresses)``, a built-in function that
    takes integers alone, is the shortest way to run it. ``explain`` makes the error of a launch
    that failed, of its number and the code.

    The 8 bytes before a launch's arguments hold the address of the plan's 32-bit error word; a
    kernel that stores a number there ends the run after its launch, with KernelFailure.
    """

    __slots__ = ("_runner", "call", "keep", "pool", "records", "slots")

    def __init__(
        self,
        pool: Pool,
        records: Sequence[Record],
        slots: int,
        *,
        seconds: float | None = None,
        keep: Any = None,
        explain: Explain = KernelFailure,
    ) -> None:
        self.pool = pool
        self.records = tuple(records)
        self.slots = slots
        self.keep = keep
        release = seconds is None or seconds > _KEEP_S
        self._runner = _Runner(pool, self.records, slots, release, keep, explain)
        self.call: Callable[..., None] = pool.native.function(self._runner.address, self._runner)

    def __call__(self, bases: Sequence[int]) -> None:
        """Run with an address for each slot; KernelFailure where a kernel set the error word."""
        self.call(*bases)

    def seconds(self, bases: Sequence[int]) -> list[float]:
        """Run, and return how long each launch took."""
        times = (ctypes.c_int64 * (len(self.records) + 1))()
        self._runner.run(bases, ctypes.addressof(times))
        return [(b - a) * 1e-9 for a, b in pairwise(times)]


class _Runner:
    """What a plan's built-in function owns: the memory, and the way on when a run ends early."""

    __slots__ = ("_again", "_block", "_explain", "_pack", "_spare", "address", "pool", "slots")

    def __init__(
        self,
        pool: Pool,
        records: tuple[Record, ...],
        slots: int,
        release: bool,
        keep: object,
        explain: Explain,
    ) -> None:
        self.pool = pool
        self._explain = explain
        self.slots = slots
        self._pack = struct.Struct(f"{slots}Q").pack
        self._block = _layout(self, records, release)
        self._spare: list[_Runner] = []
        self._again = (pool, records, slots, release, keep, explain)
        self.address = ctypes.addressof(self._block)

    def run(self, bases: Sequence[int], times: int | None = None) -> None:
        """Run with an address for each slot; ``times`` is where the clock is noted."""
        if len(bases) != self.slots:
            raise ArgumentError(f"the plan has {self.slots} slots, not {len(bases)}")
        packed = self._pack(*bases)
        spare, address = None, self.address
        try:
            while status := self.pool.native.run(address, packed, times):
                if status == Status.BUSY:
                    # Another thread runs the plan, with its addresses in the arguments.
                    spare = self._copy()
                    address = spare.address
                else:
                    self._mend(status)
        finally:
            if spare is not None:
                self._spare.append(spare)

    def resume(self, status: int, bases: tuple[int, ...]) -> None:
        """Go on where the built-in function could not."""
        if status not in (Status.BUSY, Status.COUNT):
            self._mend(status)
        self.run(bases)

    def _mend(self, status: int) -> None:
        """Start the workers if that was missing; raise what else a run ended with."""
        if status == Status.START:
            self.pool.start()
        elif status & 255 == Status.FAILED:
            raise self._explain(status >> 8 & 0xFFFFFF, status >> 32)
        else:
            self.pool.cancelled()

    def _copy(self) -> _Runner:
        try:
            return self._spare.pop()
        except IndexError:
            return _Runner(*self._again)


def _layout(runner: _Runner, records: tuple[Record, ...], release: bool) -> Any:
    """Return a plan's memory: header, records, relocations, bases, blocks of arguments."""
    moves = [
        (i, j, argument)
        for i, record in enumerate(records)
        for j, argument in enumerate(record.arguments)
        if isinstance(argument, Slot)
    ]
    records_at = ctypes.sizeof(PlanState)
    moves_at = records_at + ctypes.sizeof(RecordState) * len(records)
    bases_at = moves_at + ctypes.sizeof(RelocationState) * len(moves)
    at = bases_at + 8 * runner.slots
    args_at = []
    for record in records:
        # Before the arguments the error word's address, behind them the cubes along the axes.
        args_at.append(at + 8)
        at += 8 * (1 + len(record.arguments) + 3)
    block = (ctypes.c_uint64 * (at // 8))()
    start = ctypes.addressof(block)

    header = PlanState.from_buffer(block)
    header.pool = runner.pool.address
    header.records, header.count = start + records_at, len(records)
    header.relocations, header.relocation_count = start + moves_at, len(moves)
    header.bases, header.slots = start + bases_at, runner.slots
    header.owner, header.resume = id(runner), id(_Runner.resume)
    header.parallel = any(0 < record.grain < record.count for record in records)
    header.release = release

    def write(at: int, *words: int) -> None:
        struct.pack_into(f"{len(words)}Q", block, at, *words)

    for i, (record, where) in enumerate(zip(records, args_at, strict=True)):
        at = records_at + ctypes.sizeof(RecordState) * i
        write(at, record.function, start + where, record.count, record.grain)
        values = (0 if isinstance(a, Slot) else a & _MASK for a in record.arguments)
        write(where - 8, start + PlanState.error.offset, *values, *record.cubes)
    for k, (i, j, slot) in enumerate(moves):
        at = moves_at + ctypes.sizeof(RelocationState) * k
        write(at, start + args_at[i] + 8 * j, slot.number, slot.offset & _MASK)
    return block
