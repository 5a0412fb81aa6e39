"""Which rows of ops a model of ONNX can hold, and how near what it gives is to calor's numbers."""

from __future__ import annotations

from typing import Final

from calor.dtypes import DType, float32

from ..language import Case

NEAR: Final = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 2e-5, "float64": 1e-6}
# Rows whose numbers ONNX or ONNX Runtime do not define as calor does.
APART: Final = {
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
# Ops whose complex results a model gives in parts.
IN_PARTS: Final = frozenset({"fft", "join"})
# Ops that ONNX has no operator for, which export refuses.
REFUSED: Final = frozenset({
    "input", "nextafter", "conv_weight_gradient", "window_gradient", "window_pick", "callback",
    "ordered_callback",
})  # fmt: skip


def is_held(case: Case) -> bool:
    """Return whether a model can hold a row, with calor's numbers.

    Parameters
    ----------
    case : Case
        The row.

    Returns
    -------
    bool
        Whether it can.
    """
    # Types that are not computed in, and bits of another size.
    foreign = any(kind in case.label for kind in
                  ("complex", "float8", "sum-to-uint8", "prod-to-uint8"))  # fmt: skip
    left_out = case.op in REFUSED | IN_PARTS or case.label in APART or foreign
    return isinstance(case.operation, str) and not left_out


def kinds(op: str, row: int, case: Case) -> list[DType]:
    """Return the dtypes to try: of the first row all but float64, of the others one.

    Parameters
    ----------
    op : str
        The op.
    row : int
        The number of the row among those of its op.
    case : Case
        The row.

    Returns
    -------
    list of DType
        The dtypes.
    """
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
