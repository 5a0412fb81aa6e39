"""Graphs at many sizes, from traces with symbolic sizes."""

import numpy as np
import onnx
import pytest

import calor
import calor_onnx

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
# Graphs with computations of shapes: text, and the inputs for two sizes.
GRAPHS = {
    "reshape": ("""f (float[N,M] x) => (float[A,B] y) {
        s = Shape (x)
        one = Constant <value = int64[1] {1}> ()
        zero = Constant <value = int64[1] {0}> ()
        m = Gather (s, one)
        n = Gather (s, zero)
        both = Concat <axis = 0> (m, n)
        y = Reshape (x, both)
    }""", True),
    "halves": ("""f (float[N,M] x) => (float[A,B] y) {
        s = Shape <start = 1> (x)
        two = Constant <value = int64[1] {2}> ()
        zero = Constant <value = int64[1] {0}> ()
        axes = Constant <value = int64[1] {1}> ()
        half = Div (s, two)
        y = Slice (x, zero, half, axes)
    }""", True),
    "ramp": ("""f (float[N,M] x) => (float[N,M] y) {
        s = Shape <start = 1> (x)
        scalar = Squeeze (s)
        zero = Constant <value = int64 {0}> ()
        one = Constant <value = int64 {1}> ()
        r = Range (zero, scalar, one)
        f = Cast <to = 1> (r)
        y = Add (x, f)
    }""", True),
    "filled": ("""f (float[N,M] x) => (float[A,N,M] y) {
        s = Shape (x)
        two = Constant <value = int64[1] {2}> ()
        wanted = Concat <axis = 0> (two, s)
        z = ConstantOfShape <value = float[1] {3.0}> (wanted)
        e = Expand (x, wanted)
        y = Add (z, e)
    }""", True),
    "product": ("""f (float[N,M] x) => (float[K] y) {
        s = Shape (x)
        k = ReduceProd <keepdims = 1> (s)
        y = Reshape (x, k)
    }""", True),
    "scaled": ("""f (float[N,M] x) => (float[N,M] y) {
        s = Shape <start = 0, end = 1> (x)
        f = Cast <to = 1> (s)
        y = Mul (x, f)
    }""", False),
    "chosen": ("""f (float[N,M] x) => (float[N,M] y) {
        s = Shape <start = 0, end = 1> (x)
        n = Squeeze (s)
        five = Constant <value = int64 {5}> ()
        c = Greater (n, five)
        y = If (c) <
            then_branch = t () => (float[N,M] a) { a = Neg (x) },
            else_branch = e () => (float[N,M] b) { b = Abs (x) }
        >
    }""", True),
    "same": ("""f (float[N,M] x) => (float[N,M] y) {
        s = Shape (x)
        minus = Constant <value = int64[2] {-1, -1}> ()
        same = Equal (s, minus)
        ones = Constant <value = int64[2] {1, 1}> ()
        wanted = Where (same, ones, s)
        y = Expand (x, wanted)
    }""", True),
    "mean": ("""f (float[N,M] x) => (float[A,B] y) {
        y = ReduceMean <keepdims = 1> (x)
    }""", True),
    "nearest": ("""f (float[N,M] x) => (float[A,B] y) {
        empty = Constant <value = float[0] {}> ()
        scales = Constant <value = float[2] {2.0, 3.0}> ()
        y = Resize <mode = "nearest"> (x, empty, scales)
    }""", True),
    "linear": ("""f (float[N,M] x) => (float[A,B] y) {
        empty = Constant <value = float[0] {}> ()
        scales = Constant <value = float[2] {2.0, 1.0}> ()
        y = Resize <mode = "linear"> (x, empty, scales)
    }""", False),
    "reflected": ("""f (float[N,M] x) => (float[A,B] y) {
        pads = Constant <value = int64[4] {1, 0, 1, 1}> ()
        y = Pad <mode = "reflect"> (x, pads)
    }""", True),
    "edges": ("""f (float[N,M] x) => (float[A,B] y) {
        pads = Constant <value = int64[4] {7, 0, 1, 4}> ()
        y = Pad <mode = "edge"> (x, pads)
    }""", True),
    "counted axes": ("""f (float[N,M] x) => (float[N,M] y) {
        s = Shape (x)
        k = Size (s)
        t = Shape (s)
        both = Mul (k, t)
        f = Cast <to = 1> (both)
        y = Mul (x, f)
    }""", True),
    "split": ("""f (float[N,M] x) => (float[A,B] y) {
        a, b = Split <axis = 1> (x)
        y = Concat <axis = 0> (b, a)
    }""", True),
}  # fmt: skip
SIZES = ((3, 4), (5, 6), (7, 8), (4, 10), (1, 4), (12, 6), (2, 2), (9, 14))


