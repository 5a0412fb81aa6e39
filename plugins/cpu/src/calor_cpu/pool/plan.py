"""A plan: launches recorded once, run by one native call with the addresses of this time.

Requirements: the call is short, so a plan is one block of memory that holds everything that the
native code reads; a plan may be called from several threads at once; a plan that takes long gives
up the interpreter's lock, a short one keeps it, since to give it up and take it back costs more.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final

from calor.errors import ArgumentError, DeviceError
from calor_cpu.pool.layout import Block, Layout, Record
from calor_cpu.pool.pool import Pool
from calor_cpu.pool.structures import Status

# Below this estimate a run keeps the interpreter's lock.
KEEP_S: Final = 5e-6


def is_long(seconds: float | None) -> bool:
    """Return whether a run of so many seconds, None for many, gives up the interpreter's lock."""
    return seconds is None or seconds > KEEP_S


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

    __slots__ = ("_runner", "call")

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
        layout = Layout.of(pool, records, slots, is_long(seconds))
        block = layout.copied(RESUME)
        self._runner = Runner(pool, slots, block, keep, explain)
        block.own(id(self._runner))
        self.call: Callable[..., None] = pool.native.function(block.address, self._runner)

    @classmethod
    def of(cls, runner: Runner, call: Callable[..., None]) -> Plan:
        """Return the plan of a runner, whose block is its own, and of its built-in function."""
        made = cls.__new__(cls)
        made._runner = runner
        made.call = call
        return made

    @property
    def slots(self) -> int:
        """How many addresses a call takes."""
        return self._runner.slots

    def __call__(self, bases: Sequence[int]) -> None:
        """Run with an address for each slot; KernelFailure where a kernel set the error word."""
        self.call(*bases)

    def seconds(self, bases: Sequence[int]) -> list[float]:
        """Run, and return how long each launch took."""
        times = (ctypes.c_int64 * (self._runner.block.count + 1))()
        self._runner.run(bases, ctypes.addressof(times))
        return [(b - a) * 1e-9 for a, b in pairwise(times)]


class Runner:
    """What a plan's built-in function owns: the memory, and the way on when a run ends early."""

    __slots__ = ("_explain", "_keep", "_spare", "block", "pool", "slots")

    def __init__(
        self, pool: Pool, slots: int, block: Block, keep: object, explain: Explain
    ) -> None:
        self.pool = pool
        self.slots = slots
        self.block = block
        self._keep = keep
        self._explain = explain
        self._spare: list[Runner] | None = None

    def run(self, bases: Sequence[int], times: int | None = None) -> None:
        """Run with an address for each slot; ``times`` is where the clock is noted."""
        if len(bases) != self.slots:
            raise ArgumentError(f"the plan has {self.slots} slots, not {len(bases)}")
        packed = struct.pack(f"{self.slots}Q", *bases)
        spare, address = None, self.block.address
        try:
            while status := self.pool.native.run(address, packed, times):
                if status == Status.BUSY:
                    # Another thread runs the plan, with its addresses in the arguments.
                    spare = self._copy()
                    address = spare.block.address
                else:
                    self._mend(status)
        finally:
            if spare is not None:
                if self._spare is None:
                    self._spare = []
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

    def _copy(self) -> Runner:
        if self._spare:
            with suppress(IndexError):  # Another thread may have taken it.
                return self._spare.pop()
        made = Runner(self.pool, self.slots, self.block, self._keep, self._explain)
        made.block = self.block.copy(id(made))
        return made


# What the native code calls where a run does not end well.
RESUME: Final = id(Runner.resume)
