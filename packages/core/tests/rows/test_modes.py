"""Laziness, eagerness and jit give the same bits, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

import calor
from calor.config import config
from calor.dtypes import DType
from calor.graph.trace import flush_all, local

from .device import numpy_of, put
from .differences import Problem, differentiable
from .language import Array, Case
from .tables import CASES


@contextmanager
def eagerly() -> Iterator[None]:
    """Compute each op when it is recorded."""
    flush_all()
    before, config.eager = config.eager, True
    for trace in local.traces.values():
        trace.reset()
    try:
        yield
    finally:
        config.eager = before
        for trace in local.traces.values():
            trace.reset()


def same_bits(got: Sequence[Array], want: Sequence[Array]) -> None:
    assert [(a.dtype, a.shape) for a in got] == [(b.dtype, b.shape) for b in want]
    for a, b in zip(got, want, strict=True):
        assert a.tobytes() == b.tobytes()


def main_dtype(c: Case) -> DType:
    return next((t for t in c.dtypes if t.name == "float32"), c.dtypes[0])


FORWARD = [(c, main_dtype(c)) for c in CASES]
# One row of each op and dtype is enough for the backward pass, which is made of ops.
_ONCE = {(c.op, t): (c, t) for c, t in differentiable(CASES) if c.op != "while_loop"}
BACKWARD = list(_ONCE.values())


def names(rows: list[tuple[Case, DType]]) -> list[str]:
    return [f"{c.label}-{t.name}" for c, t in rows]


@pytest.mark.parametrize(("row", "dtype"), FORWARD, ids=names(FORWARD))
def test_modes_agree(row: Case, dtype: DType) -> None:
    tensors = put(row.draw(dtype))
    lazy = numpy_of(row.call(*tensors, dtype=dtype))
    with eagerly():
        same_bits(numpy_of(row.call(*tensors, dtype=dtype)), lazy)
    if tensors:
        compiled = calor.jit(lambda *given: row.call(*given, dtype=dtype))
        same_bits(numpy_of(compiled(*tensors)), lazy)
        same_bits(numpy_of(compiled(*tensors)), lazy)
        assert compiled.trace_count == 1


@pytest.mark.parametrize(("row", "dtype"), BACKWARD, ids=names(BACKWARD))
def test_modes_agree_on_gradients(row: Case, dtype: DType) -> None:
    problem = Problem(row, dtype)
    given = put([*problem.primals, *problem.cotangents])

    def pulled(*operands: Any) -> list[Any]:
        return problem.pulled(*operands)

    lazy = numpy_of(pulled(*given))
    with eagerly():
        same_bits(numpy_of(pulled(*given)), lazy)
    same_bits(numpy_of(calor.jit(pulled)(*given)), lazy)
