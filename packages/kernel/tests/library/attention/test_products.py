"""Attention of wide rows by products in memory: right for any layout, mask, dtype and batch."""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float32, float64
from calor.ops.attention import attention
from calor_interpreter.device import MANY_UNITS
from calor_kernel.library.attention import products

from .test_result_orders import arrays_of, run

PLANES = replace(MANY_UNITS, planes=(32,), cores=16)
# The dtype, the sizes as in test_result_orders, whether causal, the extras, whether rows are
# strided, and the bytes of scores in memory together.
CASES = {
    "a width of no accesses": (float32, (2, 2, 1, 18, 20, 130, 131), True, "mask bias", False, 1),
    "shared key heads": (bfloat16, (1, 4, 2, 18, 12, 136, 8), True, "", False, 1 << 20),
    "rows of images": (float32, (3, 1, 1, 20, 20, 132, 132), False, "", True, 3300),
    "a hidden row": (float64, (1, 1, 1, 17, 6, 129, 4), False, "hidden", False, 1 << 20),
    "halves of images": (bfloat16, (2, 1, 1, 24, 16, 144, 144), False, "bias", True, 2000),
}


def extras_of(words, sizes, dtype):
    n, heads, _, queries, keys, _, _ = sizes
    rng = np.random.default_rng(4)
    made = []
    for word in words.split():
        if word == "bias":
            made.append(rng.standard_normal((1, heads, queries, keys)).astype(dtype.numpy))
        else:
            seen = rng.random((n, 1, queries, keys)) < 0.7
            seen[..., 0] = True
            seen[:, :, 1] &= word != "hidden"
            made.append(seen)
    return made


@pytest.mark.parametrize("name", CASES)
def test_wide_rows(monkeypatch, name):
    dtype, sizes, causal, words, strided, together = CASES[name]
    monkeypatch.setattr(products, "_TOGETHER", together)
    arrays = arrays_of(sizes, dtype)
    if strided:
        arrays = [np.ascontiguousarray(a.swapaxes(2, 3)) for a in arrays]
    extras = extras_of(words, sizes, dtype)
    shape = (*sizes[:2], sizes[3], sizes[6])
    weights = np.random.default_rng(9).standard_normal(shape).astype(dtype.numpy)

    def made(q, k, v, weights, *extras):
        def loss(q, k, v):
            rows = [x.swapaxes(2, 3) if strided else x for x in (q, k, v)]
            result, total = attention(*rows, *extras, causal=causal, scale=0.2)
            ends = calor.where(total > -1e30, total, 0.0)
            return (result * weights).sum() + ends.sum().astype(result.dtype), result

        (_, result), found = calor.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(q, k, v)
        return (result, *found)

    found, labels = run(PLANES, made, [*arrays, weights, *extras])
    assert {"attention weights", "attention gradient of scores"} <= set(labels)
    of_batch = sizes[1] * sizes[3] * sizes[4] * max(dtype.itemsize, 4)
    parts = -(-sizes[0] // max(together // of_batch, 1))
    assert labels.count("attention weights") == parts
    with calor.device("numpy"):
        exact = [
            calor.asarray(a if a.dtype == bool else a.astype(np.float64))
            for a in (*arrays, weights, *extras)
        ]
        wanted = [x.numpy() for x in made(*exact)]
    tolerance = {2: 3e-2, 4: 2e-5, 8: 1e-12}[dtype.itemsize]
    for a, b in zip(found, wanted, strict=True):
        error = np.abs(a.astype(np.float64) - b).max()
        assert error <= tolerance * np.abs(b).max()
