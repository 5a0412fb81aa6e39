"""Gradients of attention that compute their delta themselves, and those that do not."""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float16, float32, float64
from calor.ops.attention import attention
from calor_interpreter.device import MANY_UNITS, ONE_UNIT
from calor_kernel.library.attention import DeltaFuser, delta_launch

from .test_mma import INFO as FRAGMENTS
from .test_result_orders import arrays_of, run

PLANES = replace(MANY_UNITS, planes=(32,), cores=16)
LATER = replace(PLANES, features=PLANES.features - {"forward_progress"})
HALF = replace(ONE_UNIT, dtypes=ONE_UNIT.dtypes | {bfloat16})
# A device, the dtype, the sizes as in test_result_orders, and whether delta has no launch.
CASES = {
    "many heads": (PLANES, float32, (2, 6, 6, 8, 8, 4, 4), True),
    "shared heads, several blocks": (PLANES, float32, (1, 8, 2, 9, 70, 16, 24), True),
    "splits": (PLANES, bfloat16, (1, 2, 1, 3, 300, 8, 16), True),
    "a second launch": (LATER, float16, (1, 2, 1, 3, 300, 8, 16), True),
    "no whole accesses": (PLANES, float32, (1, 2, 2, 5, 7, 3, 5), False),
    "keys of no whole accesses": (PLANES, float32, (1, 2, 2, 5, 7, 3, 8), True),
    "planes of 8": (MANY_UNITS, float64, (1, 2, 2, 5, 7, 8, 8), True),
    "matrix instructions": (FRAGMENTS, bfloat16, (1, 2, 2, 40, 40, 16, 16), False),
    "one unit": (ONE_UNIT, float32, (1, 2, 2, 5, 7, 4, 4), False),
    "a lane for each head": (ONE_UNIT, float32, (2, 6, 6, 8, 8, 4, 4), True),
    "a lane for each head of a result in parts": (HALF, bfloat16, (2, 6, 6, 5, 7, 4, 6), True),
    "no whole accesses of lanes": (ONE_UNIT, float32, (2, 6, 6, 5, 7, 5, 3), True),
}


def gradients(q, k, v, weights):
    """Heads come from projections, as a model has them, and go to one."""

    def loss(q, k, v):
        made, _ = attention(q, k, v, causal=True, scale=0.3)
        turned = calor.permute_dims(made, (0, 2, 1, 3))
        return (turned.reshape(*turned.shape[:2], -1) * weights).sum()

    return calor.grad(loss, argnums=(0, 1, 2))(q, k, v)


def given(sizes, dtype):
    n, heads, _, queries, _, _, values = sizes
    arrays = arrays_of(sizes, dtype)
    shape = n, queries, heads * values
    upstream = np.random.default_rng(9).standard_normal(shape).astype(dtype.numpy)
    return arrays, upstream


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    info, dtype, sizes, joined = CASES[name]
    arrays, upstream = given(sizes, dtype)
    found, labels = run(info, gradients, [*arrays, upstream])
    with calor.device("numpy"):
        exact = [calor.asarray(a.astype(np.float64)) for a in (*arrays, upstream)]
        wanted = [x.numpy() for x in gradients(*exact)]
    tolerance = {2: 3e-2, 4: 2e-5, 8: 1e-12}[dtype.itemsize]
    for a, b in zip(found, wanted, strict=True):
        error = np.abs(a.astype(np.float64) - b).max()
        assert error <= tolerance * np.abs(b).max()
    assert not joined or sum("sum" in label or "mul" in label for label in labels) == 0


# A device, the dtype, the sizes, and whether delta has no launch.
ORDERS = {
    "a vector a row": (PLANES, float32, (1, 2, 2, 9, 9, 8, 4), True),
    "a team a row": (PLANES, float32, (1, 2, 1, 3, 9, 8, 40), True),
    "the widest row": (PLANES, float32, (1, 1, 1, 2, 5, 16, 128), True),
    "too wide": (PLANES, float32, (1, 1, 1, 2, 5, 16, 132), False),
    "single terms": (PLANES, float32, (1, 2, 2, 3, 5, 6, 6), True),
    "two terms": (PLANES, float32, (1, 2, 2, 3, 5, 4, 2), True),
    "a result and its rest": (PLANES, bfloat16, (1, 2, 2, 5, 7, 8, 24), True),
    "doubles": (MANY_UNITS, float64, (1, 2, 2, 5, 7, 8, 12), True),
}


@pytest.mark.parametrize("name", ORDERS)
def test_gradients_have_the_bits_of_single_ops(monkeypatch, name):
    """A sum in another kernel has the order that it has in a launch of its own."""
    info, dtype, sizes, joined = ORDERS[name]
    arrays, upstream = given(sizes, dtype)

    def turned(q, k, v, up):
        return calor.vjp(lambda *x: attention(*x, causal=False, scale=2.0)[0], q, k, v)[1](up)

    upstream = upstream.reshape(sizes[0], sizes[3], sizes[1], sizes[6]).swapaxes(1, 2).copy()
    found, labels = run(info, turned, [*arrays, upstream])
    monkeypatch.setattr(DeltaFuser, "groups", lambda *_: ())
    apart, more = run(info, turned, [*arrays, upstream])
    assert (len(labels) < len(more)) == joined
    assert [a.tobytes() for a in found] == [a.tobytes() for a in apart]


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
def test_what_does_not_suit_has_launches_of_its_own(monkeypatch, dtype):
    """Views may differ from those that a fuser sees; then delta is computed first."""
    arrays, upstream = given((2, 6, 6, 8, 8, 8, 8), dtype)
    one, labels = run(PLANES, gradients, [*arrays, upstream])
    joined = delta_launch._joined

    def suited(request):
        # The fuser asks as for the op.
        return joined(request) if request.op == "attention_gradient" else None

    monkeypatch.setattr(delta_launch, "_joined", suited)
    two, more = run(PLANES, gradients, [*arrays, upstream])
    assert len(more) > len(labels)
    for a, b in zip(one, two, strict=True):
        most = np.abs(b.astype(np.float64)).max()
        error = np.abs(a.astype(np.float64) - b.astype(np.float64)).max()
        assert error <= {2: 2e-2, 4: 1e-6}[dtype.itemsize] * most
