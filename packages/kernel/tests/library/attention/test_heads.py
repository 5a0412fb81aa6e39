"""Is attention with a lane for each head right: ragged tiles and vectors, masks, orders, rounds?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float32, float64
from calor.specs import spec
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.contract.work import LOWERINGS, Request, View
from calor_kernel.planning.lowering import load_families
from calor_kernel.runtime.backend import KernelBackend

from .test_attention import Row, check_backward, check_forward
from .test_result_orders import arrays_of, backward, forward, run

INFO = replace(ONE_UNIT, dtypes=ONE_UNIT.dtypes | {bfloat16})
ROWS = [
    Row(2, 6, 6, 8, 8, 4, 4, causal=True),
    # A vector and a part of one, and parts of tiles of queries, keys, features and values.
    Row(3, 7, 7, 5, 6, 7, 3),
    Row(1, 17, 17, 6, 9, 5, 9, causal=True),
    # Keys that no query sees, and queries that see all keys.
    Row(1, 8, 8, 3, 11, 4, 4, causal=True),
    Row(2, 8, 8, 11, 3, 2, 6, causal=True, scale=-0.7),
    Row(2, 6, 6, 4, 5, 4, 4, mask=(2, 1, 4, 5), bias=(1, 6, 1, 5)),
    Row(2, 5, 5, 5, 7, 3, 4, bias=(2, 1, 5, 7), causal=True),
    Row(2, 4, 4, 5, 6, 4, 8, order=(0, 2, 1, 3)),
    Row(2, 4, 4, 5, 6, 4, 8, order=(0, 1, 3, 2), mask=(1, 1, 5, 1)),
    Row(4, 3, 3, 1, 9, 8, 8),
    Row(9, 1, 1, 2, 1, 1, 1),
]
SHARED = Row(2, 8, 2, 5, 7, 4, 6, causal=True)


@pytest.fixture
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(INFO))


def first(row, op, dtype=float32, info=INFO):
    load_families()
    shapes = [(row.n, row.heads, row.queries, row.features)]
    shapes += [(row.n, row.key_heads, row.keys, w) for w in (row.features, row.values)]
    specs = tuple(spec(s, dtype) for s in shapes)
    views = tuple(map(View.dense, specs))
    given = {"causal": row.causal, "scale": row.scale}
    result, total = spec((*shapes[0][:3], row.values), dtype), spec(shapes[0][:3], float32)
    outputs = result, total
    if op == "attention_gradient":
        outputs = specs
        views = tuple(View.dense(s) for s in (result, total, total)) + views
    return LOWERINGS[op](Request(op, given, views, outputs, info))[0].variant


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("row", [*ROWS, SHARED], ids=str)
def test_forward(backend, row, dtype):
    assert first(row, "attention") == "heads"
    check_forward(backend, row, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_gradients(backend, row, dtype):
    assert first(row, "attention_gradient") == "heads"
    check_backward(backend, row, dtype, "attention_gradient")


@pytest.mark.parametrize(
    ("row", "op"),
    [
        (Row(1, 4, 4, 8, 8, 4, 4), "attention"),
        (Row(1, 16, 16, 64, 64, 64, 64), "attention"),
        (SHARED, "attention_gradient"),
        (Row(2, 8, 8, 8, 16, 16, 16), "attention_gradient"),
        (Row(2, 8, 8, 3, 8, 17, 16), "attention"),
    ],
    ids=["few heads", "no room", "shared heads", "whole vectors of keys", "few queries"],
)
def test_register_tiles_serve_other_problems(row, op):
    assert first(row, op) == "register tiles"


def test_small_heads_fill_no_tile_registers():
    info = replace(INFO, features=INFO.features | {"tile_bfloat16"})
    row = Row(4, 4, 4, 16, 16, 8, 8)
    for op in ("attention", "attention_gradient"):
        assert first(row, op, bfloat16, info) == "heads"
        assert first(replace(row, features=128, values=128), op, bfloat16, info) == "tile registers"


def test_vectors_of_two_elements_hold_no_heads():
    info = replace(INFO, vector_bytes=16)
    assert first(ROWS[0], "attention", info=info) == "heads"
    assert first(ROWS[0], "attention", float64, info) == "register tiles"


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
def test_rows_before_heads_are_written_in_place(dtype):
    arrays = arrays_of((2, 6, 6, 8, 8, 4, 4), dtype)
    rows = arrays[0].shape[:3]
    rng = np.random.default_rng(6)
    up = rng.standard_normal((*rows, 4)).astype(dtype.numpy)
    numbers = (rng.standard_normal(rows).astype(np.float32) for _ in range(2))
    for function, given in ((forward, arrays), (backward, [up, *numbers, *arrays])):
        found, labels = run(INFO, function, given)
        assert "copy_rows" not in labels
        with calor.device("numpy"):
            known = function(*map(calor.asarray, given))
        for a, b in zip(found, known, strict=True):
            wanted = b.numpy().astype(float)
            near = (2e-2 if dtype is bfloat16 else 1e-5) * np.abs(wanted).max()
            np.testing.assert_allclose(a.astype(float), wanted, rtol=0, atol=near)
