"""Branches, loops and scans beside ONNX Runtime, compiled and interpreted."""

import re

import numpy as np
import onnx
import onnxruntime
import pytest

import calor_onnx
from calor import Tensor

HEAD = '<ir_version: 8, opset_import: ["" : 18]>'
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((12, 3)).astype(np.float32)
H = RANDOM.standard_normal(3).astype(np.float32)


SCAN = """f (float[T,3] x, float[3] h) => (float[3] last, float[A,B] rows) {
    last, rows = Scan <num_scan_inputs = 1, OPTIONS body = b (float[3] s, float[3] r)
        => (float[3] t, float[3] o) {
        u = Add (s, r)
        t = Tanh (u)
        o = Mul (t, r)
    }> (h, x)
}"""

LOOP = """f (float[T,3] x, float[3] h) => (float[3] last, float[A,3] rows) {
    shape = Shape (x)
    zero = Constant <value_int = 0> ()
    trips = Gather (shape, zero)
    on = Constant <value = bool {1}> ()
    last, rows = Loop (trips, on, h) <body = b (int64 i, bool c, float[3] s)
        => (bool d, float[3] t, float[3] o) {
        d = Identity (c)
        BODY
        u = Add (s, r)
        t = Tanh (u)
        o = Mul (t, r)
    }>
}"""
# A row that is gathered may be found on the device; one that is sliced asks the host.
GATHERED = "r = Gather <axis = 0> (x, i)"
SLICED = """axes = Constant <value_ints = [0]> ()
    one = Constant <value_ints = [1]> ()
    first = Unsqueeze (i, axes)
    end = Add (first, one)
    part = Slice (x, first, end, axes)
    r = Squeeze (part, axes)"""

NESTED = """f (float[T,3] x, float[3] h) => (float[3] y) {
    total = ReduceSum <keepdims = 0> (x)
    zero = Constant <value_float = 0.0> ()
    three = Constant <value_int = 3> ()
    on = Constant <value = bool {1}> ()
    c = Greater (total, zero)
    y = If (c) <
        then_branch = t () => (float[3] a) {
            a = Loop (three, on, h) <body = b (int64 i, bool g, float[3] s)
                => (bool d, float[3] u) {
                d = Identity (g)
                v = Add (s, h)
                u = Mul (v, total)
            }>
        },
        else_branch = e () => (float[3] n) { n = Sub (h, total) }>
}"""

ENDS = """f (float[T,3] x, float[3] h) => (float[3] last, float[A,3] rows) {
    on = Constant <value = bool {1}> ()
    limit = Constant <value_float = 30.0> ()
    last, rows = Loop (, on, h) <body = b (int64 i, bool c, float[3] s)
        => (bool d, float[3] t, float[3] o) {
        a = Abs (s)
        t = Add (s, a)
        one = Constant <value_float = 1.0> ()
        o = Add (t, one)
        most = ReduceMax <keepdims = 0> (o)
        d = Less (most, limit)
    }>
}"""

CASES = {
    "scan": SCAN.replace("OPTIONS", ""),
    "scan from the end": SCAN.replace("OPTIONS", "scan_input_directions = [1],"),
    "scan laid from the end": SCAN.replace(
        "OPTIONS", "scan_output_directions = [1], scan_output_axes = [1],"
    ),
    "scan of columns": SCAN.replace("OPTIONS", "scan_input_axes = [1],").replace("[3]", "[L]"),
    "loop that gathers": LOOP.replace("BODY", GATHERED),
    "loop that slices": LOOP.replace("BODY", SLICED),
    "loop in a branch": NESTED,
    "loop that its data ends": ENDS,
}


@pytest.mark.parametrize("rows", [12, 3])
@pytest.mark.parametrize("case", CASES)
def test_gives_what_onnx_runtime_gives(case: str, rows: int) -> None:
    proto = onnx.parser.parse_model(f"{HEAD} {CASES[case]}")
    x = X[:rows]
    h = np.abs(x[:, 0]) if case == "scan of columns" else np.abs(H)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    wanted = session.run(None, {"x": x, "h": h})
    model = calor_onnx.load(proto, device="numpy")
    for _ in range(2):
        given = model(x, h)
        for a, b in zip([given] if isinstance(given, Tensor) else given, wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-5, atol=1e-5)


COMPILED = [case for case in CASES if case != "loop that its data ends"]


@pytest.mark.parametrize("case", COMPILED)
def test_is_compiled(case: str) -> None:
    model = calor_onnx.load(onnx.parser.parse_model(f"{HEAD} {CASES[case]}"), device="numpy")
    model(X, np.abs(X[:, 0]) if case == "scan of columns" else H)
    assert model.reason is None


GROWS = """f (float[T,3] x, float[3] h) => (float[M] y) {
    on = Constant <value = bool {1}> ()
    y = Loop (, on, h) <body = b (int64 i, bool c, float[K] s) => (bool d, float[L] t) {
        t = Concat <axis = 0> (s, h)
        most = ReduceMax <keepdims = 0> (t)
        limit = Constant <value_float = -1.0> ()
        d = Less (most, limit)
    }>
}"""
DIFFERS = """f (float[T,3] x, float[3] h) => (float[M] y) {
    total = ReduceSum <keepdims = 0> (x)
    zero = Constant <value_float = 0.0> ()
    c = Greater (total, zero)
    [choice] y = If (c) <then_branch = t () => (float[M] a) { a = Neg (h) },
        else_branch = e () => (float[M] b) { b = Concat <axis = 0> (h, h) }>
}"""
REASONS = {
    # What is not compiled as one operation, and what the model says of it.
    "loop that slices": (LOOP.replace("BODY", SLICED), "turn after turn, not one loop .*needs the"),
    "loop that grows": (GROWS, "its iterations decide when it ends, and .*(6,|shape)"),
    "branches of two shapes": (DIFFERS, r"choice \(If\).*not one choice on the device: .*shape"),
}


@pytest.mark.parametrize("case", REASONS)
def test_says_why_it_is_not_compiled_as_one(case: str) -> None:
    text, wanted = REASONS[case]
    model = calor_onnx.load(onnx.parser.parse_model(f"{HEAD} {text}"), device="numpy")
    model(X, H)
    told = "\n".join([*filter(None, [model.reason]), *model.remarks])
    assert re.search(wanted, told), told
