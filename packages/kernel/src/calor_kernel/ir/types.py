"""Types in a kernel: values (element type and lanes), and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from calor.dtypes import DType, uint8, uint16, uint32, uint64

Space = Literal["global", "shared", "private"]
# The unsigned dtypes by their bytes.
UNSIGNED: Final[Mapping[int, DType]] = MappingProxyType({1: uint8, 2: uint16, 4: uint32, 8: uint64})


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
    """A memory parameter: elements of ``dtype``, read, written or both.

    ``align``: the known alignment of the first element in bytes. ``writable``: False for memory
    that is constant during the kernel, so that loads can be moved and shared.
    """

    dtype: DType
    writable: bool = True
    align: int = 0

    def __str__(self) -> str:
        access = "" if self.writable else "const "
        return f"{access}{self.dtype.name}[]"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number parameter, passed at each launch.

    ``divisible``: a known divisor of the value, which permits wider accesses. ``nonnegative``:
    whether it is a size or an index, so that ``//`` and ``%`` are cheap.
    """

    dtype: DType
    divisible: int = 1
    nonnegative: bool = False

    def __str__(self) -> str:
        return self.dtype.name
