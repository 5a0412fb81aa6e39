"""Every float op has rows that are differentiated, or says why it has no gradient."""

from __future__ import annotations

import pytest

from calor.ops.base import TABLE
from calor_conformance.rows.differences import differentiable
from calor_conformance.rows.exemptions import NO_ROW, NOT_DIFFERENTIATED
from calor_conformance.rows.tables import CASES

ROWS = list(differentiable(CASES))


def test_every_float_op_is_differentiated() -> None:
    """Each op of the table has a gradient row, or says why it has no gradient."""
    done = {c.op for c, _ in ROWS}
    for name, op in TABLE.items():
        if "." in name or name in NO_ROW or name in done:
            continue
        reason = op.no_gradient or NOT_DIFFERENTIATED.get(name)
        assert reason, f"op {name} has no gradient row; add one, or a reason to the op"
    assert not set(NOT_DIFFERENTIATED) & done


@pytest.mark.parametrize("name", [n for n, op in TABLE.items() if op.vjp is None])
def test_ops_without_a_gradient_say_why(name: str) -> None:
    op = TABLE[name]
    assert op.decompose is not None or (op.no_gradient and len(op.no_gradient) > 10)


def test_complex_rows_cover_the_complex_ops() -> None:
    """An op that takes complex numbers and has a gradient is differentiated at complex numbers."""
    kinds = {t for c in CASES for t in c.dtypes if t.is_complex}
    takes = {c.op for c in CASES if set(c.dtypes) & kinds and c.op in TABLE}
    done = {c.op for c, t in ROWS if t.is_complex}
    none = {name for name, op in TABLE.items() if op.no_gradient}
    assert takes - done - none - set(NOT_DIFFERENTIATED) == set()
