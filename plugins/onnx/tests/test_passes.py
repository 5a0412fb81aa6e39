"""Passes over an imported graph: they fire, and what is computed stays the same."""

from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import calor
import calor_onnx
from onnxruntime_exact import expected_of

RANDOM = np.random.default_rng(5)


def tensor(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def model(text: str, version: int = 17, **weights: np.ndarray) -> onnx.ModelProto:
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {version}]> {text}')
    for name, array in weights.items():
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.checker.check_model(made)
    return made


ATTENTION = """f (float[2,7,16] x, float[2,1,1,7] mask) => (float[2,7,16] y) {
    heads = Constant <value_ints = [0,0,4,4]> ()
    flat = Constant <value_ints = [0,0,16]> ()
    rate = Constant <value_float = 2.0> ()
    q0 = MatMul (x, wq)
    q1 = Reshape (q0, heads)
    q = Transpose <perm = [0,2,1,3]> (q1)
    k0 = MatMul (x, wk)
    k1 = Reshape (k0, heads)
    k = Transpose <perm = [0,2,3,1]> (k1)
    v0 = MatMul (x, wv)
    v1 = Reshape (v0, heads)
    v = Transpose <perm = [0,2,1,3]> (v1)
    s0 = MatMul (q, k)
    s1 = Div (s0, rate)
    s2 = Add (s1, mask)
    p0 = Softmax <axis = -1> (s2)
    p = Dropout (p0)
    o0 = MatMul (p, v)
    o1 = Transpose <perm = [0,2,1,3]> (o0)
    y = Reshape (o1, flat)
}"""
NORM = """f (float[2,3,16] x) => (float[2,3,16] y) {
    two = Constant <value_float = 2.0> ()
    e = Constant <value_float = 0.00001> ()
    m = ReduceMean <axes = [-1]> (x)
    d = Sub (x, m)
    p = Pow (d, two)
    v = ReduceMean <axes = [-1]> (p)
    w = Add (v, e)
    s = Sqrt (w)
    n = Div (d, s)
    g = Mul (n, gamma)
    y = Add (beta, g)
}"""
ERF = """f (float[2,9] x) => (float[2,9] y) {
    root = Constant <value_float = 1.41421356> ()
    one = Constant <value_float = 1.0> ()
    half = Constant <value_float = 0.5> ()
    a = Div (x, root)
    b = Erf (a)
    c = Add (b, one)
    d = Mul (x, c)
    y = Mul (d, half)
}"""
ERF_FIRST = """f (float[2,9] x) => (float[2,9] y) {
    root = Constant <value_float = 0.70710678> ()
    one = Constant <value_float = 1.0> ()
    half = Constant <value_float = 0.5> ()
    h = Mul (half, x)
    a = Mul (x, root)
    b = Erf (a)
    c = Add (one, b)
    y = Mul (h, c)
}"""
TANH = """f (float[2,9] x) => (float[2,9] y) {
    three = Constant <value_float = 3.0> ()
    small = Constant <value_float = 0.044715> ()
    root = Constant <value_float = 0.7978845608> ()
    one = Constant <value_float = 1.0> ()
    half = Constant <value_float = 0.5> ()
    p = Pow (x, three)
    q = Mul (p, small)
    r = Add (x, q)
    s = Mul (r, root)
    t = Tanh (s)
    u = Add (t, one)
    h = Mul (x, half)
    y = Mul (h, u)
}"""
CONV = """f (float[2,3,8,8] x) => (float[2,4,6,6] y) {
    c = Conv (x, w)
    n = BatchNormalization (c, scale, shift, mean, variance)
    y = Relu (n)
}"""
BYTES = """f (float[2,5] x) => (float[2,7] y) {
    q = QuantizeLinear (x, sx, zx)
    a = DequantizeLinear (q, sx, zx)
    b = DequantizeLinear <axis = 1> (w, sw, zw)
    y = MatMul (a, b)
}"""
QUANTIZED = {
    "sx": np.float32(0.02), "zx": np.array(131, np.uint8),
    "w": RANDOM.integers(-128, 128, (5, 7)).astype(np.int8), "sw": abs(tensor(7)),
    "zw": np.arange(-3, 4, dtype=np.int8),
}  # fmt: skip
MOMENTS = {
    "scale": tensor(4), "shift": tensor(4), "mean": tensor(4), "variance": abs(tensor(4)) + 0.5,
}  # fmt: skip

