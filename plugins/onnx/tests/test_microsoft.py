"""Operators of ONNX Runtime's own domain, beside ONNX Runtime."""

from typing import Any

import numpy as np
import onnx
import pytest

import calor_onnx
from onnxruntime_exact import expected_of

rng = np.random.default_rng(0)


def f(*shape: int, scale: float = 1.0) -> Any:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def u8(*shape: int) -> Any:
    return rng.integers(0, 255, shape).astype(np.uint8)


def i8(*shape: int) -> Any:
    return rng.integers(-120, 120, shape).astype(np.int8)


def i32(*values: Any) -> Any:
    return np.array(values, np.int32)


def i64(*values: Any) -> Any:
    return np.array(values, np.int64)


def s(value: float) -> Any:
    return np.array(value, np.float32)


def z(value: int, dtype: Any = np.uint8) -> Any:
    return np.array(value, dtype)


def model_of(
    op: str, inputs: list[Any], outputs: int, attributes: dict[str, Any], constant: tuple[int, ...],
    domain: str = "com.microsoft",
) -> bytes:  # fmt: skip
    """A model of one node; inputs that are None are left out, those in ``constant`` are weights."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    helper = onnx.helper
    given, weights = [], []
    for i, x in enumerate(inputs):
        if x is not None and i in constant:
            weights.append(onnx.numpy_helper.from_array(x, names[i]))
        elif x is not None:
            kind = helper.np_dtype_to_tensor_dtype(x.dtype)
            given.append(helper.make_tensor_value_info(names[i], kind, x.shape))
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, domain=domain, **attributes)
    infos = [onnx.ValueInfoProto(name=name) for name in made]
    graph = helper.make_graph([node], op, given, infos, weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 10
    return bytes(model.SerializeToString())


def compare(
    op: str, inputs: list[Any], outputs: int = 1, constant: tuple[int, ...] = (),
    tolerance: float = 2e-6, off: int = 0, domain: str = "com.microsoft", **attributes: Any,
) -> None:  # fmt: skip
    """``off`` is how far integers may be from ONNX Runtime's."""
    data = model_of(op, inputs, outputs, attributes, constant, domain)
    feed = {f"x{i}": x for i, x in enumerate(inputs) if x is not None and i not in constant}
    expected = expected_of(data, feed)
    model = calor_onnx.load(data, device="numpy")
    found = [np.asarray(x.numpy()) for x in model.run(feed).values()]
    assert len(found) == len(expected) == outputs
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        if theirs.dtype.kind == "f":
            scale = max(float(np.abs(theirs).max()), 1.0)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * scale)
        else:
            assert np.abs(ours.astype(np.int64) - theirs.astype(np.int64)).max(initial=0) <= off
    assert model.reason is None


X = f(2, 3, 8)
W, B = f(8, 24, scale=0.3), f(24)
FUSED = [
    ("Gelu", [X], {}),
    ("FastGelu", [X, f(8)], {}),
    ("FastGelu", [X], {}),
    ("BiasGelu", [X, f(8)], {}),
    ("QuickGelu", [X], {"alpha": 1.5}),
    ("QuickGelu", [X], {"alpha": 1.0}),
    ("SkipLayerNormalization", [X, f(2, 3, 8), f(8), f(8), f(8)], {"epsilon": 1e-5}),
    ("SkipSimplifiedLayerNormalization", [X, f(2, 3, 8), f(8), f(8)], {"epsilon": 1e-5}),
    ("FusedMatMul", [f(2, 4, 3), f(2, 5, 4)], {"transA": 1, "transB": 1, "alpha": 0.5}),
    ("FusedMatMul", [f(3, 2, 4), f(3, 2, 5)], {"transA": 1, "transBatchA": 1, "transBatchB": 1}),
    ("TransposeMatMul", [f(2, 4), f(4, 5)], {}),
    ("FusedGemm", [f(2, 4), f(5, 4), f(5)], {"transB": 1, "activation": "Relu"}),
    ("FusedConv", [f(1, 2, 5, 5), f(3, 2, 3, 3), f(3)], {"activation": "Relu"}),
    ("FusedConv", [f(1, 2, 5, 5), f(4, 2, 3, 3), f(4), f(1, 4, 5, 5)],
     {"activation": "Relu", "pads": [1, 1, 1, 1]}),
    ("FusedConv", [f(1, 2, 5, 5), f(3, 2, 3, 3)],
     {"activation": "LeakyRelu", "activation_params": [0.2], "strides": [2, 2]}),
    ("FusedConv", [f(1, 2, 5, 5), f(3, 2, 3, 3)],
     {"activation": "HardSigmoid", "activation_params": [0.2, 0.5]}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "attributes"), FUSED)
