"""Every op that ONNX can say, on the conformance suite's rows: the numbers are calor's."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import onnx
import pytest

import calor
import calor_onnx
from calor.dtypes import DType
from calor.ops.base import table
from calor_conformance.rows.language import Case
from calor_conformance.rows.models.exported import NEAR, REFUSED, is_held, kinds
from calor_conformance.rows.tables import CASES
from calor_onnx.exporting.complexes import WRITTEN
from calor_onnx.exporting.graphs import DEFINITIONS, ROWS

from .checking import agree, arrays, session

ROWS_OF_OPS: dict[str, list[Case]] = defaultdict(list)
for case in CASES:
    if is_held(case):
        ROWS_OF_OPS[case.op].append(case)


@pytest.mark.parametrize("op", sorted(ROWS_OF_OPS))
def test_operation(op: str) -> None:
    for i, row in enumerate(ROWS_OF_OPS[op]):
        for dtype in kinds(op, i, row):
            operands = row.draw(dtype)
            check(row, dtype, operands)


def check(row: Case, dtype: DType, operands: list[Any]) -> None:
    tensors = [calor.asarray(a) for a in operands]

    def operation(*given: Any) -> Any:
        return row.call(*given, dtype=dtype)

    with calor.no_grad():
        want = arrays(operation(*tensors))
    model = calor_onnx.export(operation, *tensors)
    onnx.checker.check_model(model, full_check=True)
    feeds = {info.name: a for info, a in zip(model.graph.input, operands, strict=True)}
    tolerance = NEAR.get(dtype.name, 2e-5)
    types = {a.dtype.name for a in (*operands, *want)}
    if "bfloat16" not in types:
        for got, expected in zip(session(model).run(None, feeds), want, strict=True):
            agree(got, expected, tolerance)
    for back, expected in zip(calor_onnx.load(model).run(feeds).values(), want, strict=True):
        agree(back.numpy(), expected, tolerance)


def test_every_op_is_told() -> None:
    written = set(ROWS) | set(DEFINITIONS) | WRITTEN
    kept = {name for name, op in table().items() if op.decompose is not None}
    own = {name for name in table() if "." not in name}
    assert own - written - kept == REFUSED
    assert written <= own