# name: (model, inputs, operators that are left, in order)
ROWS = {
    "gelu by erf": (model(ERF), [tensor(2, 9)], ["Gelu"]),
    "gelu by erf, halved first": (model(ERF_FIRST), [tensor(2, 9)], ["Gelu"]),
    "gelu by tanh": (model(TANH), [tensor(2, 9)], ["Gelu"]),
    "layer norm": (
        model(NORM, gamma=tensor(16), beta=tensor(16)), [tensor(2, 3, 16)], ["LayerNormalization"],
    ),
    "attention": (
        model(ATTENTION, wq=tensor(16, 16), wk=tensor(16, 16), wv=tensor(16, 16)),
        [tensor(2, 7, 16), np.array([[0, 0, 0, 0, 0, -1e4, -1e4]] * 2, np.float32)[:, None, None]],
        ["MatMul", "Reshape", "Transpose", "MatMul", "Reshape", "MatMul", "Reshape", "Transpose",
         "Transpose", "ScaledAttention", "Transpose", "Reshape"],
    ),
    "batch norm behind a convolution": (
        model(CONV, w=tensor(4, 3, 3, 3), **MOMENTS), [tensor(2, 3, 8, 8)], ["Conv", "Relu"],
    ),
    "batch norm behind a convolution with a bias": (
        model(CONV.replace("(x, w)", "(x, w, b)"), w=tensor(4, 3, 3, 3), b=tensor(4), **MOMENTS),
        [tensor(2, 3, 8, 8)], ["Conv", "Relu"],
    ),
    "batch norm behind a transposed convolution": (
        model("""f (float[2,3,5,5] x) => (float[2,4,K,L] y) {
            c = ConvTranspose <strides = [2,2]> (x, w)
            y = BatchNormalization (c, scale, shift, mean, variance)
        }""", w=tensor(3, 4, 2, 2), **MOMENTS),
        [tensor(2, 3, 5, 5)], ["ConvTranspose"],
    ),
    "batch norm behind a product": (
        model("""f (float[2,3] x) => (float[2,4] y) {
            c = Gemm <transB = 1> (x, w, b)
            y = BatchNormalization (c, scale, shift, mean, variance)
        }""", w=tensor(4, 3), b=tensor(4), **MOMENTS),
        [tensor(2, 3)], ["Gemm"],
    ),
    "a value before batch norm that is read twice": (
        model(CONV.replace("=> (float[2,4,6,6] y)", "=> (float[2,4,6,6] y, float[2,4,6,6] c)"),
              w=tensor(4, 3, 3, 3), **MOMENTS),
        [tensor(2, 3, 8, 8)], ["Conv", "BatchNormalization", "Relu"],
    ),
    "transposes that cancel": (
        model("""f (float[2,3,4] x, float[2,3,4] z) => (float[2,3,4] y) {
            a = Transpose <perm = [1,2,0]> (x)
            b = Transpose <perm = [1,2,0]> (z)
            s = Add (a, b)
            one = Constant <value_float = 1.5> ()
            t = Mul (s, one)
            r = Relu (t)
            y = Transpose <perm = [2,0,1]> (r)
        }"""),
        [tensor(2, 3, 4), tensor(2, 3, 4)], ["Add", "Mul", "Relu"],
    ),
    "transposes into a product": (
        model("""f (float[3,2] x) => (float[2,4] y) {
            a = Transpose <perm = [1,0]> (x)
            b = Transpose <perm = [1,0]> (w)
            y = Gemm (a, b)
        }""", w=tensor(4, 3)),
        [tensor(3, 2)], ["Gemm"],
    ),
    "a transposed weight": (
        model("""f (float[2,3] x) => (float[2,4] y) {
            b = Transpose <perm = [1,0]> (w)
            y = MatMul (x, b)
        }""", w=tensor(4, 3)),
        [tensor(2, 3)], ["MatMul"],
    ),
    "bytes by weights of bytes": (
        model(BYTES, **QUANTIZED), [tensor(2, 5)], ["QuantizeLinear", "MatMulIntegerToFloat"],
    ),
    "bytes without zero points": (
        model(BYTES.replace(", zx)", ")").replace(", zw)", ")").replace("<axis = 1> ", ""),
              sx=QUANTIZED["sx"], w=QUANTIZED["w"], sw=np.float32(0.1)),
        [tensor(2, 5)], ["QuantizeLinear", "MatMulIntegerToFloat"],
    ),
    "one row of bytes, unsigned weights": (
        model(BYTES.replace("float[2,5]", "float[5]").replace("float[2,7]", "float[7]"),
              **{**QUANTIZED, "w": QUANTIZED["w"].view(np.uint8), "zw": np.full(7, 9, np.uint8)}),
        [tensor(5)], ["QuantizeLinear", "MatMulIntegerToFloat"],
    ),
    "bytes of which a call gives the scale": (
        model(BYTES.replace("x) =>", "x, float sx) =>"),
              **{name: array for name, array in QUANTIZED.items() if name != "sx"}),
        [tensor(2, 5), np.array(0.03, np.float32)],
        ["QuantizeLinear", "DequantizeLinear", "DequantizeLinear", "MatMul"],
    ),
    "nothing done": (
        model("""f (float[2,3] x) => (float[2,3] y) {
            a = Identity (x)
            b = Cast <to = 1> (a)
            c = Relu (b)
            d = Dropout (c)
            unused = Neg (d)
            e = Neg (d)
            y = Identity (e)
        }"""),
        [tensor(2, 3)], ["Relu", "Neg"],
    ),
    "an identity of an input": (
        model("f (float[2] x) => (float[2] y) { y = Identity (x) }"), [tensor(2)], ["Identity"],
    ),
    "within branches": (
        model("""f (float[2] x, bool c) => (float[2] y) {
            a = Identity (x)
            r = Neg (a)
            y = If (c) <
                then_branch = t () => (float[2] u) {
                    v = Identity (r)
                    w = Relu (v)
                    u = Identity (w)
                },
                else_branch = e () => (float[2] z) { z = Identity (r) }>
        }"""),
        [tensor(2), np.array(True)], ["Neg", "If", "Relu", "Identity"],
    ),
    "a transpose that is an output too": (
        model("""f (float[2,3] x) => (float[3,2] t, float[2,3] y) {
            t = Transpose <perm = [1,0]> (x)
            y = Transpose <perm = [1,0]> (t)
        }"""),
        [tensor(2, 3)], ["Transpose", "Transpose"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_pass_fires_and_numbers_stay(name: str) -> None:
    proto, arrays, wanted = ROWS[name]
    made = calor_onnx.load(proto, device="numpy")
    assert [node.op for node in made.graph.walk()] == wanted
    inputs = dict(zip((info.name for info in made.inputs), arrays, strict=True))
    expected = expected_of(proto.SerializeToString(), inputs)
    plain = calor_onnx.load(proto, device="numpy", simplify=False)
    assert len(plain.graph.nodes) == len(plain.imported.graph.nodes)
    for one in (made, plain):
        for found, right in zip(one.run(inputs).values(), expected, strict=True):
            np.testing.assert_allclose(found.numpy(), right, rtol=2e-5, atol=2e-5)


def test_sums_of_bytes_that_may_not_fit_are_of_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    proto, _, wanted = ROWS["bytes by weights of bytes"]
    assert [node.op for node in calor_onnx.load(proto, device="numpy").graph.nodes] == wanted
    monkeypatch.setattr(import_module("calor_onnx.passes.bytes_multiplied"), "_TERMS", 4)
    made = calor_onnx.load(proto, device="numpy")
    assert [node.op for node in made.graph.nodes][-1] == "MatMul"


def test_weights_of_bytes_with_a_scale_for_each_row_are_floats() -> None:
    # ONNX Runtime 1.32 makes one node of them, which it then refuses to run.
    rows = {"sw": abs(tensor(5)), "zw": np.zeros(5, np.int8)}
    proto = model(BYTES.replace("axis = 1", "axis = 0"), **{**QUANTIZED, **rows})
    made = calor_onnx.load(proto, device="numpy")
    assert [node.op for node in made.graph.nodes][-1] == "MatMul"
    x = tensor(2, 5)
    held = np.clip(np.round(x / QUANTIZED["sx"]) + 131, 0, 255) - 131
    expected = held * QUANTIZED["sx"] @ (QUANTIZED["w"] * rows["sw"][:, None])
    np.testing.assert_allclose(made(x).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_scales_that_are_asked_for_act() -> None:
    proto, (x,), _ = ROWS["bytes by weights of bytes"]
    made = calor_onnx.load(proto, device="numpy")
    before = made(x).numpy()
    made.parameters["sw"] *= 2
    np.testing.assert_allclose(made(x).numpy(), before * 2, rtol=1e-5, atol=1e-5)


def test_weights_that_are_asked_for_are_those_of_the_file() -> None:
    proto, (x,), _ = ROWS["batch norm behind a convolution"]
    made = calor_onnx.load(proto, device="numpy")
    before = made(x).numpy()
    assert sorted(made.parameters) == ["mean", "scale", "shift", "variance", "w"]
    np.testing.assert_allclose(made(x).numpy(), before, rtol=1e-5, atol=1e-5)
    made.parameters["scale"] *= 0
    expected = np.maximum(np.broadcast_to(MOMENTS["shift"][:, None, None], before.shape), 0)
    np.testing.assert_allclose(made(x).numpy(), expected, rtol=1e-5, atol=1e-5)


def test_a_module_has_the_weights_of_the_file() -> None:
    proto, (x,), _ = ROWS["batch norm behind a convolution"]
    module = calor_onnx.as_module(calor_onnx.load(proto, device="numpy"))
    assert sorted(module.weights) == ["scale", "shift", "w"]
    expected = calor_onnx.load(proto, device="numpy")(x).numpy()
    np.testing.assert_allclose(module(calor.asarray(x)).numpy(), expected, rtol=1e-5, atol=1e-5)


def test_a_constant_that_a_call_gives_anew_is_taken() -> None:
    proto, (x,), _ = ROWS["batch norm behind a convolution"]
    other = onnx.ModelProto()
    other.CopyFrom(proto)
    shape = onnx.helper.make_tensor_value_info("shift", onnx.TensorProto.FLOAT, [4])
    other.graph.input.append(shape)
    made = calor_onnx.load(other, device="numpy")
    assert [node.op for node in made.graph.nodes] == ["Conv", "Relu"]
    before = made(x).numpy()
    again = made(x=x, shift=MOMENTS["shift"]).numpy()
    np.testing.assert_allclose(again, before, rtol=1e-5, atol=1e-5)
    moved = made(x=x, shift=MOMENTS["shift"] + 100).numpy()
    assert moved.min() > 50


def test_folded_weights_come_from_the_file_when_they_are_brought_up(tmp_path: Path) -> None:
    weight = tensor(64, 64, 3, 3)
    moments = {name: np.resize(array, 64) for name, array in MOMENTS.items()}
    text = CONV.replace("2,3,8,8", "1,64,8,8").replace("2,4,6,6", "1,64,6,6")
    path = tmp_path / "m.onnx"
    onnx.save(model(text, w=weight, **moments), path)
    x = tensor(1, 64, 8, 8)
    expected = onnxruntime.InferenceSession(path).run(None, {"x": x})[0]
    made = calor_onnx.load(path, device="numpy")
    path.write_bytes(b"")
    np.testing.assert_allclose(made(x).numpy(), expected, rtol=1e-3, atol=1e-3)