def test_fused(op: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    compare(op, inputs, constant=(1,) if op == "FusedConv" else (), **attributes)


def test_normalizations_that_onnx_runtime_puts_in_the_default_domain() -> None:
    compare("SimplifiedLayerNormalization", [X, f(8)], domain="", epsilon=1e-5)
    compare("LayerNormalization", [X, f(8), f(8)], domain="", epsilon=1e-5)


def test_sums_and_counts_are_given_where_they_are_named() -> None:
    words, segments = i32([1, 2, 0], [3, 1, 1]), i32([0, 0, 1], [1, 1, 0])
    tables = [f(4, 8), f(5, 8), f(2, 8), f(8), f(8)]
    compare("EmbedLayerNormalization", [words, segments, *tables, i32([1, 1, 0], [1, 1, 1])], 2)
    compare("EmbedLayerNormalization", [words, segments, *tables], 3)
    places = i32([0, 1, 1], [2, 2, 3])
    compare(
        "EmbedLayerNormalization", [words, None, *tables[:2], None, *tables[3:], None, places], 2
    )


MASKS = [
    ([None], {}),
    ([None], {"unidirectional": 1}),
    ([i32([1, 1, 0], [1, 1, 1])], {}),
    ([i32([[1, 0, 0], [1, 1, 0], [1, 1, 1]], [[1, 1, 1], [0, 1, 1], [0, 0, 1]])], {}),
    ([i32(2, 3)], {"unidirectional": 1}),
    ([i32(3, 2, 1, 0)], {}),
    ([None, None, f(1, 2, 3, 3)], {"scale": 0.25}),
]


@pytest.mark.parametrize(("more", "attributes"), MASKS)
def test_attention(more: list[Any], attributes: dict[str, Any]) -> None:
    compare("Attention", [X, W, B, *more], constant=(1, 2), num_heads=2, **attributes)


def test_attention_with_a_past() -> None:
    past = f(2, 2, 2, 4, 4)
    mask = i32([1, 1, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0])
    for options in ({}, {"unidirectional": 1}):
        compare("Attention", [X, W, B, mask, past], 2, constant=(1, 2), num_heads=2, **options)
    compare("Attention", [X, f(8, 20), f(20)], constant=(1, 2), num_heads=2,
            qkv_hidden_sizes=[8, 8, 4])  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "outputs", "attributes"),
    [
        ([X, f(2, 5, 8), f(2, 5, 8)], 1, {}),
        ([X, f(2, 5, 8), f(2, 5, 12)], 1, {"scale": 0.3}),
        ([X, f(2, 5, 8), f(2, 5, 8), f(24), i32(3, 5)], 1, {}),
        ([X, f(2, 5, 8), f(2, 5, 8), None, i32([1, 1, 1, 0, 0], [1, 1, 1, 1, 1])], 1, {}),
        ([X, f(2, 3, 8), f(2, 3, 8), None, None, f(2, 1, 3, 3)], 1, {"unidirectional": 1}),
        ([X, f(2, 2, 5, 4), f(2, 2, 5, 4)], 1, {}),
        ([X, f(2, 3, 8), f(2, 3, 8), None, None, None, f(2, 2, 4, 4), f(2, 2, 4, 4)], 3, {}),
    ],
)
def test_multi_head_attention(inputs: list[Any], outputs: int, attributes: dict[str, Any]) -> None:
    compare("MultiHeadAttention", inputs, outputs, num_heads=2, **attributes)


