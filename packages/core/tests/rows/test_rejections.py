"""A rule takes exactly the dtypes that the rows name, and says why it refuses the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor.dtypes import DType
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor_conformance.rows.domains import normal, truth
from calor_conformance.rows.judging import put
from calor_conformance.rows.language import EVERY, Case, Domain, accepted
from calor_conformance.rows.tables import CASES
from calor_conformance.rows.tables.refusals import REFUSALS, Refusal

TAKEN = accepted(CASES)
FIRST: dict[str, Case] = {}
for _c in CASES:
    if isinstance(_c.operation, str) and _c.inputs:
        FIRST.setdefault(_c.op, _c)

OTHERS = [(op, t) for op in FIRST for t in EVERY if t not in TAKEN[op]]


@pytest.mark.parametrize(("op", "dtype"), OTHERS, ids=[f"{op}-{t.name}" for op, t in OTHERS])
def test_other_dtypes_are_refused(op: str, dtype: DType) -> None:
    row = FIRST[op]
    arrays = [
        np.zeros(d.shape, d.type_for(dtype).numpy) if d.dtype is None else a
        for d, a in zip(row.inputs, row.draw(row.dtypes[0]), strict=True)
    ]
    with pytest.raises((DTypeError, ShapeError), match=r"\w+.*(needs|must|cast|cannot|share)"):
        row.call(*put(arrays), dtype=dtype)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda r: r.name)
def test_refusal(refusal: Refusal) -> None:
    rng = np.random.default_rng(0)
    tensors = put(
        [np.asarray(d.draw(rng, d.type_for(calor.float32), d.shape)) for d in refusal.inputs]
    )
    with pytest.raises(refusal.error, match=refusal.match):
        refusal.call(*tensors)


def test_rows_differ_where_kinds_do() -> None:
    """Two operands of different dtypes are refused by every op that promotes above its row."""
    for op, row in FIRST.items():
        if not row.elementwise or len(row.inputs) < 2 or op == "where":
            continue
        shape = row.inputs[0].shape
        kinds: tuple[Any, Any] = (row.dtypes[0], next(t for t in EVERY if t is not row.dtypes[0]))
        operands = put([np.ones(shape, t.numpy) for t in kinds])
        with pytest.raises((ShapeError, DTypeError), match="differ|needs|share"):
            row.call(*operands, dtype=kinds[0])


def test_the_errors_are_also_builtin_ones() -> None:
    assert issubclass(DTypeError, TypeError)
    assert issubclass(ShapeError, ValueError)
    assert issubclass(ArgumentError, ValueError)
    assert isinstance(normal(2), Domain)
    assert isinstance(truth(2), Domain)
