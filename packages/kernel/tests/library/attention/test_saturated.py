"""Gradients of attention in half types where the softmax is nearly one-hot in all rows.

A gradient of a score is a difference of which little is left there, so it must not read a rounded
result. Every way keeps what rounding drops.
"""

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float16, float64
from calor.ops.attention import attention
from calor_interpreter.device import MANY_UNITS, ONE_UNIT

from .test_mma import INFO as FRAGMENTS
from .test_result_orders import LATER, PLANES, TMA, run
from .test_tile_registers import INFO as REGISTERS

# A device, the dtype, heads, key heads, queries, keys, features, and what a label contains.
CASES = {
    "one unit": (ONE_UNIT, bfloat16, (1, 1, 5, 9, 8), "attention "),
    "tile registers": (REGISTERS, bfloat16, (1, 1, 16, 17, 16), "tile registers"),
    "simt": (MANY_UNITS, float16, (2, 2, 17, 17, 16), "attend_simt"),
    "planes": (FRAGMENTS, bfloat16, (2, 1, 20, 40, 64), "attend_mma"),
    "TMA": (TMA, bfloat16, (2, 1, 20, 40, 64), "attend_tma"),
    "split keys": (PLANES, bfloat16, (2, 2, 7, 16, 16), "split keys"),
    "last cube": (PLANES, float16, (2, 1, 5, 1400, 8), "split keys"),
    "second launch": (LATER, bfloat16, (2, 1, 5, 1400, 8), "attention splits"),
}


def gradients(q, k, v, weights):
    """Heads come before the rows, and go behind them, as in a model."""

    def loss(q, k, v):
        made = attention(q, k, v, causal=False, scale=q.shape[-1] ** -0.5)[0]
        turned = calor.permute_dims(made, (0, 2, 1, 3))
        return (turned.reshape(*turned.shape[:2], -1) * weights).sum()

    return calor.grad(loss, argnums=(0, 1, 2))(q, k, v)


def operands(sizes, dtype):
    """Queries that nearly repeat a key each: every row of the softmax is nearly one-hot."""
    heads, key_heads, queries, keys, features = sizes
    rng = np.random.default_rng(3)
    key, value = rng.standard_normal((2, 1, key_heads, keys, features))
    query = np.repeat(key, heads // key_heads, 1)[:, :, :queries] * (10.0 / features**0.5)
    up = rng.standard_normal((1, queries, heads * features))
    return [a.astype(dtype.numpy) for a in (query, key, value, up)]


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_a_saturated_softmax(name):
    info, dtype, sizes, label = CASES[name]
    given = operands(sizes, dtype)
    found, labels = run(info, gradients, given)
    with calor.device("numpy"):
        exact = [calor.asarray(a.astype(float64.numpy)) for a in given]
        wanted = [x.numpy() for x in gradients(*exact)]
    assert any(label in one for one in labels), labels
    for a, b in zip(found, wanted, strict=True):
        error = np.abs(a.astype(np.float64) - b).max() / np.abs(b).max()
        # Rounding the operands' products and the results: some half units of the dtype.
        assert error <= {bfloat16: 8e-3, float16: 1e-3}[dtype]
