"""Indices in kernels: coordinates, checked indices, indexed axes, and updates of elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from calor.dtypes import int32, int64
from calor_kernel import language as kl
from calor_kernel.contract.failures import FIRST_DETAIL, LAST_FAILURE, MOST_DETAIL
from calor_kernel.language.declared import Access
from calor_kernel.library.copying import narrow

N = TypeVar("N")
Failures = Annotated[kl.Pointer, Access("Status", True, True, int32)]


@dataclass(frozen=True, slots=True)
class IndexedAxes(Generic[N]):
    """The sizes and strides of indexed axes; an index has a number for each."""

    sizes: tuple[kl.SizeOf[N], ...]
    strides: tuple[kl.StrideOf[N], ...]


def quick_unravel(
    index: kl.Number, sizes: Sequence[kl.Index], small: bool
) -> tuple[kl.Number, ...]:
    """Return coordinates; ``small``: they are computed with 32 bits."""
    if not small:
        return kl.unravel(index, sizes)
    narrowed = [n if isinstance(n, int) else n.to(int32) for n in sizes]
    return tuple(c.to(int64) for c in kl.unravel(narrow(index), narrowed))


@kl.helper
def checked(index: kl.Number, size: kl.Number, status: kl.Pointer, failure: int) -> kl.Number:
    """Return an index counted from the start; one out of range gives 0 and a failure."""
    position = index.to(int64)
    wrong = (position < -size) | (position >= size)
    if index.dtype.kind == "uint" and index.dtype.itemsize == 8:
        wrong = wrong | (position < 0)
    if wrong:
        report(status, failure, whole(index))
        position = kl.constant(0, int64)
    if position < 0:
        position = position + size
    return position


@kl.helper
def whole(index: kl.Number) -> kl.Number:
    """Return an index as int64; an unsigned one that does not fit is the greatest that is shown."""
    position = index.to(int64)
    if index.dtype.kind == "uint" and index.dtype.itemsize == 8:
        most = kl.constant(MOST_DETAIL, int64)
        if position.width > 1:
            most = kl.constant(MOST_DETAIL, int64, position.width)
        return kl.select(position < 0, most, position)
    return position


@kl.helper
def report(status: kl.Pointer, failure: int, index: kl.Number) -> None:
    """Store a failure with the index that caused it; one that does not fit is cut to the limit."""
    shown = kl.max(kl.min(index, kl.constant(MOST_DETAIL, int64)), kl.constant(-MOST_DETAIL, int64))
    word = shown.to(int32) * FIRST_DETAIL + min(failure, LAST_FAILURE)
    status.store(0, word, order="relaxed", scope="device")


@kl.helper
def report_lanes(
    status: kl.Pointer, indices: kl.Number, wrong: kl.Number, size: kl.Number, lanes: int
) -> None:
    """Store failure 1 with one of the wrong indices among lanes."""
    found = kl.select(wrong, whole(indices), kl.constant(0, int64, lanes))
    most, least = kl.vreduce("max", found), kl.vreduce("min", found)
    report(status, 1, kl.select(most >= size, most, least))


def updated(update: str, old: kl.Number, new: kl.Number) -> kl.Number:
    """Return an element joined with an update."""
    if update == "add":
        return old + new
    if update == "mul":
        return old * new
    return greater(old, new) if update == "max" else smaller(old, new)


@kl.helper
def greater(a: kl.Number, b: kl.Number) -> kl.Number:
    """Return the greater, or NaN where one is."""
    return kl.max(a, b)


@kl.helper
def smaller(a: kl.Number, b: kl.Number) -> kl.Number:
    """Return the smaller, or NaN where one is."""
    return kl.min(a, b)
