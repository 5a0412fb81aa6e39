"""Rows of the ops that say themselves where they are met: their intervals and tolerances.

The oracle is the op's NumPy reference on wider operands. It is not what is judged: devices run a
kernel or the op's definition. The functions of the error function, whose coefficients the reference
and the definition share, are compared with C's besides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from calor.dtypes import DType, float64
from calor.errors import DTypeError
from calor.ops.base import TABLE, Check, Op
from calor.specs import spec

from ..domains import between
from ..language import EVERY, Array, Case, case, exact, ulp

ELEMENTS = (3, 4)


def _accepted(row: Op, dtype: DType, count: int) -> bool:
    """Whether the op's rule takes operands of a dtype."""
    try:
        row.rule(*[spec((), dtype)] * count)
    except DTypeError:
        return False
    return True


def _cases(row: Op, check: Check) -> Iterator[Case]:
    """Yield a row for the floating dtypes and one for the others, which are their own widest."""
    assert row.reference is not None, f"{row.name} has checks and no reference"
    domains = [between(*interval, *ELEMENTS) for interval in check.domains]
    kinds = [dtype for dtype in EVERY if _accepted(row, dtype, len(domains))]
    for inexact, name in ((True, check.name), (False, f"{check.name}-integers".lstrip("-"))):
        dtypes = [dtype for dtype in kinds if dtype.is_inexact is inexact]
        if dtypes:
            yield case(
                row.name,
                *domains,
                oracle=row.reference,
                dtypes=dtypes,
                tol=ulp(check.ulps, scale=check.scale) if check.ulps else exact,
                name=name,
                no_gradient=check.no_gradient,
                raw=not inexact,
            )


def _by_number(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.array([function(float(v)) for v in x.reshape(-1)], x.dtype).reshape(x.shape)


def _scaled(x: Array) -> Array:
    """Return exp(x²) erfc(x) with the digits of a longer type for the power."""
    made: Array = np.exp(x.astype(np.longdouble) ** 2) * _by_number(math.erfc)(x)
    return made


_HALF: Final = math.sqrt(0.5)
# C's functions are within a few units in the last place.
_OF_C: Final[dict[str, tuple[float, float, Callable[[Array], Array]]]] = {
    "erf": (-6, 6, _by_number(math.erf)),
    "erfc": (-6, 26, _by_number(math.erfc)),
    "erfcx": (-4, 26, _scaled),
    "ndtr": (-5, 9, lambda x: _by_number(math.erfc)(-x * _HALF) / 2),
    "lgamma": (0.1, 40, _by_number(math.lgamma)),
}


def _beside_c() -> Iterator[Case]:
    for name, (low, high, function) in _OF_C.items():
        domain = between(low, high, 400)
        # Where a logarithm is near 0, its digits are those of the argument.
        scale = (lambda x: np.maximum(np.abs(x), 1)) if name == "lgamma" else None
        yield case(name, domain, oracle=function, dtypes=[float64], tol=ulp(64, scale=scale),
                   name="beside-c")  # fmt: skip


CASES: list[Case] = [
    *(
        made
        for name, row in TABLE.items()
        if "." not in name
        for check in row.checks
        for made in _cases(row, check)
    ),
    *_beside_c(),
]
