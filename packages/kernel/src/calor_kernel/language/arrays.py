"""Register arrays: values of one type with build-time indices.

A compiler sees single values and keeps them in registers. The builder carries the changes of loops
and branches, also those made in helper functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from math import prod
from typing import Any

from calor.dtypes import DType
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.types import Type
from calor_kernel.language.builder import Builder, current
from calor_kernel.language.values import Number

_NUMBERS = count()


class Registers:
    """An array of device values with build-time indices; made by :func:`registers`.

    ``a[i, j]`` reads, ``a[i, j] = v`` writes; indices are Python integers. Loops over them are
    unrolled by Python itself.
    """

    __slots__ = ("__weakref__", "builder", "items", "number", "shape", "type")

    def __init__(self, builder: Builder, shape: tuple[int, ...], type: Type, first: Number) -> None:
        self.builder = builder
        self.shape = shape
        self.type = type
        self.items: list[Number] = [first] * prod(shape)
        self.number = next(_NUMBERS)
        builder.arrays.add(self)

    def _place(self, index: int | tuple[int, ...]) -> int:
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) != len(self.shape):
            raise IndexError(
                f"register array of shape {self.shape} takes {len(self.shape)} indices"
            )
        place = 0
        for i, n in zip(indices, self.shape, strict=True):
            i = i.__index__()
            if not -n <= i < n:
                raise IndexError(f"index {indices} is outside of a register array {self.shape}")
            place = place * n + i % n
        return place

    def __getitem__(self, index: int | tuple[int, ...]) -> Number:
        return self.items[self._place(index)]

    def __setitem__(self, index: int | tuple[int, ...], value: Any) -> None:
        value = self.builder.coerce(value, self.type)
        if value.width == 1:
            value = self.builder.splat(value, self.type.width)
        if value.type != self.type:
            raise KernelTypeError(f"a register array of {self.type} does not hold {value.type}")
        self.items[self._place(index)] = value

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Number]:
        return iter(self.items)

    def __repr__(self) -> str:
        return f"<registers {self.shape} of {self.type}>"


def registers(
    shape: int | tuple[int, ...], dtype: DType, width: int = 1, fill: Any = 0
) -> Registers:
    """Return a register array with items of ``width`` lanes, filled with a number."""
    builder = current()
    shape = shape if isinstance(shape, tuple) else (shape,)
    first = builder.splat(builder.coerce(fill, Type(dtype)), width)
    return Registers(builder, shape, Type(dtype, width), first)