def run(op: str, *inputs: Any, **attributes: Any) -> Any:
    data = model_of(op, [*inputs], 1, attributes, ())
    model = calor_onnx.load(data, device="numpy")
    return model.run({f"x{i}": x for i, x in enumerate(inputs) if x is not None})["y0"].numpy()


def test_what_onnx_runtime_has_on_other_devices_alone() -> None:
    q, k, v = f(2, 3, 8), f(2, 3, 8), f(2, 3, 8)
    plain = run("MultiHeadAttention", q, k, v, num_heads=2)
    heads = [x.reshape(2, 3, 2, 4) for x in (q, k, v)]
    for packed in ((np.stack(heads, 3),), (q, np.stack(heads[1:], 3))):
        made = run("MultiHeadAttention", *packed, num_heads=2)
        np.testing.assert_allclose(made, plain, atol=1e-6)
    x, bias = f(2, 2, 3, 4), f(2, 1, 1, 4)
    powers = np.exp(x + bias)
    np.testing.assert_allclose(
        run("BiasSoftmax", x, bias, axis=3), powers / powers.sum(3, keepdims=True), atol=1e-6
    )
    image, gamma, beta = f(1, 3, 3, 4), f(4), f(4)
    made = run("GroupNorm", image, gamma, beta, groups=2, activation=1)
    parts = image.reshape(1, 9, 2, 2)
    spread = np.sqrt(parts.var((1, 3), keepdims=True) + 1e-5)
    y = ((parts - parts.mean((1, 3), keepdims=True)) / spread).reshape(image.shape) * gamma + beta
    np.testing.assert_allclose(made, y / (1 + np.exp(-y)), atol=1e-5)
    product = run("BiasSplitGelu", f(2, 8) * 0 + 1, np.zeros(8, np.float32))
    np.testing.assert_allclose(product, np.full((2, 4), 0.8413447), atol=1e-6)
    np.testing.assert_allclose(run("BiasAdd", x, bias, x), x + bias + x)
    weights = f(2, 2, 3, 3)
    nhwc = run("NhwcConv", np.moveaxis(x, 1, -1), np.moveaxis(weights, 1, -1))
    conv = run("FusedConv", x, weights, None, None)
    np.testing.assert_allclose(np.moveaxis(nhwc, -1, 1), conv, atol=1e-6)


COS, SIN = (g(np.arange(16)[:, None] * [1.0, 0.3]).astype(np.float32) for g in (np.cos, np.sin))


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("places", [i64(3), i64([0, 5, 1], [2, 3, 4])])
def test_rotary_embedding(places: Any, interleaved: int) -> None:
    compare("RotaryEmbedding", [X, places, COS, SIN], interleaved=interleaved)
    compare("RotaryEmbedding", [f(2, 2, 3, 4), places, COS, SIN], interleaved=interleaved)


def test_rotary_embedding_of_a_part() -> None:
    compare("RotaryEmbedding", [f(2, 3, 12), i64(0), COS, SIN], num_heads=2,
            rotary_embedding_dim=4)  # fmt: skip


# Past and new keys by sample, total, options; 4 heads in 2 groups of 16 numbers.
GROUPED = [
    (0, 3, [2, 2], 3, {}),
    (0, 3, [2, 1], 3, {"do_rotary": 1}),
    (4, 1, [4, 4], 5, {"do_rotary": 1}),
    (4, 1, [4, 2], 5, {"do_rotary": 1, "rotary_interleaved": 1}),
    (8, 1, [4, 6], 7, {"do_rotary": 1}),
    (8, 1, [4, 4], 5, {"local_window_size": 3}),
    (4, 1, [4, 4], 5, {"softcap": 2.0}),
    (4, 1, [4, 4], 5, {"smooth_softmax": 1}),
    (0, 3, [2, 2], 3, {"local_window_size": 2}),
]


