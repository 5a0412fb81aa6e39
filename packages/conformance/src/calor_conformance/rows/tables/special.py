"""Rows of the special functions of calor-special, elementwise composites that every device runs.

The oracle is the op's definition in float64 on the reference device, which numbers from mpmath
judge in calor-special's tests. Waves are judged by their size, and functions whose exponents are
rounded, or which are differences of larger terms, by the bounds that those tests state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import calor
import calor_special  # noqa: F401 - its rows
from calor.ops.base import find

from ..domains import between
from ..language import REAL_FLOATS, Array, Case, case, ulp

ELEMENTS = (3, 4)


def _defined(name: str) -> Callable[..., Any]:
    def oracle(*operands: Array, **attributes: Any) -> Array:
        exact = [np.asarray(x, np.float64) for x in operands]
        with calor.device("numpy"):
            made = find(name)(*map(calor.asarray, exact), **attributes)
            return np.asarray(made.numpy())

    return oracle


def _wave(x: Array, **_: Any) -> Any:
    return 1 / np.sqrt(np.maximum(1, np.abs(x)))


def _of_size(size: float) -> Callable[..., Any]:
    return lambda *operands, **_: np.full_like(operands[0], size)


# The intervals of the operands, units in the last place, and the size at which units are taken.
_Row = tuple[tuple[tuple[float, float], ...], float, Any]
_POSITIVE = (0.05, 20.0)
_ROWS: dict[str, _Row] = {
    "i0": (((-8, 8),), 16, None),
    "i0e": (((-50, 50),), 16, None),
    "i1": (((-8, 8),), 16, None),
    "i1e": (((-50, 50),), 16, None),
    "k0": ((_POSITIVE,), 16, None),
    "k0e": ((_POSITIVE,), 16, None),
    "k1": ((_POSITIVE,), 16, None),
    "k1e": ((_POSITIVE,), 16, None),
    "j0": (((-25, 25),), 16, _wave),
    "j1": (((-25, 25),), 16, _wave),
    "y0": ((_POSITIVE,), 16, _wave),
    "y1": ((_POSITIVE,), 16, _wave),
    "spherical_j0": (((-20, 20),), 16, lambda x: 1 / np.maximum(1, np.abs(x))),
    "airy_ai": (((-10, 5),), 128, lambda x: np.where(x < 0, 0.5, 0.0)),
    "ndtri": (((0.01, 0.99),), 16, _of_size(0.1)),
    "entr": (((0.01, 5),), 16, _of_size(0.1)),
    "zeta": (((1.5, 8), (0.5, 20)), 16, None),
    "betaln": ((_POSITIVE, _POSITIVE), 32, _of_size(10.0)),
    "gammainc": ((_POSITIVE, _POSITIVE), 100, None),
    "gammaincc": ((_POSITIVE, _POSITIVE), 100, None),
    "gammainc_slope": ((_POSITIVE, _POSITIVE), 1000, _of_size(0.01)),
}
_NO_GRADIENT = {
    name: f"{name} has no derivative here that calor has" for name in ("airy_ai", "gammainc_slope")
}


CASES: list[Case] = [
    *(
        case(f"special.{name}", *(between(*one, *ELEMENTS) for one in domains),
             oracle=_defined(f"special.{name}"), dtypes=REAL_FLOATS,
             tol=ulp(ulps, half=2, scale=scale), no_gradient=_NO_GRADIENT.get(name))
        for name, (domains, ulps, scale) in _ROWS.items()
    ),
    *(
        case("special.polygamma", between(0.5, 20.0, *ELEMENTS), order=order, name=str(order),
             oracle=_defined("special.polygamma"), dtypes=REAL_FLOATS, tol=ulp(16, half=2))
        for order in (1, 4)
    ),
]  # fmt: skip
