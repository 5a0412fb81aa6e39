"""Every op that ONNX can say, on the conformance suite's rows: the numbers are calor's."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import onnx
import pytest

import calor
import calor_onnx
from calor.dtypes import DType, float32
from calor.ops.base import table
from calor_conformance.rows.language import Case
from calor_conformance.rows.tables import CASES
from calor_onnx.exporting.complexes import WRITTEN
from calor_onnx.exporting.graphs import DEFINITIONS, ROWS

from .checking import agree, arrays, session

TOLERANCES = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 2e-5, "float64": 1e-6}
# Rows whose numbers ONNX or ONNX Runtime do not define as calor does.
APART = {
    "max-special": "which of NaN and the others is larger, ONNX leaves open",
    "min-special": "which of NaN and the others is smaller, ONNX leaves open",
    "argmax-special": "the place of NaN, ONNX leaves open",
    "argmin-special": "the place of NaN, ONNX leaves open",
    "sort-special": "the place of NaN, ONNX leaves open",
    "sort-special-descending": "the place of NaN, ONNX leaves open",
    "scatter_nd-max-special": "which of NaN and the others is larger, ONNX leaves open",
    "scatter_nd-min-special": "which of NaN and the others is smaller, ONNX leaves open",
    "window_reduce-max-special": "NaN in a window, ONNX leaves open",
    "window_reduce-min-special": "NaN in a window, ONNX leaves open",
    "conv-no-places": "ONNX's windows fit at least once",
    "conv_input_gradient-no-places": "ONNX's windows fit at least once",
    "bitcast-to-bytes": "BitCast needs element types of one size",
    "bitcast-joins-two": "BitCast needs element types of one size",
    "bitcast-joins-four": "BitCast needs element types of one size",
    "conv_input_gradient-crops-and-pads": "ONNX has no negative padding",
    "conv_input_gradient-crops": "ONNX has no negative padding",
    "window_reduce-max-no-places": "ONNX's windows fit at least once",
    "window_reduce-min-no-places": "ONNX's windows fit at least once",
    "window_reduce-sum-no-places": "ONNX's windows fit at least once",
    "window_reduce-max-empty": "ONNX Runtime's MaxPool takes at least one element",
    "window_reduce-min-empty": "ONNX Runtime's MaxPool takes at least one element",
    "window_reduce-sum-empty": "ONNX Runtime's AveragePool takes at least one element",
    "erf-beside-c": "ONNX Runtime has no Erf of float64",
    "erfc-beside-c": "ONNX Runtime has no Erf of float64",
    "ndtr-beside-c": "ONNX Runtime has no Erf of float64",
    "scan-0": "ONNX Runtime's Scan takes at least one step",
    "bitcast-bool-to-bytes": "ONNX Runtime has no BitCast of bool",
    "cast-saturates": "what a type cannot hold, ONNX's Cast leaves open",
}
# Ops whose complex results a model gives in parts; test_complex asks for these.
IN_PARTS = {"fft", "join"}
# Ops that ONNX has no operator for, which export refuses.
REFUSED = {
    "input", "nextafter", "conv_weight_gradient", "window_gradient", "window_pick", "callback",
    "ordered_callback",
}  # fmt: skip


def _foreign(label: str) -> bool:
    """Return whether a row makes a type that is not computed in, or bits of another size."""
    kinds = ("complex", "float8", "sum-to-uint8", "prod-to-uint8")
    return any(kind in label for kind in kinds)


ROWS_OF_OPS: dict[str, list[Case]] = defaultdict(list)
for case in CASES:
    told = case.op in REFUSED | IN_PARTS or case.label in APART or _foreign(case.label)
    if isinstance(case.operation, str) and not told:
        ROWS_OF_OPS[case.op].append(case)


def kinds(op: str, row: int, case: Case) -> list[DType]:
    """Return the dtypes to try: of the first row all but float64, of the others one."""
    allowed = [t for t in case.dtypes if t.kind not in ("complex", "storage")]
    if op in ("conv", "conv_input_gradient", "window_reduce"):
        allowed = [t for t in allowed if t is float32]
    if op in ("sum", "prod"):
        # ONNX Runtime adds and multiplies whole numbers as floating ones.
        allowed = [t for t in allowed if t.is_floating]
    if op == "cast":
        # What a type cannot hold, ONNX leaves open; float8 has no host type there.
        whole = any(word in case.label for word in ("extremes", "bits", "to-u", "to-i"))
        allowed = [t for t in allowed if not (whole and t.is_floating)]
    preferred = sorted(allowed, key=lambda t: (t is not float32, t.name))
    # ONNX Runtime lacks many functions of float64.
    narrow = [t for t in preferred if t.name != "float64"] or preferred
    return narrow if row == 0 else narrow[:1]


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
    tolerance = TOLERANCES.get(dtype.name, 2e-5)
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
