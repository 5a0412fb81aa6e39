"""Operators of ONNX's default domain beside ONNX Runtime: what ONNX's own tests leave out."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest

import calor_onnx
from onnxruntime_exact import expected_of

rng = np.random.default_rng(0)
Row = tuple[str, list[Any], int, int, dict[str, Any]]


def f(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def ints(low: int, high: int, shape: tuple[int, ...], dtype: Any = np.int32) -> Any:
    return rng.integers(low, high, shape).astype(dtype)


def s(value: float, dtype: Any = np.float32) -> Any:
    return np.array(value, dtype)


def row(op: str, inputs: list[Any], opset: int, outputs: int = 1, **attributes: Any) -> Row:
    return op, inputs, opset, outputs, attributes


def compare(op: str, inputs: list[Any], opset: int, outputs: int, attributes: Any) -> None:
    helper = onnx.helper
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    feed = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in feed.items()
    ]
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, **attributes)
    infos = [onnx.ValueInfoProto(name=name) for name in made]
    graph = helper.make_graph([node], op, given, infos)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    expected = expected_of(model.SerializeToString(), feed)
    found = calor_onnx.load(model, device="numpy").run(feed).values()
    for ours, theirs in zip(map(np.asarray, map(host, found)), expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        tolerance = 1e-4 if theirs.dtype.kind == "f" else 1 if "QLinear" in op else 0
        np.testing.assert_allclose(
            ours.astype(np.float64), theirs.astype(np.float64), rtol=1e-4, atol=tolerance
        )


def host(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else value.numpy()


def elementwise() -> Iterator[Row]:
    whole = ints(-20, 20, (3, 4)), np.array([3, -2, 5, -6], np.int32)
    yield from (row(op, [*whole], 13) for op in ("Add", "Mul", "Div", "Mod"))
    yield row("Mod", [*whole], 13, fmod=1)
    yield row("Mod", [f(3, 4), f(4)], 13, fmod=1)
    yield row("Pow", [np.abs(f(3, 4)), np.array([2])], 15)
    yield row("Pow", [ints(0, 5, (3,)), s(2)], 15)
    yield from (row(op, [f(3, 4), f(4), f(3, 1)], 13) for op in ("Max", "Min", "Sum", "Mean"))
    yield row("Clip", [f(3, 4)], 6, min=-0.5, max=0.5)
    yield row("Clip", [f(3, 4), None, s(0.5)], 13)
    for op, opset, axis in product(("Softmax", "LogSoftmax", "Hardmax"), (11, 13), (0, 1, -1)):
        yield row(op, [f(2, 3, 4)], opset, axis=axis)
    yield row("PRelu", [f(2, 3, 4), f(3, 1)], 16)
    yield row("Celu", [f(3, 4)], 12, alpha=0.7)
    yield row("Selu", [f(3, 4)], 6)
    yield row("Shrink", [f(3, 4)], 9, lambd=0.3, bias=0.1)


def reductions() -> Iterator[Row]:
    kinds = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
    x = np.abs(f(2, 3, 4))
    for kind in kinds:
        yield row(f"Reduce{kind}", [x], 11, axes=[-1, 0])
        yield row(f"Reduce{kind}", [x], 11)
        yield row(f"Reduce{kind}", [x, np.array([1])], 18, keepdims=0)
    for op, axis, last in product(("ArgMax", "ArgMin"), (0, -1), (0, 1)):
        x = ints(0, 3, (3, 5), np.float32)
        yield row(op, [x], 13, axis=axis, select_last_index=last, keepdims=last)
    for exclusive, reverse in product((0, 1), (0, 1)):
        yield row("CumSum", [f(3, 4), np.array(1)], 14, exclusive=exclusive, reverse=reverse)
    for start, end, step in product((-10, -1, 1, 10), (-(2**63), -2, 0, 10), (-2, -1, 1)):
        bounds = [np.array([n]) for n in (start, end, 1, step)]
        yield row("Slice", [f(2, 3), *bounds], 13)
    for a, b in product((0, 1), (0, 1)):
        left, right = f(4, 3) if a else f(3, 4), f(5, 4) if b else f(4, 5)
        yield row("Gemm", [left, right, f(5)], 13, transA=a, transB=b, alpha=0.5, beta=0.25)
    for equation, shapes in (("bij,bjk", [(2, 3, 4), (2, 4, 5)]), ("ii->i", [(3, 3)])):
        yield row("Einsum", [f(*shape) for shape in shapes], 12, equation=equation)


SIZES = (9, 8, 7)


def paddings(rank: int) -> list[dict[str, Any]]:
    automatic: list[dict[str, Any]] = [
        {"auto_pad": name} for name in ("SAME_UPPER", "SAME_LOWER", "VALID")
    ]
    return [{}, {"pads": [1] * rank + [2] * rank}, {"pads": [2] * rank + [0] * rank}, *automatic]


def convolutions() -> Iterator[Row]:
    for rank, step, group in ((1, 2, 1), (2, 1, 2), (2, 2, 1), (3, 2, 2)):
        x, bias, window = f(2, 4, *SIZES[:rank]), f(6), (3, 2, 2)[:rank]
        for padding in paddings(rank):
            given: dict[str, Any] = {"strides": [step] * rank, "group": group, **padding}
            yield row("Conv", [x, f(6, 4 // group, *window), bias], 11, **given)
            weight = f(4, 6 // group, *window)
            yield row("ConvTranspose", [x, weight, bias], 11, **given)
            if "auto_pad" not in padding:
                given["dilations"] = [2] * rank
                yield row("Conv", [x, f(6, 4 // group, *window), bias], 11, **given)
                more: dict[str, Any] = {"output_padding": [step - 1] * rank}
                yield row("ConvTranspose", [x, weight], 11, **given, **more)
    image, weight = f(1, 2, 4, 4), f(2, 3, 3, 3)
    yield row("ConvTranspose", [image, weight], 11, strides=[2, 2], output_shape=[9, 10])
    yield row("ConvTranspose", [image, weight], 11, strides=[3, 2], output_shape=[12, 8],
              auto_pad="SAME_UPPER")  # fmt: skip


def pools() -> Iterator[Row]:
    for rank, step, round_up in product((1, 2, 3), (1, 2, 3), (0, 1)):
        x, kernel = f(2, 3, *SIZES[:rank]), [3, 2, 3][:rank]
        some: list[dict[str, Any]] = [
            {}, {"pads": [1] * rank + [0] * rank}, {"auto_pad": "SAME_LOWER"}
        ]  # fmt: skip
        for padding in some:
            if "auto_pad" in padding and round_up:
                continue
            given: dict[str, Any] = {"kernel_shape": kernel, "strides": [step] * rank, **padding}
            up: dict[str, Any] = {"ceil_mode": round_up}
            yield row("MaxPool", [x], 12, 2, **given, **up)
            yield row("AveragePool", [x], 11, **given, **up)
            yield row("AveragePool", [x], 11, count_include_pad=1, **given, **up)
            if not round_up:
                yield row("LpPool", [x], 11, **given)
    yield row("MaxPool", [f(2, 3, 6, 6)], 12, 2, kernel_shape=[2, 2], storage_order=1)
    yield row("MaxPool", [f(1, 2, 9, 9)], 12, 2, kernel_shape=[3, 3], dilations=[2, 2])
    yield row("MaxPool", [ints(-99, 99, (1, 2, 6, 6), np.int8)], 12, kernel_shape=[3, 3])
    yield row("GlobalLpPool", [f(2, 3, 4, 5)], 2, p=3)
    yield row("LRN", [f(2, 7, 4, 5)], 13, size=3, alpha=0.1, beta=0.5, bias=2.0)
    yield row("BatchNormalization", [f(2, 3), f(3), f(3), f(3), np.abs(f(3))], 9)
    yield row("LayerNormalization", [f(2, 3, 4, 5), f(4, 5), f(4, 5)], 17, 3, axis=2)


def recurrent() -> Iterator[Row]:
    inputs, hidden, batch = 3, 4, 2
    names: dict[str, Any] = {
        "RNN": ["Relu"],
        "GRU": ["HardSigmoid", "Softsign"],
        "LSTM": ["Sigmoid", "Elu", "Tanh"],
    }
    for (op, gates), direction, more in product(
        (("RNN", 1), ("GRU", 3), ("LSTM", 4)), ("forward", "reverse", "bidirectional"), range(4)
    ):
        count = 2 if direction == "bidirectional" else 1
        # One step is no loop.
        steps = 1 if more == 2 else 5
        given: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
        operands = [
            f(steps, batch, inputs), f(count, gates * hidden, inputs),
            f(count, gates * hidden, hidden), f(count, 2 * gates * hidden) if more else None,
            np.array([3, steps], np.int32) if more % 2 else None,
            f(count, batch, hidden) if more > 1 else None,
        ]  # fmt: skip
        if op == "LSTM":
            operands.append(f(count, batch, hidden) if more > 1 else None)
            operands.append(f(count, 3 * hidden) if more > 2 else None)
        if op == "GRU":
            given["linear_before_reset"] = more % 2
        if more == 3:
            given["clip"] = 0.7
        if more == 2:
            given["activations"] = names[op] * count
        while operands[-1] is None:
            operands.pop()
        yield row(op, operands, 14, 3 if op == "LSTM" else 2, **given)


def quantized() -> Iterator[Row]:
    x, byte = f(3, 4) * 5, np.uint8
    yield row("QuantizeLinear", [x, s(0.1), s(3, byte)], 13)
    yield row("QuantizeLinear", [x, np.abs(f(3)) + 0.1, ints(-9, 9, (3,), np.int8)], 13, axis=0)
    low = ints(-99, 99, (3, 4), np.int8)
    yield row("DequantizeLinear", [low, np.abs(f(4)), ints(-9, 9, (4,), np.int8)], 13)
    yield row("DequantizeLinear", [ints(-99999, 99999, (3, 4)), s(0.1)], 13)
    yield row("DynamicQuantizeLinear", [x], 11, 3)
    image, weight = ints(0, 255, (1, 3, 6, 6), byte), ints(-128, 127, (4, 3, 3, 3), np.int8)
    yield row("ConvInteger", [image, weight, s(7, byte)], 10, pads=[1] * 4)
    yield row("QLinearConv", [
        image, s(0.02), s(7, byte), weight, np.abs(f(4)) / 100 + 0.01, np.zeros(4, np.int8),
        s(0.3), s(99, byte), ints(-999, 999, (4,)),
    ], 10, pads=[1] * 4)  # fmt: skip
    a, b = ints(0, 255, (2, 5, 8), byte), ints(0, 255, (2, 8, 3), byte)
    yield row("MatMulInteger", [a, b, s(3, byte), s(120, byte)], 10)
    yield row("QLinearMatMul", [
        a, s(0.02), s(120, byte), b, s(0.01), s(130, byte), s(0.2), s(100, byte),
    ], 10)  # fmt: skip


def images() -> Iterator[Row]:
    for align, count in product((0, 1), (1, 2)):
        yield row("AffineGrid", [f(count, 2, 3), np.array([count, 3, 4, 5])], 20,
                  align_corners=align)  # fmt: skip
        yield row("AffineGrid", [f(count, 3, 4), np.array([count, 1, 2, 3, 4])], 20,
                  align_corners=align)  # fmt: skip
    for mode, place in product(
        ("nearest", "linear", "cubic"),
        ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"),
    ):
        given: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": place}
        yield row("Resize", [f(1, 2, 5, 6), None, None, np.array([1, 2, 8, 9])], 13, **given)
        for rounding in ("floor", "ceil", "round_prefer_ceil") if mode == "nearest" else ("floor",):
            scales = np.array([1, 1, 0.6, 2], np.float32)
            if place != "align_corners":
                yield row("Resize", [f(1, 2, 5, 6), None, scales], 13, nearest_mode=rounding,
                          **given)  # fmt: skip
    for mode in ("linear", "cubic"):
        scales, sizes = np.array([0.5, 0.6], np.float32), np.array([5, 6])
        yield row("Resize", [f(1, 2, 9, 8), None, scales], 18, mode=mode, antialias=1, axes=[2, 3])
        yield row("Resize", [f(1, 2, 9, 8), None, None, sizes], 18, mode=mode, axes=[2, 3])
    yield row("Upsample", [f(1, 2, 3, 4), np.array([1, 1, 2, 2], np.float32)], 9, mode="linear")
    for mode, padding, align in product(
        ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (0, 1)
    ):
        yield row("GridSample", [f(2, 3, 5, 6), f(2, 4, 4, 2)], 16, mode=mode,
                  padding_mode=padding, align_corners=align)  # fmt: skip
    rois = np.array([[1, 1, 7, 6], [0, 2, 5, 9], [3, 3, 3.5, 4]], np.float32)
    for mode, count, place in product(("avg", "max"), (0, 2), ("half_pixel", "output_half_pixel")):
        yield row("RoiAlign", [f(2, 3, 10, 10), rois, np.array([0, 1, 1])], 16, mode=mode,
                  sampling_ratio=count, output_height=3, output_width=2, spatial_scale=0.8,
                  coordinate_transformation_mode=place)  # fmt: skip
    of_image = np.concatenate([np.array([[0], [1], [1]], np.float32), rois], 1)
    yield row("MaxRoiPool", [f(2, 3, 10, 10), of_image], 13, pooled_shape=[3, 2])
    corners = np.sort(rng.random((2, 20, 2, 2)).astype(np.float32), axis=2).reshape(2, 20, 4)
    scores = rng.random((2, 3, 20)).astype(np.float32)
    limits = [np.array([4]), np.array([0.3], np.float32), np.array([0.2], np.float32)]
    yield row("NonMaxSuppression", [corners, scores, *limits], 11)


def signals() -> Iterator[Row]:
    yield row("DFT", [f(2, 16, 1)], 17, axis=1)
    yield row("DFT", [f(2, 16, 1)], 17, axis=1, onesided=1)
    yield row("DFT", [f(2, 16, 2)], 17, axis=1, inverse=1)
    window = np.hanning(16).astype(np.float32)
    yield row("STFT", [f(2, 64, 1), np.array(8), window, np.array(16)], 17)


FAMILIES = (
    elementwise, reductions, convolutions, pools, recurrent, quantized, images, signals,
)  # fmt: skip
ROWS = [pytest.param(*r, id=f"{r[0]}-{i}") for i, r in enumerate(r for g in FAMILIES for r in g())]


@pytest.mark.parametrize(("op", "inputs", "opset", "outputs", "attributes"), ROWS)
def test_gives_what_onnxruntime_gives(
    op: str, inputs: list[Any], opset: int, outputs: int, attributes: dict[str, Any]
) -> None:
    compare(op, inputs, opset, outputs, attributes)


@pytest.mark.parametrize("opset", [1, 6])
def test_old_broadcasting_begins_at_an_axis(opset: int) -> None:
    model = onnx.parser.parse_model(f"""
        <ir_version: 3, opset_import: ["" : {opset}]>
        old (float[2,3,4] a, float[3] b) => (float[2,3,4] y) {{
            y = Add <broadcast = 1, axis = 1> (a, b)
        }}
    """)
    a, b = f(2, 3, 4), f(3)
    (y,) = calor_onnx.load(model, device="numpy").run({"a": a, "b": b}).values()
    np.testing.assert_array_equal(y.numpy(), a + b[:, None])


def test_a_seed_gives_the_same_numbers_and_none_gives_others() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        drawn (float[100] x) => (float[100] a, float[100] b) {
            a = RandomNormalLike <seed = 3.0> (x)
            b = RandomUniformLike <low = 2.0, high = 3.0> (x)
        }
    """)
    ready = calor_onnx.load(model, device="numpy")
    x = np.zeros(100, np.float32)
    first, second = ([y.numpy() for y in ready.run({"x": x}).values()] for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    assert (first[1] != second[1]).any()
    assert first[1].min() >= 2
    assert first[1].max() <= 3


def test_dropout_of_training_zeroes_its_share() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        dropped (float[1000] x, float r, bool t) => (float[1000] y, bool[1000] m) {
            y, m = Dropout (x, r, t)
        }
    """)
    ready = calor_onnx.load(model, device="numpy")
    feed = {"x": np.ones(1000, np.float32), "r": s(0.25), "t": np.array(True)}
    y, mask = (v.numpy() for v in ready.run(feed).values())
    assert 0.65 < mask.mean() < 0.85
    np.testing.assert_allclose(y, mask / 0.75)


def test_a_gradient_is_that_of_the_part_of_the_graph_between() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 12, "ai.onnx.preview.training" : 1]>
        slope (float[3] x, float[3] w) => (float[3] y, float[3] dx, float[3] dw) {
            s = Mul (x, w)
            y = Tanh (s)
            dx, dw = ai.onnx.preview.training.Gradient <xs = ["x", "w"], y = "y"> (x, w)
        }
    """)
    x, w = f(3), f(3)
    y, dx, dw = (v.numpy() for v in calor_onnx.load(model, "numpy").run({"x": x, "w": w}).values())
    np.testing.assert_allclose(dx, (1 - y**2) * w, rtol=1e-5)
    np.testing.assert_allclose(dw, (1 - y**2) * x, rtol=1e-5)


