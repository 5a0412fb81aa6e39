"""Barriers in shared memory (mbarriers), which count arrivals and bytes of copies.

A barrier goes through phases; a wait names a phase by its parity.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import uint64
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.types import Type
from calor_kernel.language.builder import current
from calor_kernel.language.functions import barrier, unit_index
from calor_kernel.language.memory import Pointer, shared
from calor_kernel.language.roles import clustered, has
from calor_kernel.language.statements import when
from calor_kernel.language.values import Number


class Mbarriers:
    """``count`` barriers, each completing a phase after ``arrivals`` and the expected bytes.

    All units of the cube create them together. The phases of a barrier have the parities 0, 1, 0,
    …; waiting for parity 1 before the first phase ends returns at once. Each cube of a cluster has
    its own, and the others may arrive at it too. ``meet``: whether all units synchronize after the
    creation, which is required before the first use; for several created in a row, once at the last
    is enough.
    """

    __slots__ = ("count", "pointer")

    def __init__(self, count: int, arrivals: int, *, meet: bool = True) -> None:
        if not has("mbarrier"):
            raise KernelTypeError("the device has no barriers in memory; use barrier()")
        self.count = count
        self.pointer: Pointer = shared(count, uint64, align=8)

        def initialize() -> None:
            for i in range(count):
                self._emit("mbarrier_init", i, arrivals)

        when(unit_index() == 0, initialize)
        if meet:
            barrier("cluster" if clustered() else "cube")

    def expect(self, index: Any, nbytes: Any) -> None:
        """Expect bytes from copies in this phase, without arriving."""
        self._emit("mbarrier_expect", index, nbytes)

    def arrive(self, index: Any, *, rank: Any = None) -> None:
        """Arrive; the unit's earlier reads and writes happen before the end of the phase.

        ``rank``: the cube of the cluster that owns the barrier, by default this one. An arrival at
        another cube orders only reads of shared memory, not writes to other memory.
        """
        self._emit("mbarrier_arrive", index, *(() if rank is None else (rank,)))

    def wait(self, index: Any, parity: Any) -> None:
        """Wait for the end of the phase of a parity; earlier writes are visible afterwards."""
        self._emit("mbarrier_wait", index, parity)

    def place(self, index: Any) -> Number:
        """Return a barrier's index in its memory."""
        builder = current()
        return builder.coerce(index, Type(builder.index))

    def _emit(self, name: str, index: Any, *numbers: Any) -> None:
        builder, place = current(), self.place(index)
        operands = [place, *(builder.coerce(n, place.type) for n in numbers)]
        builder.emit(name, operands, memory=self.pointer.memory)
