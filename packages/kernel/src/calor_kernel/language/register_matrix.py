"""What is known of the registers that a unit holds of a matrix."""

from __future__ import annotations

from typing import Protocol

from calor.dtypes import DType
from calor_kernel.language.arrays import Registers
from calor_kernel.language.matrices import MatrixShape, Side


class HeldMatrix(Protocol):
    """A unit's registers of a matrix: a fragment. ``parts`` are vectors of ``width`` registers."""

    shape: MatrixShape
    side: Side
    parts: Registers
    width: int

    @property
    def dtype(self) -> DType:
        """The element type."""

    @property
    def extent(self) -> tuple[int, int]:
        """The rows and columns of the whole matrix."""

    @property
    def count(self) -> int:
        """The number of registers that a unit has of it."""

    def register_place(self, register: int) -> tuple[int, int]:
        """Return how far a register lies from register 0, in rows and columns."""
