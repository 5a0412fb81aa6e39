"""Computed indices in kernels: coordinates of a position, and an index that is checked."""

from __future__ import annotations

from typing import Any

from calor.dtypes import int32, int64
from calor_kernel.language import constant, helper, unravel
from calor_kernel.library.copying import narrow


def quick_unravel(index: Any, sizes: Any, small: bool) -> Any:
    """Return coordinates, computed with 32 bits where they are ``small``."""
    if not small:
        return unravel(index, sizes)
    narrowed = [n if isinstance(n, int) else n.to(int32) for n in sizes]
    places = unravel(narrow(index), narrowed)
    return tuple(c if isinstance(c, int) else c.to(int64) for c in places)


@helper
def checked(index: Any, size: Any, status: Any, failure: int) -> Any:
    """Return an index counted from the start; one out of range is 0, and noted as a failure."""
    place = index.to(int64)
    wrong = (place < -size) | (place >= size)
    if index.dtype.kind == "uint" and index.dtype.itemsize == 8:
        wrong = wrong | (place < 0)
    if wrong:
        status.store(0, constant(failure, int32), order="relaxed", scope="device")
        place = constant(0, int64)
    if place < 0:
        place = place + size
    return place
