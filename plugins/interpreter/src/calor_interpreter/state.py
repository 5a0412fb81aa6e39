"""The memory state of a batch."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from calor_kernel.ir.nodes import Kernel, Memory

Array = np.ndarray[Any, Any]


class Watch(Protocol):
    """The checks of a memory. ``pending``: elements with an asynchronous copy in flight."""

    pending: Array | None

    def read(self, *given: Any, **options: Any) -> None:
        """Check a read."""

    def read_each(self, *given: Any, **options: Any) -> None:
        """Check reads of one element each."""

    def write(self, *given: Any, **options: Any) -> None:
        """Check a write."""

    def write_each(self, *given: Any, **options: Any) -> None:
        """Check writes to one element each."""

    def arrive(self, *given: Any) -> None:
        """Note the arrival of an asynchronous copy's data."""

    def place(self, cell: int) -> int:
        """Return the index of a cell's element."""


class State:
    """A batch's view of a memory: ``data``, and the position of each unit's index 0 in it.

    Indices from ``low`` to ``high`` − 1 are valid; ``base`` is a number, or one per unit; ``watch``
    holds the checks, or None.
    """

    __slots__ = ("base", "data", "high", "low", "memory", "watch")

    def __init__(
        self,
        memory: Memory,
        data: Array,
        base: int | Array,
        low: int,
        high: int,
        watch: Watch | None = None,
    ) -> None:
        self.memory = memory
        self.data = data
        self.base = base
        self.low = low
        self.high = high
        self.watch = watch

    def places(self, index: Array) -> Array:
        """Return the positions of elements in ``data``."""
        if isinstance(self.base, int):
            return index + self.base if self.base else index
        return index + (self.base if index.ndim == 1 else self.base[:, None])

    def start(self, lane: int) -> int:
        """Return the position of a unit's index 0 in ``data``."""
        return self.base if isinstance(self.base, int) else int(self.base[lane])

    def index(self, cell: int, lane: int) -> int:
        """Return the index of a cell's element, for a unit."""
        place = cell if self.watch is None else self.watch.place(cell)
        return place - self.start(lane)


def selections(kernel: Kernel) -> list[Memory]:
    """Return the memories that a kernel selects among others."""
    found = (op.memory for op in kernel.body.walk() if op.name == "select_memory")
    return [memory for memory in found if memory is not None]
