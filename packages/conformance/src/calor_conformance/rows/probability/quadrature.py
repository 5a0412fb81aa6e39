"""Integrals in float64 by the double exponential rule, also over half lines and to singular ends.

The rule is that of H. Takahasi and M. Mori ("Double exponential formulas for numerical
integration", 1974): the trapezoid rule after a map under which every end is far away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..language import Array

_STEPS: Final = np.linspace(-4.3, 4.3, 173)
_WIDTH: Final = float(_STEPS[1] - _STEPS[0])
_INNER: Final = np.pi / 2 * np.sinh(_STEPS)
_SLOPE: Final = np.pi / 2 * np.cosh(_STEPS) * _WIDTH


def integral(function: Callable[[Array], Array], low: Any, high: Any, width: Any) -> Array:
    """Return integrals of a function between ends.

    Parameters
    ----------
    function : callable
        Takes places of the ends' shape with one more axis, and returns as many numbers.
    low, high : array_like
        The ends; either may be infinite.
    width : array_like
        The scale on which the function changes, for infinite ends.

    Returns
    -------
    ndarray
        The integrals, of the ends' shape. Places where the function is not finite add nothing.
    """
    low, high, width = (
        np.asarray(a, np.float64)[..., None] for a in np.broadcast_arrays(low, high, width)
    )
    with np.errstate(all="ignore"):
        far = np.exp(_INNER)
        # Shares of the way from either end, which keep their digits near it.
        share = 1 / (1 + np.exp(-2 * _INNER))
        between = np.where(
            _INNER < 0, low + (high - low) * share, high - (high - low) * (1 - share)
        )
        finite = np.isfinite(low) & np.isfinite(high)
        up = np.isfinite(low) & ~np.isfinite(high)
        down = np.isfinite(high) & ~np.isfinite(low)
        places = np.where(
            finite, between, np.where(
                up, low + width * far, np.where(
                    down, high - width * far, width * np.sinh(_INNER))))  # fmt: skip
        slopes = np.where(
            finite, (high - low) * 2 * share * (1 - share), np.where(
                up | down, width * far, width * np.cosh(_INNER)))  # fmt: skip
        values = function(places) * slopes * _SLOPE
    return np.asarray(np.where(np.isfinite(values), values, 0.0).sum(-1))
