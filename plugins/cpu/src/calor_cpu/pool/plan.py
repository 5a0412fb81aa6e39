"""A plan: launches recorded once, and run by one native call with the current addresses.

Requirements: the call is short, so a plan is one block of memory with all data of the native code.
Several threads may call a plan at once. A long plan releases the interpreter's lock; a short one
keeps it, because a release costs more than the run.
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

# A run with a smaller estimate keeps the interpreter's lock.
KEEP_S: Final = 5e-6


def is_long(seconds: float | None) -> bool:
    """Return whether a run of a duration in seconds, None for a long one, releases the lock."""
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
    """Launches that run in order; each call gives addresses for ``slots``.

    ``seconds`` is the estimated duration of a run, None for a long one. ``keep`` owns the code of
    the functions and lives as long as the plan. ``call(*addresses)``, a built-in function of
    integers, is the fastest way to run it. ``explain`` creates the error of a failed launch from
    its number and code.

    The 8 bytes before a launch's arguments are the address of the plan's 32-bit error word. A
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
        """Return the plan of a runner, which owns its block and its built-in function."""
        made = cls.__new__(cls)
        made._runner = runner
        made.call = call
        return made

    @property
    def slots(self) -> int:
        """The number of addresses in a call."""
        return self._runner.slots

    def __call__(self, bases: Sequence[int]) -> None:
        """Run with an address for each slot.

        Raises
        ------
        KernelFailure
            If a kernel set the error word.
        """
        self.call(*bases)

    def seconds(self, bases: Sequence[int]) -> list[float]:
        """Run, and return the duration of each launch in seconds."""
        times = (ctypes.c_int64 * (self._runner.block.count + 1))()
        self._runner.run(bases, ctypes.addressof(times))
        return [(b - a) * 1e-9 for a, b in pairwise(times)]


class Runner:
    """The owner of a plan's built-in function: its memory, and how to continue runs."""

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
        """Run with an address for each slot; ``times`` receives clock values."""
        if len(bases) != self.slots:
            raise ArgumentError(
                f"the plan takes {self.slots} addresses, one for each slot, not {len(bases)}"
            )
        packed = struct.pack(f"{self.slots}Q", *bases)
        spare, address = None, self.block.address
        try:
            while status := self.pool.native.run(address, packed, times):
                if status == Status.BUSY:
                    # Another thread runs the plan, and the arguments hold its addresses.
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
        """Continue a run that the built-in function could not finish."""
        if status not in (Status.BUSY, Status.COUNT):
            self._mend(status)
        self.run(bases)

    def _mend(self, status: int) -> None:
        """Start missing workers; raise any other error of a run."""
        if status == Status.START:
            self.pool.start()
        elif status & 255 == Status.FAILED:
            raise self._explain(status >> 8 & 0xFFFFFF, status >> 32)
        else:
            self.pool.cancelled()

    def _copy(self) -> Runner:
        if self._spare:
            with suppress(IndexError):  # Another thread may hold it.
                return self._spare.pop()
        made = Runner(self.pool, self.slots, self.block, self._keep, self._explain)
        made.block = self.block.copy(id(made))
        return made


# Called by the native code if a run does not succeed.
RESUME: Final = id(Runner.resume)
