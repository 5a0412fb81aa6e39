"""Running reductions along an axis.

Requirements: the result has the dtype of the operand (integers wrap), half types accumulate in
float32 and round once, and NaN propagates through running extremes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from calor.reference.precision import Array, quiet, rounded, widened

_UFUNCS: Final[dict[str, np.ufunc]] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


@quiet
def cumulative(x: Array, *, kind: str, axis: int, reverse: bool) -> Array:
    """Return the running "sum", "prod", "max" or "min" along an axis, from its end if reverse."""
    wide = widened(np.asarray(x))
    turned = np.flip(wide, axis) if reverse else wide
    result = _UFUNCS[kind].accumulate(turned, axis, dtype=wide.dtype)
    return rounded(np.flip(result, axis) if reverse else result, x.dtype)
