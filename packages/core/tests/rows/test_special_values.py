"""Elementwise ops at NaN, infinities, signed zeros, denormals and integer extremes.

Unary ops of 16-bit types meet every bit pattern there is; the others every combination of the
special numbers. Complex special values belong to the array API suite.
"""

from __future__ import annotations

import pytest

from calor.dtypes import DType, bool_

from .device import judge, numpy_of, put
from .domains import chosen, grid
from .exemptions import NOT_EVERYWHERE
from .language import Case, case
from .tables import CASES

ROWS = {
    (c.op, dtype): c
    for c in reversed(CASES)
    if c.elementwise and not NOT_EVERYWHERE.get(c.op)
    for dtype in c.dtypes
    if not dtype.is_complex
}


def _everywhere(c: Case, dtype: DType) -> Case:
    """Return the row with the special numbers of the dtype as its operands."""
    mine = [d for d in c.inputs if d.dtype is None]
    arrays = iter(grid(dtype, len(mine)))
    size = grid(dtype, len(mine))[0].size
    domains = tuple(
        chosen(next(arrays)) if d.dtype is None else d.resized((size,)) for d in c.inputs
    )
    return case(
        c.operation, *domains, oracle=c.oracle, dtypes=(dtype,), tol=c.tol, raw=c.raw, out=c.out,
        name="special",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("row", "dtype"),
    [(c, dtype) for (_, dtype), c in ROWS.items()],
    ids=[f"{op}-{dtype.name}" for op, dtype in ROWS],
)
def test_special_values(row: Case, dtype: DType) -> None:
    everywhere = _everywhere(row, dtype)
    arrays = everywhere.draw(dtype)
    judge(everywhere, dtype, arrays, numpy_of(everywhere.call(*put(arrays), dtype=dtype)))


def test_every_elementwise_op_is_here() -> None:
    missing = {c.op for c in CASES if c.elementwise} - {op for op, _ in ROWS}
    assert missing == set(NOT_EVERYWHERE)
    assert {dtype for _, dtype in ROWS} >= {bool_}
