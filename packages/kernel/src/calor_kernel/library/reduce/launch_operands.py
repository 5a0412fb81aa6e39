"""Where the operands and results of a program lie: an argument of the launch, and a view of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from calor_kernel.contract.work import Argument, Input, Output, Scratch, View
from calor_kernel.library.elementwise.values import parts

Memory = Input | Output | Scratch


@dataclass(frozen=True, slots=True)
class Placed:
    """A view of a buffer argument, whose own offset the view's is added to."""

    memory: Memory
    view: View

    @property
    def argument(self) -> Argument:
        """The argument of a launch, which begins at the view's first element."""
        offset = self.memory.offset + self.view.offset * parts(self.view.dtype)
        return replace(self.memory, offset=offset)


@dataclass(frozen=True, slots=True)
class Job:
    """What a launch, or some, do: a program's operands and results, and the numbers of it.

    ``shape`` and ``axes``: the elements, and the axes along which rows lie. ``sources`` are in the
    order of the program's operands in memory, ``numbers`` in that of those that are numbers. A view
    of what is one value a row lacks the axes.
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
