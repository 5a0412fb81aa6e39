"""Products and convolutions of bytes are exact, of either sign and with zero points by channel."""

from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest

import calor_onnx
from calor_onnx.convolving import FEW

rng = np.random.default_rng(3)
SIGNS = [(a, b) for a, b in product((np.int8, np.uint8), repeat=2)]


def drawn(dtype: Any, *shape: int) -> Any:
    found = np.iinfo(dtype)
    made = rng.integers(found.min, found.max + 1, shape).astype(dtype)
    # The widest products there are.
    made.reshape(-1)[:2] = found.min, found.max
    return made


def ran(op: str, inputs: list[Any], *, domain: str = "", kind: int = 6, **attributes: Any) -> Any:
    names = [f"x{n}" for n in range(len(inputs))]
    given = [
        onnx.helper.make_tensor_value_info(
            n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape
        )
        for n, a in zip(names, inputs, strict=True)
    ]
    out = onnx.helper.make_tensor_value_info("y", kind, None)
    node = onnx.helper.make_node(op, names, ["y"], domain=domain, **attributes)
    graph = onnx.helper.make_graph([node], "one", given, [out])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = calor_onnx.load(onnx.helper.make_model(graph, opset_imports=opsets), device="numpy")
    return model(*inputs).numpy()


def convolved(x: Any, w: Any, pads: list[int], stride: int) -> Any:
    """Return the convolution of integers over two axes, window by window."""
    top, left, bottom, right = pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows[:, :, ::stride, ::stride], w)


@pytest.mark.parametrize("channels", [2, FEW])
@pytest.mark.parametrize(("left", "right"), SIGNS)
def test_convolutions(left: Any, right: Any, channels: int) -> None:
    x, w = drawn(left, 2, channels, 6, 5), drawn(right, 4, channels, 3, 2)
    pads, zero = [1, 0, 2, 1], drawn(left, 2)[1]
    for zeros in (np.zeros((), right), np.array(drawn(right, 3)[2]), drawn(right, 4)):
        per = zeros.astype(np.int64).reshape((-1, 1, 1, 1)) if zeros.ndim else int(zeros)
        wanted = convolved(x.astype(np.int64) - int(zero), w.astype(np.int64) - per, pads, 2)
        inputs = [x, w, np.array(zero), zeros]
        found = ran("ConvInteger", inputs, pads=pads, strides=[2, 2])
        assert found.dtype == np.int32
        assert found.tolist() == wanted.tolist()


def test_a_convolution_in_groups() -> None:
    x, w = drawn(np.uint8, 1, 2 * FEW, 4, 4), drawn(np.int8, 4, FEW, 3, 3)
    parts = [
        convolved(x[:, i * FEW : (i + 1) * FEW].astype(np.int64), w[2 * i : 2 * i + 2], [0] * 4, 1)
        for i in range(2)
    ]
    assert ran("ConvInteger", [x, w], group=2).tolist() == np.concatenate(parts, 1).tolist()


@pytest.mark.parametrize(("left", "right"), SIGNS)
@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm(left: Any, right: Any, turned: tuple[int, int]) -> None:
    a, b = drawn(left, 3, 70), drawn(right, 70, 4)
    zero, zeros = np.array(drawn(left, 3)[2]), drawn(right, 4)
    bias = np.arange(4, dtype=np.int32)
    exact = (a.astype(np.int64) - int(zero)) @ (b - zeros.astype(np.int64)) + bias
    a, b = (x.T.copy() if turn else x for x, turn in zip((a, b), turned, strict=True))
    one = np.array(1, np.float32)
    inputs = [a, one, zero, b, one, zeros, bias]
    options = {"transA": turned[0], "transB": turned[1]}
    found = ran("QGemm", inputs, domain="com.microsoft", kind=1, **options)
    assert found.tolist() == exact.astype(np.float32).tolist()
