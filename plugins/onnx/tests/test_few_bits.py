"""Products of integers of few bits: exact, in bytes, and with weights in the form that suits."""

from importlib import import_module
from itertools import product

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import calor_onnx

# The module; the package has the pass itself under this name.
PASS = import_module("calor_onnx.passes.quantized_weights")
S, U = np.int8, np.uint8
RANDOM = np.random.default_rng(0)


def whole(dtype: type, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)


def model_of(
    op: str, operands: list[np.ndarray | None], constant: tuple[int, ...] = (), domain: str = "",
    result: int = onnx.TensorProto.INT32, **attributes: object,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:  # fmt: skip
    """A model of one node, and what it is given; some of its operands are constants."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(operands)]
    inputs, weights, feed = [], [], {}
    for i, x in enumerate(operands):
        if x is None:
            continue
        if i in constant:
            weights.append(numpy_helper.from_array(x, names[i]))
            continue
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        inputs.append(helper.make_tensor_value_info(names[i], kind, x.shape))
        feed[names[i]] = x
    node = helper.make_node(op, names, ["y"], domain=domain, **attributes)
    y = helper.make_tensor_value_info("y", result, None)
    graph = helper.make_graph([node], "g", inputs, [y], weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feed


ZEROS = {
    "none": (None, None),
    "numbers": ((), ()),
    "left": ((), None),
    "right": (None, ()),
    "rows and columns": ((5,), (7,)),
}


@pytest.mark.parametrize("zeros", ZEROS)
@pytest.mark.parametrize(
    ("a", "b", "constant"), [*product((S, U), (S, U), [()]), (U, S, (1, 3)), (U, U, (1, 3))]
)
def test_products_of_bytes_are_exact(a, b, constant, zeros):
    left, right = whole(a, 5, 100), whole(b, 100, 7)
    one, two = ZEROS[zeros]
    first = None if one is None else whole(a, *one)
    second = None if two is None else whole(b, *two)
    proto, feed = model_of("MatMulInteger", [left, right, first, second], constant)
    found = calor_onnx.load(proto, device="numpy")(**feed).numpy()
    rows = 0 if first is None else first.astype(np.int64).reshape(-1, 1)
    columns = 0 if second is None else second.astype(np.int64)
    want = (left.astype(np.int64) - rows) @ (right.astype(np.int64) - columns)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(
    ("left", "right"),
    [((9,), (9, 4)), ((3, 9), (9,)), ((2, 3, 9), (9, 4)), ((2, 3, 9), (2, 9, 4)),
     ((3, 9), (2, 9, 4)), ((2, 1, 3, 9), (5, 9, 4))],
)  # fmt: skip
def test_products_of_bytes_of_any_rank(left, right):
    a, b, zero = whole(U, *left), whole(S, *right), np.array(7, U)
    proto, feed = model_of("MatMulInteger", [a, b, zero])
    found = calor_onnx.load(proto, device="numpy")(**feed).numpy()
    np.testing.assert_array_equal(found, (a.astype(np.int64) - 7) @ b.astype(np.int64))


@pytest.mark.parametrize("zero", [None, 0, 200])
def test_large_constant_bytes_get_a_sign(zero):
    a, b = whole(U, 3, 80), whole(U, 80, 64)
    given = None if zero is None else np.array(zero, U)
    proto, feed = model_of("MatMulInteger", [a, b, None, given], (1, 3))
    model = calor_onnx.load(proto, device="numpy")
    (node,) = model.graph.nodes
    assert [model.graph.constants[node.inputs[i]].dtype.name for i in (1, 3)] == ["int8"] * 2
    assert "x1" not in model.graph.constants
    want = a.astype(np.int64) @ (b.astype(np.int64) - (zero or 0))
    np.testing.assert_array_equal(model(**feed).numpy(), want)


def packed(bits: int, rows: int, columns: int, block: int, zeros: str):
    """Weights of few bits, what is to go with them, and the numbers that they stand for."""
    blocks = -(-columns // block)
    each = 8 // bits
    codes = RANDOM.integers(0, 2**bits, (rows, blocks * block)).astype(U)
    scales = RANDOM.uniform(0.5, 1, (rows, blocks)).astype(np.float32)
    offset = np.full((rows, blocks), 2 ** (bits - 1), np.float32)
    given = None
    if zeros == "floats":
        given = offset = RANDOM.uniform(0, 2**bits, (rows, blocks)).astype(np.float32)
    elif zeros == "bits":
        numbers = RANDOM.integers(0, 2**bits, (rows, -(-blocks // each) * each)).astype(U)
        offset = numbers[:, :blocks].astype(np.float32)
        given = joined(numbers, bits)
    blocked = codes.reshape(rows, blocks, block).astype(np.float32)
    want = (blocked - offset[..., None]) * scales[..., None]
    weight = joined(codes, bits).reshape(rows, blocks, -1)
    return weight, scales, given, want.reshape(rows, -1)[:, :columns]


def joined(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes in bytes, from the lowest bits on."""
    each = 8 // bits
    parts = codes.reshape(len(codes), -1, each).astype(np.uint32)
    return (parts << (np.arange(each) * bits)).sum(-1).astype(U)


@pytest.mark.parametrize("limit", [0, 1 << 20], ids=["as they are", "numbers"])
@pytest.mark.parametrize("zeros", ["none", "bits", "floats"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_weights_of_few_bits(monkeypatch, bits, zeros, limit):
    monkeypatch.setattr(PASS, "LIMIT", limit)
    rows, columns, block = 130, 40, 16
    weight, scales, given, numbers = packed(bits, rows, columns, block, zeros)
    a = RANDOM.standard_normal((2, 3, columns)).astype(np.float32)
    bias = RANDOM.standard_normal(rows).astype(np.float32)
    proto, feed = model_of(
        "MatMulNBits", [a, weight, scales, given, None, bias], (1, 2, 3, 5), "com.microsoft",
        onnx.TensorProto.FLOAT, K=columns, N=rows, bits=bits, block_size=block,
    )  # fmt: skip
    model = calor_onnx.load(proto, device="numpy")
    assert [node.op for node in model.graph.nodes] == ["Linear" if limit else "MatMulNBits"]
    np.testing.assert_allclose(model(**feed).numpy(), a @ numbers.T + bias, rtol=1e-4, atol=1e-4)


def test_only_as_many_weights_become_numbers_as_there_is_room_for(monkeypatch):
    monkeypatch.setattr(PASS, "LIMIT", 3 * 64 * 64 * 4 // 2)
    nodes, weights, name = [], [], "x"
    for number in range(3):
        weight, scales, *_ = packed(4, 64, 64, 32, "none")
        weights += [numpy_helper.from_array(weight, f"w{number}"),
                    numpy_helper.from_array(scales, f"s{number}")]  # fmt: skip
        nodes.append(helper.make_node(
            "MatMulNBits", [name, f"w{number}", f"s{number}"], [f"y{number}"],
            domain="com.microsoft", K=64, N=64, bits=4, block_size=32,
        ))  # fmt: skip
        name = f"y{number}"
    x = helper.make_tensor_value_info("x", 1, [2, 64])
    graph = helper.make_graph(
        nodes, "g", [x], [helper.make_tensor_value_info(name, 1, None)], weights
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = calor_onnx.load(
        helper.make_model(graph, opset_imports=opsets, ir_version=10), device="numpy"
    )
    assert [node.op for node in model.graph.nodes] == ["Linear", "MatMulNBits", "MatMulNBits"]
    plain = calor_onnx.load(helper.make_model(
        graph, opset_imports=opsets, ir_version=10
    ), device="numpy", simplify=False)  # fmt: skip
    given = np.ones((2, 64), np.float32)
    np.testing.assert_allclose(model(given).numpy(), plain(given).numpy(), rtol=1e-4)


@pytest.mark.parametrize(
    "wrong", [{"block_size": 0}, {"block_size": 48}, {"N": -1}, {"K": 0}, {"bits": 3}, {"bits": 0}]
)
def test_weights_that_do_not_fit_their_attributes_are_left_alone(wrong):
    weight, scales, zeros, _ = packed(4, 64, 64, 32, "bits")
    a = np.ones((2, 64), np.float32)
    attributes = {"K": 64, "N": 64, "bits": 4, "block_size": 32, **wrong}
    proto, _ = model_of("MatMulNBits", [a, weight, scales, zeros], (1, 2, 3), "com.microsoft",
                        onnx.TensorProto.FLOAT, **attributes)  # fmt: skip
    (node,) = calor_onnx.load(proto, device="numpy").graph.nodes
    assert node.op == "MatMulNBits"


def test_zero_points_of_another_size_leave_weights_alone():
    weight, scales, *_ = packed(4, 64, 64, 32, "none")
    a, zeros = np.ones((2, 64), np.float32), np.zeros(5, U)
    proto, _ = model_of("MatMulNBits", [a, weight, scales, zeros], (1, 2, 3), "com.microsoft",
                        onnx.TensorProto.FLOAT, K=64, N=64, bits=4, block_size=32)  # fmt: skip
    (node,) = calor_onnx.load(proto, device="numpy").graph.nodes
    assert node.op == "MatMulNBits"
