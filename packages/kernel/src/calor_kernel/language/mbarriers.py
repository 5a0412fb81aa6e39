"""Barriers in shared memory, which count arrivals and the bytes that copies bring.

Requirements: roles hand stages to each other without stopping the cube; a barrier goes through
phases, and a wait names the phase by its parity, so that nobody waits for a phase that is over.
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
from calor_kernel.language.statements import branch
from calor_kernel.language.values import Number


class Mbarriers:
    """``count`` barriers, each of which ends a phase after ``arrivals`` and the bytes expected.

    Making them is something that all units of the cube do together. The phases of a barrier have
    the parities 0, 1, 0, …; waiting for parity 1 before the first phase ends returns at once. Each
    cube of a cluster has its own, at which the others may arrive too. ``meet``: whether all units
    meet then, before which none may be used; of several made in a row the last ones' will do.
    """

    __slots__ = ("count", "pointer")

    def __init__(self, count: int, arrivals: int, *, meet: bool = True) -> None:
        if not has("mbarrier"):
            raise KernelTypeError("the device has no barriers in memory; hand over by barrier()")
        self.count = count
        self.pointer: Pointer = shared(count, uint64, align=8)

        def initialize() -> tuple[Any, ...]:
            for i in range(count):
                self._emit("mbarrier_init", i, arrivals)
            return ()

        branch(unit_index() == 0, initialize, lambda: (), (), ())
        if meet:
            barrier("cluster" if clustered() else "cube")

    def expect(self, index: Any, nbytes: Any) -> None:
        """Say that copies will bring bytes in this phase, without arriving."""
        self._emit("mbarrier_expect", index, nbytes)

    def arrive(self, index: Any, *, rank: Any = None) -> None:
        """Count an arrival; what the unit read and wrote before comes before the phase's end.

        ``rank``: of which cube of the cluster the barrier is, this one's if not said. To another
        cube it says that shared memory was read, and nothing of what was written to other memory.
        """
        self._emit("mbarrier_arrive", index, *(() if rank is None else (rank,)))

    def wait(self, index: Any, parity: Any) -> None:
        """Wait for the end of the phase of a parity; what came before it is visible then."""
        self._emit("mbarrier_wait", index, parity)

    def place(self, index: Any) -> Number:
        """Return a barrier's index in its memory."""
        builder = current()
        return builder.coerce(index, Type(builder.index))

    def _emit(self, name: str, index: Any, *numbers: Any) -> None:
        builder = current()
        place = self.place(index)
        operands = [place, *(builder.coerce(n, place.type) for n in numbers)]
        builder.emit(name, operands, memory=self.pointer.memory)
