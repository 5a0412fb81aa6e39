"""A memory as the units of a batch see it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from calor_kernel.ir.nodes import Memory

Array = np.ndarray[Any, Any]


class Watch(Protocol):
    """The checks of a memory. ``pending``: elements that an asynchronous copy is on the way to."""

    pending: Array | None

    def read(self, *given: Any, **options: Any) -> None:
        """Check a read."""

    def read_each(self, *given: Any, **options: Any) -> None:
        """Check reads of one place each."""

    def write(self, *given: Any, **options: Any) -> None:
        """Check a write."""

    def write_each(self, *given: Any, **options: Any) -> None:
        """Check writes to one place each."""

    def arrive(self, *given: Any) -> None:
        """Note that an asynchronous copy's data is there."""

    def place(self, cell: int) -> int:
        """Return the place of the element that a cell belongs to."""


class State:
    """A memory as a batch sees it: ``data`` and where each unit's index 0 lies in it.

    Indices from ``low`` to ``high`` − 1 exist; ``base`` is a number, or one per unit; ``watch``
    holds the checks, None where there are none.
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
        """Return where elements lie in ``data``."""
        if isinstance(self.base, int):
            return index + self.base if self.base else index
        return index + (self.base if index.ndim == 1 else self.base[:, None])

    def start(self, lane: int) -> int:
        """Return where a unit's index 0 lies in ``data``."""
        return self.base if isinstance(self.base, int) else int(self.base[lane])

    def index(self, cell: int, lane: int) -> int:
        """Return the index of the element that a cell of the checks belongs to."""
        place = cell if self.watch is None else self.watch.place(cell)
        return place - self.start(lane)