@pytest.mark.parametrize(("room", "new", "last", "total", "attributes"), GROUPED)
@pytest.mark.parametrize("packed", [False, True])
def test_group_query_attention(
    room: int, new: int, last: list[int], total: int, attributes: dict[str, Any], packed: bool
) -> None:
    q, k, v = f(2, new, 64), f(2, new, 32), f(2, new, 32)
    given = [np.concatenate([q, k, v], 2), None, None] if packed else [q, k, v]
    past = [f(2, 2, room, 16), f(2, 2, room, 16)]
    angles = [np.tile(COS, 4), np.tile(SIN, 4)] if attributes.get("do_rotary") else []
    inputs = [*given, *past, i32(*last), np.array(total, np.int32), *angles]
    data = model_of("GroupQueryAttention", inputs, 3,
                    {"num_heads": 4, "kv_num_heads": 2, **attributes}, (6, 7, 8))  # fmt: skip
    feed = {f"x{i}": x for i, x in enumerate(inputs) if x is not None and i < 6}
    theirs = expected_of(data, feed)
    model = calor_onnx.load(data, device="numpy")
    ours = [x.numpy() for x in model.run(feed).values()]
    for sample in range(2):
        # What lies behind a sample's keys, and what queries of padding give, is anything.
        keys = last[sample] + 1
        rows = new if new == 1 else keys
        np.testing.assert_allclose(ours[0][sample, :rows], theirs[0][sample, :rows], atol=3e-6)
        for a, b in zip(ours[1:], theirs[1:], strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a[sample, :, :keys], b[sample, :, :keys], atol=3e-6)


def test_quantized_attention() -> None:
    inputs = [u8(2, 3, 8), u8(8, 24), f(24), s(0.02), s(0.01), i32(3, 2), z(120), z(100)]
    compare("QAttention", inputs, constant=(1, 2, 3, 4, 6, 7), num_heads=2, tolerance=1e-5)
    inputs = [u8(2, 3, 8), i8(8, 24), f(24), s(0.02), s(0.01), None, z(120), z(0, np.int8)]
    compare("QAttention", inputs, constant=(1, 2, 3, 4, 6, 7), num_heads=2, unidirectional=1,
            tolerance=1e-5)  # fmt: skip


