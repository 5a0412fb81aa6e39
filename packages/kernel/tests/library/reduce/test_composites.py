"""Are softmax and norms what their definitions say, for every way of computing them?"""

import numpy as np
import pytest

from calor.dtypes import ALL, float32
from calor.graph.graph import Builder
from calor.ops.base import table
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

NAMES = {t.name: t for t in ALL}
# shape, axes of a row, the order in which the axes are seen.
ROWS = [
    ((3, 4), (1,), None),
    ((5, 37), (1,), None),
    ((37, 5), (0,), None),
    ((5, 600), (1,), None),
    ((2, 5000), (1,), None),
    ((2, 5001), (1,), None),
    ((2, 9000), (1,), None),
    ((2, 9001), (1,), None),
    ((1, 20000), (1,), None),
    ((3, 40), (1,), (1, 0)),
    ((2, 3, 4), (2,), (2, 0, 1)),
    ((2, 40, 3), (1,), None),
    ((1,), (0,), None),
    ((3, 1), (1,), None),
    ((0, 4), (1,), None),
]
NORMED = [
    *ROWS,
    ((2, 3, 40), (0, 2), None),
    ((3, 4, 5), (0, 1, 2), None),
    ((300, 3, 7), (0, 2), None),
    ((3, 4), (), None),
    ((2, 3, 5, 7), (0, 2), None),
]
DIGITS = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-6, "float64": 1e-14}


@pytest.fixture(scope="module", params=["one unit", "many units"])
def backend(request):
    info = {"one unit": ONE_UNIT, "many units": MANY_UNITS}[request.param]
    return KernelBackend("lanes", lambda index: LanesDevice(info))


def run(backend, op, array, order, attributes):
    builder = Builder()
    dtype = next(t for t in ALL if t.numpy == array.dtype)
    number = builder.input(spec(array.shape, dtype))
    if order:
        (number,) = builder.add(table()["permute"], [number], {"axes": order})
    graph = builder.build(builder.add(table()[op], [number], attributes))
    assert not backend.claim(0, graph).reasons
    made = backend.compile(0, graph)([backend.upload(0, np.ascontiguousarray(array))])
    pairs = zip(made, graph.output_specs, strict=True)
    return [np.array(backend.download(0, buffer, s)) for buffer, s in pairs]


def expected(op, x, attributes):
    if op in ("softmax", "log_softmax"):
        axis = attributes["axis"]
        shifted = x - x.max(axis, keepdims=True, initial=-np.inf)
        powers = np.exp(shifted)
        total = powers.sum(axis, keepdims=True)
        return [powers / total if op == "softmax" else shifted - np.log(total)]
    axes, eps = attributes["axes"], attributes["eps"]
    if op == "rms_norm":
        square = np.mean(x * x, axes, keepdims=True)
        return [x / np.sqrt(square + eps), np.squeeze(square, axes)]
    mean = np.mean(x, axes, keepdims=True)
    variance = np.mean((x - mean) ** 2, axes, keepdims=True)
    y = (x - mean) / np.sqrt(variance + eps)
    return [y, np.squeeze(mean, axes), np.squeeze(variance, axes)]


def check(backend, op, row, dtype):
    shape, axes, order = row
    x = np.random.default_rng(2).standard_normal(shape) * 3 + 1
    x = x.astype(NAMES[dtype].numpy)
    attributes = {"axis": axes[0]} if "softmax" in op else {"axes": axes, "eps": 1e-3}
    found = run(backend, op, x, order, attributes)
    seen = x.transpose(order) if order else x
    wanted = expected(op, seen.astype(np.float64), attributes)
    for k, (made, right) in enumerate(zip(found, wanted, strict=True)):
        wide = NAMES[dtype] if k == 0 or NAMES[dtype].itemsize > 2 else float32
        assert made.dtype == wide.numpy
        near = DIGITS[wide.name]
        np.testing.assert_allclose(made.astype(np.float64), right, rtol=near, atol=16 * near)


@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_softmax(backend, op, row):
    check(backend, op, row, "float32")


@pytest.mark.parametrize("op", ["standardize", "rms_norm"])
@pytest.mark.parametrize("row", NORMED, ids=str)
def test_norms(backend, op, row):
    check(backend, op, row, "float32")


@pytest.mark.parametrize("op", ["softmax", "log_softmax", "standardize", "rms_norm"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_types(backend, op, dtype):
    check(backend, op, ROWS[1], dtype)
    for row in ROWS[4:8]:
        check(backend, op, row, dtype)


@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_logits_that_are_not_finite(backend, op):
    inf, nan = np.inf, np.nan
    rows = np.array(
        [[1e4, 0, -1e4, -inf], [-inf, -inf, -inf, 2], [nan, 1, 2, 3], [-inf] * 4, [inf, 1, 2, 3]]
    )
    (found,) = run(backend, op, rows.astype(np.float32), None, {"axis": 1})
    with np.errstate(all="ignore"):
        (wanted,) = expected(op, rows, {"axis": 1})
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
