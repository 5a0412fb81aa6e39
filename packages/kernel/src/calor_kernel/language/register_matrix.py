"""The interface of a matrix held in a unit's registers."""

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
        """The number of registers per unit."""

    def register_place(self, register: int) -> tuple[int, int]:
        """Return the distance of a register from register 0, in rows and columns."""
