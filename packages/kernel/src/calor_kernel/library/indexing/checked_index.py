"""Indices in kernels: coordinates, checked indices, indexed axes, and updates of elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from calor.dtypes import int32, int64
from calor_kernel.language import (
    Index,
    Number,
    Pointer,
    SizeOf,
    constant,
    helper,
    max,
    min,
    unravel,
)
from calor_kernel.language.declared import Access
from calor_kernel.library.copying import narrow

N = TypeVar("N")
Failures = Annotated[Pointer, Access("Status", True, True, int32)]


@dataclass(frozen=True, slots=True)
class IndexedAxes(Generic[N]):
    """The sizes and strides of indexed axes; an index has a number for each."""

    sizes: tuple[SizeOf[N], ...]
    strides: tuple[SizeOf[N], ...]


def quick_unravel(index: Number, sizes: Sequence[Index], small: bool) -> tuple[Number, ...]:
    """Return coordinates; ``small``: they are computed with 32 bits."""
    if not small:
        return unravel(index, sizes)
    narrowed = [n if isinstance(n, int) else n.to(int32) for n in sizes]
    return tuple(c.to(int64) for c in unravel(narrow(index), narrowed))


@helper
def checked(index: Number, size: Number, status: Pointer, failure: int) -> Number:
    """Return an index counted from the start; one out of range gives 0 and a failure."""
    position = index.to(int64)
    wrong = (position < -size) | (position >= size)
    if index.dtype.kind == "uint" and index.dtype.itemsize == 8:
        wrong = wrong | (position < 0)
    if wrong:
        status.store(0, constant(failure, int32), order="relaxed", scope="device")
        position = constant(0, int64)
    if position < 0:
        position = position + size
    return position


def updated(update: str, old: Number, new: Number) -> Number:
    """Return an element joined with an update."""
    if update == "add":
        return old + new
    if update == "mul":
        return old * new
    return greater(old, new) if update == "max" else smaller(old, new)


@helper
def greater(a: Number, b: Number) -> Number:
    """Return the greater, or NaN where one is."""
    return max(a, b)


@helper
def smaller(a: Number, b: Number) -> Number:
    """Return the smaller, or NaN where one is."""
    return min(a, b)
