"""A plan: launches recorded once, run by one native call with the addresses of this time.

Requirements: the call is short, so a plan is one block of memory that holds everything that the
native code reads; a plan may be called from several threads at once; a plan that takes long gives
up the interpreter's lock, a short one keeps it, since to give it up and take it back costs more.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from calor.dtypes import DType
from calor.errors import DeviceError
from calor_cpu.pool.pool import Pool
from calor_cpu.pool.structures import (
    PlanState,
    RecordState,
    RelocationState,
    Status,
)
from calor_kernel.errors import KernelCheckError
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
    the launch in the calling thread. ``failed``: the address of a word that the kernel sets to the
    address of a message where an assertion fails; 0 for a kernel without any.
    """

    function: int
    arguments: tuple[Slot | int, ...]
    cubes: tuple[int, int, int] = (1, 1, 1)
    grain: int = 0
    failed: int = 0

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


class Plan:
    """Launches that run in order; ``slots`` addresses are given at each call.

    ``seconds`` is the estimated time of a run, None for a long one. ``keep`` is kept alive as long
    as the plan: what its functions' code belongs to.

    A failed assertion ends the run after its launch, with KernelCheckError.
    """

    def __init__(
        self,
        pool: Pool,
        records: Sequence[Record],
        slots: int,
        *,
        seconds: float | None = None,
        keep: object = None,
    ) -> None:
        self.pool = pool
        self.records = tuple(records)
        self.slots = slots
        self.estimate = seconds
        self._keep = keep
        self._pack = struct.Struct(f"{slots}Q").pack
        self._spare: list[Plan] = []
        self._block = _layout(self)
        self._address = ctypes.addressof(self._block)
        self._run = pool.native.run

    def __call__(self, bases: Sequence[int]) -> None:
        """Run with an address for each slot; KernelCheckError where an assertion failed."""
        status = self._run(self._address, self._pack(*bases), None)
        if status:
            self._again(status, bases, None)

    def seconds(self, bases: Sequence[int]) -> list[float]:
        """Run, and return how long each launch took."""
        times = (ctypes.c_int64 * (len(self.records) + 1))()
        at = ctypes.addressof(times)
        status = self._run(self._address, self._pack(*bases), at)
        if status:
            self._again(status, bases, at)
        return [(b - a) * 1e-9 for a, b in pairwise(times)]

    def _again(self, status: int, bases: Sequence[int], times: int | None) -> None:
        """Do what a run asked for and run; raise what it failed with."""
        while status:
            kind = Status(status & 255)
            if kind is Status.START:
                self.pool.start()
                status = self._run(self._address, self._pack(*bases), times)
            elif kind is Status.BUSY:
                return self._elsewhere(bases, times)
            elif kind is Status.FAILED:
                raise self._failure(status >> 8)
            else:
                raise DeviceError("the pool was closed while a plan ran; its results are undefined")
        return None

    def _failure(self, number: int) -> KernelCheckError:
        """Return what a launch failed with, and forget it."""
        word = ctypes.c_void_p.from_address(self.records[number].failed)
        # Another plan with the same kernel may have taken the message.
        message = ctypes.string_at(word.value).decode() if word.value else "an assertion failed"
        word.value = None
        return KernelCheckError(f"launch {number}: {message}")

    def _elsewhere(self, bases: Sequence[int], times: int | None) -> None:
        """Run a copy, as another thread runs this plan with other addresses in its arguments."""
        try:
            spare = self._spare.pop()
        except IndexError:
            spare = Plan(
                self.pool, self.records, self.slots, seconds=self.estimate, keep=self._keep
            )
        try:
            status = self._run(spare._address, self._pack(*bases), times)
            if status:
                spare._again(status, bases, times)
        finally:
            self._spare.append(spare)


def _layout(plan: Plan) -> Any:
    """Return the plan's memory: header, records, relocations, checks, then a block per launch."""
    records = plan.records
    moves = [
        (i, j, argument)
        for i, record in enumerate(records)
        for j, argument in enumerate(record.arguments)
        if isinstance(argument, Slot)
    ]
    checked = any(record.failed for record in records)
    records_at = ctypes.sizeof(PlanState)
    moves_at = records_at + ctypes.sizeof(RecordState) * len(records)
    checks_at = moves_at + ctypes.sizeof(RelocationState) * len(moves)
    at = checks_at + 8 * len(records) * checked
    args_at = []
    for record in records:
        args_at.append(at)
        at += 8 * (len(record.arguments) + 3)
    block = (ctypes.c_uint64 * (at // 8))()
    start = ctypes.addressof(block)

    header = PlanState.from_buffer(block)
    header.pool = plan.pool.address
    header.records, header.count = start + records_at, len(records)
    header.relocations, header.relocation_count = start + moves_at, len(moves)
    header.checks = start + checks_at if checked else None
    header.parallel = any(0 < record.grain < record.count for record in records)
    header.release = plan.estimate is None or plan.estimate > _KEEP_S

    def write(at: int, words: list[int]) -> None:
        struct.pack_into(f"{len(words)}Q", block, at, *words)

    for i, (record, where) in enumerate(zip(records, args_at, strict=True)):
        at = records_at + ctypes.sizeof(RecordState) * i
        write(at, [record.function, start + where, record.count, record.grain])
        values = (0 if isinstance(a, Slot) else a & _MASK for a in record.arguments)
        write(where, [*values, *record.cubes])
    for k, (i, j, slot) in enumerate(moves):
        at = moves_at + ctypes.sizeof(RelocationState) * k
        write(at, [start + args_at[i] + 8 * j, slot.number, slot.offset & _MASK])
    if checked:
        write(checks_at, [record.failed for record in records])
    return block
