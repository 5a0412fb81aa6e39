"""A kept composite and its decomposition are one function with one gradient."""

from __future__ import annotations

from typing import Any

import pytest

import calor
from calor.dtypes import DType
from calor.ops.base import TABLE, find
from calor_conformance.rows.differences import Problem, close, differentiable
from calor_conformance.rows.exemptions import NO_ROW, OTHER_GRADIENT
from calor_conformance.rows.judging import numpy_of, put
from calor_conformance.rows.language import Case, covering
from calor_conformance.rows.tables import CASES

KEPT = {name for name, op in TABLE.items() if op.decompose is not None and "." not in name}
ROWS = [(c, t) for c, t in covering(CASES, False) if c.op in KEPT]
WITH_GRADIENT = [
    (c, t)
    for c, t in differentiable(CASES)
    if c.op in KEPT and find(c.op).vjp is not None and c.op not in OTHER_GRADIENT
]


def names(rows: list[tuple[Case, DType]]) -> list[str]:
    return [f"{c.label}-{t.name}" for c, t in rows]


@pytest.mark.parametrize(("row", "dtype"), WITH_GRADIENT, ids=names(WITH_GRADIENT))
def test_gradients_agree(row: Case, dtype: DType) -> None:
    problem = Problem(row, dtype)
    primals, cotangents = put(problem.primals), put(problem.cotangents)

    def defined(*moving: Any) -> list[Any]:
        given = list(problem.fixed)
        for i, t in zip(problem.places, moving, strict=True):
            given[i] = t
        made = find(row.op).decompose(*given, **row.attributes_for(dtype))  # type: ignore[misc]
        return [t for t in calor.tree.leaves(made) if t.dtype.is_inexact]

    _, pull = calor.vjp(defined, *primals)
    whole = numpy_of(problem.pulled(*primals, *cotangents))
    close(whole, numpy_of(pull(cotangents)), row.label, 1e-10)


def test_every_kept_composite_is_here() -> None:
    assert {c.op for c, _ in ROWS} == KEPT - set(NO_ROW)
