"""Rows of the ops that say themselves where they are met: their intervals and tolerances.

The oracle is the op's NumPy reference on wider operands. It is not what is judged: devices run a
kernel or the op's definition, and the reference is judged by numbers from mpmath in core's tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from calor.dtypes import DType
from calor.errors import DTypeError
from calor.ops.base import TABLE, Check, Op
from calor.specs import spec

from ..domains import between
from ..language import EVERY, Case, case, exact, ulp

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


CASES: list[Case] = [
    made
    for name, row in TABLE.items()
    if "." not in name
    for check in row.checks
    for made in _cases(row, check)
]