A8, B8 = u8(2, 3, 4), u8(2, 3, 4)
QLINEAR = [
    ("QLinearAdd", [A8, s(0.1), z(120), B8, s(0.2), z(110), s(0.3), z(128)], {}),
    ("QLinearAdd", [i8(2, 4), s(0.1), z(1, np.int8), i8(4), s(0.2), z(2, np.int8), s(0.3),
                    z(0, np.int8)], {}),
    ("QLinearMul", [A8, s(0.1), z(120), B8, s(0.2), z(110), s(0.9), z(128)], {}),
    ("QLinearSigmoid", [A8, s(0.05), z(120), s(1 / 256), z(0)], {}),
    ("QLinearLeakyRelu", [A8, s(0.05), z(120), s(0.05), z(100)], {"alpha": 0.1}),
    ("QLinearSoftmax", [A8, s(0.05), z(120), s(1 / 256), z(0)], {"axis": -1, "opset": 13}),
    ("QLinearSoftmax", [A8, s(0.05), z(120), s(1 / 256), z(0)], {"axis": 1, "opset": 12}),
    ("QLinearAveragePool", [u8(1, 2, 5, 5), s(0.1), z(100), s(0.1), z(90)],
     {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("QLinearAveragePool", [u8(1, 5, 5, 2), s(0.1), z(100), s(0.1), z(90)],
     {"kernel_shape": [2, 2], "channels_last": 1}),
    ("QLinearGlobalAveragePool", [u8(1, 2, 5, 5), s(0.1), z(100), s(0.1), z(90)], {}),
    ("QLinearGlobalAveragePool", [u8(1, 5, 5, 2), s(0.1), z(100), s(0.1), z(90)],
     {"channels_last": 1}),
    ("QLinearConcat", [s(0.2), z(128), u8(2, 3), s(0.1), z(120), u8(2, 2), s(0.3), z(110)],
     {"axis": 1}),
    ("QGemm", [u8(3, 4), s(0.1), z(120), u8(4, 5), s(0.2), z(110), i32(1, 2, 3, 4, 5), s(9.0),
               z(128)], {}),
    ("QGemm", [u8(3, 4), s(0.1), z(120), i8(5, 4), f(5) ** 2, i8(5) * 0], {"transB": 1}),
    ("MatMulIntegerToFloat", [u8(3, 4), u8(4, 5), s(0.1), s(0.2), z(3), z(4), f(5)], {}),
    ("MatMulIntegerToFloat", [u8(3, 4), i8(4, 5), s(0.1), f(5) ** 2, z(3), i8(5)], {}),
    ("DynamicQuantizeMatMul", [f(3, 4), i8(4, 5), s(0.2), z(4, np.int8), f(5)], {}),
    ("DynamicQuantizeMatMul", [f(3, 4), u8(4, 5), f(5) ** 2], {}),
    ("QuantizeLinear", [f(2, 3), s(0.1), z(3, np.uint16)], {}),
    ("DequantizeLinear", [u8(2, 3), f(3), u8(3)], {"axis": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "attributes"), QLINEAR)
def test_quantized(op: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    weights = {"QLinearConcat": (0, 1, 3, 4, 6, 7)}.get(op, ())
    compare(op, inputs, constant=weights, tolerance=1e-5, off=1, **attributes)


# ONNX Runtime splits a batch between its threads and quantizes the states of each part by itself,
# so a batch of one is compared.
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int8 by channel"])
def test_lstm_with_weights_of_bytes(direction: str, kind: str) -> None:
    both = 2 if direction == "bidirectional" else 1
    each = (both, 20) if kind == "int8 by channel" else (both,)
    offset = np.full(each, 128, np.uint8) if kind == "uint8" else np.zeros(each, np.int8)
    draw = u8 if kind == "uint8" else i8
    compare(
        "DynamicQuantizeLSTM",
        [f(6, 1, 7), draw(both, 7, 20), draw(both, 5, 20), f(both, 40), i32(4), f(both, 1, 5),
         f(both, 1, 5), f(both, 15), np.abs(f(*each, scale=0.01)), offset,
         np.abs(f(*each, scale=0.01)), offset],
        outputs=3, constant=(1, 2, 3, 7, 8, 9, 10, 11), hidden_size=5, direction=direction,
    )  # fmt: skip


# ONNX Runtime takes no zero points of floats for 8 bits.
@pytest.mark.parametrize(
    ("bits", "zeros"),
    [(b, z) for b in (2, 4, 8) for z in (None, "packed", "floats") if (b, z) != (8, "floats")],
)
def test_matmul_of_few_bits(bits: int, zeros: str | None) -> None:
    rows, width, block = 6, 40, 16
    blocks = 3
    packed = rng.integers(0, 256, (rows, blocks, block * bits // 8)).astype(np.uint8)
    scales = f(rows, blocks) ** 2
    offsets: Any = None
    if zeros == "packed":
        offsets = rng.integers(0, 256, (rows, -(-blocks * bits // 8))).astype(np.uint8)
    elif zeros == "floats":
        offsets = f(rows, blocks) + 2
    compare("MatMulNBits", [f(2, 3, width), packed, scales, offsets, None, f(rows)],
            constant=(1, 2, 3, 5), tolerance=2e-5, K=width, N=rows, bits=bits,
            block_size=block)  # fmt: skip
