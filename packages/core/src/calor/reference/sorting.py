"""Sorting along an axis.

Requirements: always stable, so that results do not depend on the device; NaN comes last in both
directions; −0 and +0 are equal; complex numbers compare by real, then by imaginary part.
"""

from __future__ import annotations

import numpy as np

from calor.reference.precision import Array, quiet, widened


@quiet
def sort(x: Array, *, axis: int, descending: bool, stable: bool = True) -> tuple[Array, Array]:
    """Return the sorted values and, as int64, the index that each came from.

    Equal elements keep their order, in descending order too; ``stable=False`` permits another order
    and is not made use of here.
    """
    x = np.asarray(x)
    key = widened(x)
    if descending:
        # For bool and integers the complement reverses the order without overflow.
        key = ~key if x.dtype.kind in "biu" else -key
    places = np.argsort(key, axis=axis, kind="stable")
    return np.take_along_axis(x, places, axis=axis), places.astype(np.int64, copy=False)