def loaded(text, device="numpy"):
    return calor_onnx.load(onnx.parser.parse_model(f"{HEAD}\n{text}"), device=device)


@pytest.mark.parametrize("name", GRAPHS)
def test_all_sizes_give_what_a_trace_of_their_own_gives(name):
    text, shares = GRAPHS[name]
    model = loaded(text)
    for shape in SIZES:
        x = np.random.default_rng(shape[0]).standard_normal(shape).astype(np.float32)
        found, expected = model(x).numpy(), loaded(text)(x).numpy()
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)
    (families,) = model._plans.shared
    if shares:
        assert families.reason is None
        assert 1 <= families.made <= 5


def test_an_output_of_the_host_is_that_of_each_size():
    model = loaded("""f (float[N,M] x) => (float[N,M] y, int64[2] s) {
        y = Neg (x)
        s = Shape (x)
    }""")
    for shape in (*SIZES, *SIZES):
        made, sizes = model(np.ones(shape, np.float32))
        assert made.shape == shape
        assert sizes.tolist() == [*shape]


def test_a_model_of_rows_runs_at_all_lengths():
    rng = np.random.default_rng(0)
    hidden, width = 16, 8
    weights = {
        "w": rng.standard_normal((1, hidden, width)).astype(np.float32),
        "r": rng.standard_normal((1, hidden, hidden)).astype(np.float32) / 4,
        "b": rng.standard_normal((1, 2 * hidden)).astype(np.float32),
    }
    node = onnx.helper.make_node(
        "RNN", ["x", "w", "r", "b"], ["y", "h"], hidden_size=hidden, direction="reverse"
    )
    graph = onnx.helper.make_graph(
        [node], "g",
        [onnx.helper.make_tensor_value_info("x", 1, ["T", "B", width])],
        [onnx.helper.make_tensor_value_info(n, 1, None) for n in ("y", "h")],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )  # fmt: skip
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model = calor_onnx.load(proto, device="cpu")
    plain = calor_onnx.load(proto, device="numpy")
    for steps in (3, 5, 2, 4, 1, 6):
        x = rng.standard_normal((steps, 2, width)).astype(np.float32)
        for found, expected in zip(model(x), plain(x), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=2e-6)
    (families,) = model._plans.shared
    assert families.reason is None
    # A single step is a trace of its own.
    assert families.made == 2


def images(node, *more):
    """Return a model of images of any height and width."""
    rng = np.random.default_rng(1)
    weights = {
        "w": rng.standard_normal((24, 8, 3, 3)).astype(np.float32),
        "d": rng.standard_normal((24, 1, 5, 5)).astype(np.float32),
    }
    graph = onnx.helper.make_graph(
        [node, *more], "g",
        [onnx.helper.make_tensor_value_info("x", 1, [1, 8, "H", "W"])],
        [onnx.helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )  # fmt: skip
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])


make = onnx.helper.make_node
IMAGES = {
    "convolution": [make("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], strides=[1, 2])],
    "depthwise": [
        make("Conv", ["x", "w"], ["a"]),
        make("Conv", ["a", "d"], ["y"], pads=[2, 2, 2, 2], group=24),
    ],
    "pooling": [make("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)],
    "means": [
        make("Conv", ["x", "w"], ["a"]),
        make("GlobalAveragePool", ["a"], ["b"]),
        make("Mul", ["a", "b"], ["y"]),
    ],
    "rows": [make("Conv", ["x", "w"], ["a"]), make("Softmax", ["a"], ["y"], axis=-1)],
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_of_new_widths_are_neither_traced_nor_planned(name):
    proto = images(*IMAGES[name])
    model = calor_onnx.load(proto, device="cpu")
    plain = calor_onnx.load(proto, device="numpy")
    rng = np.random.default_rng(2)
    with calor.device("cpu") as device:
        replanning = device.backend.engine(device.index).replanning
    made = []
    # Odd and even, multiples of vectors and others; means have less than a block of terms.
    for width in (76, 75, 91, 96, 83, 128, 97):
        x = rng.standard_normal((1, 8, 16, width)).astype(np.float32)
        found, expected = model(x).numpy(), plain(x).numpy()
        # Sums of 72 and of 25 terms cancel: their error is one of the largest.
        atol = 5e-7 * float(np.abs(expected).max())
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=atol)
        made.append(replanning.made)
    (families,) = model._plans.shared
    assert families.reason is None
    assert families.made == 1
    assert made[0] == made[-1]