REFUSED = [
    ("Resize (x, , s)", np.zeros(3, np.float32), "scales and sizes must be above 0"),
    ("LRN <size = 0> (x)", s(0), "size is 0; it must be at least 1"),
    ("GroupNormalization <num_groups = 0> (x, s, s)", f(4), "num_groups is 0"),
    ("AveragePool <kernel_shape = [9]> (x)", s(0), "an extent of 9 does not fit an axis of 8"),
    ('MaxPool <kernel_shape = [2], auto_pad = "SAME"> (x)', s(0), "auto_pad 'SAME'"),
    (
        'BitShift <direction = "UP"> (s, s)',
        s(1, np.uint8),
        "direction is 'UP'; it must be LEFT or RIGHT",
    ),
    ('LSTM <hidden_size = 1, direction = "both"> (x, x, x)', s(0), "direction is 'both'"),
    ("CumSum (x, s)", s(5, np.int64), "CumSum: axis 5 does not fit 3 axes"),
    ("Compress <axis = 7> (x, s)", np.ones(2, np.bool_), "Compress: axis 7 does not fit 3 axes"),
    ("Tile (x, s)", np.ones(2, np.int64), "2 repeats do not fit 3 axes"),
]


@pytest.mark.parametrize(("node", "operand", "message"), REFUSED)
def test_says_what_is_wrong_with_an_attribute(node: str, operand: Any, message: str) -> None:
    kind = "float" if operand.dtype == np.float32 else operand.dtype.name
    shape = f"[{operand.size}]" if operand.ndim else ""
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 21]>
        wrong (float[1,4,8] x, {kind}{shape} s) => (y) {{ y = {node} }}
    """)
    ready = calor_onnx.load(model, device="numpy")
    with pytest.raises(calor_onnx.ModelError, match=message):
        ready.run({"x": np.zeros((1, 4, 8), np.float32), "s": operand})


@pytest.mark.parametrize("made", [3, 9, 30])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("antialias", [0, 1])
def test_resized_lines_keep_an_element_that_is_not_finite_to_its_sums(
    made: int, mode: str, antialias: int
) -> None:
    x = f(1, 1, 2, 20)
    x[0, 0, 0, 0] = np.nan
    sizes = np.array([1, 1, 2, made])
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 18]> g (float[1,1,2,20] x) => (float[A,B,C,D] y)
        <int64[4] sizes = {{1, 1, 2, {made}}}> {{
            y = Resize <mode = "{mode}", antialias = {antialias}> (x, , , sizes)
        }}"""
    )
    (y,) = calor_onnx.load(model, device="numpy").run({"x": x}).values()
    assert y.shape == tuple(sizes)
    broken = np.isnan(host(y)[0, 0])
    assert not broken[1].any()
    # Half of the results are farther away than any kernel reaches.
    assert not broken[0, made // 2 + 1 :].any()


def test_samples_of_whole_numbers_are_whole() -> None:
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("GridSample", ["x", "grid"], ["y"], mode="nearest")],
        "samples",
        [
            helper.make_tensor_value_info("x", onnx.TensorProto.INT32, [1, 1, 2, 2]),
            helper.make_tensor_value_info("grid", onnx.TensorProto.FLOAT, [1, 1, 2, 2]),
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [1, 1, 1, 2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)
    x = np.arange(4, dtype=np.int32).reshape(1, 1, 2, 2)
    grid = np.array([-0.5, -0.5, 0.5, 0.5], np.float32).reshape(1, 1, 2, 2)
    made = host(calor_onnx.load(model)(x, grid))
    assert made.dtype == np.int32
    assert made.reshape(-1).tolist() == [0, 3]
