"""The operands and results of a program: arguments of the launch, and their views."""

from __future__ import annotations

from dataclasses import dataclass, replace

from calor_kernel.contract.work import Argument, Input, Output, Scratch, View
from calor_kernel.library.elementwise.values import parts

Memory = Input | Output | Scratch


@dataclass(frozen=True, slots=True)
class Placed:
    """A view of a buffer argument; the offsets of both are added."""

    memory: Memory
    view: View

    @property
    def argument(self) -> Argument:
        """The launch's argument, from the view's first element on."""
        offset = self.memory.offset + self.view.offset * parts(self.view.dtype)
        return replace(self.memory, offset=offset)


@dataclass(frozen=True, slots=True)
class Job:
    """The task of one or more launches: a program's operands, results and numbers.

    ``shape`` and ``axes``: the elements, and the axes of a row. ``sources`` are in the order of the
    program's operands in memory, ``numbers`` in that of its scalar operands. A view of one value a
    row lacks the axes.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    sources: tuple[Placed, ...]
    targets: tuple[Placed, ...]
    numbers: tuple[float, ...]
    label: str

    @property
    def rows(self) -> tuple[int, ...]:
        """The shape without the axes of a row."""
        return tuple(n for a, n in enumerate(self.shape) if a not in self.axes)
