"""Types of values in a kernel: an element type and a number of lanes, and what memory is.

Requirements: a type is compared by equality and is a key; element types are core's dtypes, so that
there is one list of them; a vector has any number of lanes, and a device's printer or the pass
``split_vectors`` makes it fit the hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calor.dtypes import DType

Space = Literal["global", "shared", "private"]


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a value: ``width`` lanes of ``dtype``; a width of 1 is a scalar.

    >>> from calor.dtypes import float32
    >>> print(Type(float32), Type(float32, 8))
    float32 float32x8
    """

    dtype: DType
    width: int = 1

    def __str__(self) -> str:
        return self.dtype.name if self.width == 1 else f"{self.dtype.name}x{self.width}"

    @property
    def nbytes(self) -> int:
        """Size in bytes, without padding."""
        return int(self.dtype.itemsize) * self.width

    @property
    def scalar(self) -> Type:
        """The type of one lane."""
        return self if self.width == 1 else Type(self.dtype)

    def wide(self, width: int) -> Type:
        """Return the type with another number of lanes."""
        return Type(self.dtype, width)


@dataclass(frozen=True, slots=True)
class Buffer:
    """A parameter that is memory: elements of ``dtype`` that are read, written or both.

    ``align`` is the number of bytes by which the first element's address is known to divide;
    ``writable`` is False for memory that nothing writes while the kernel runs, which lets loads be
    moved and shared.
    """

    dtype: DType
    writable: bool = True
    align: int = 0

    def __str__(self) -> str:
        access = "" if self.writable else "const "
        return f"{access}{self.dtype.name}[]"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A parameter that is a number, handed over at each launch.

    ``divisible``: a number that the value is known to divide by, which widens accesses.
    ``nonnegative``: whether it is a size or an index, so that ``//`` and ``%`` are cheap.
    """

    dtype: DType
    divisible: int = 1
    nonnegative: bool = False

    def __str__(self) -> str:
        return self.dtype.name
