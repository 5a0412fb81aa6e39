"""Results of attention whose rows come before their heads, as the next projection reads them."""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float32
from calor.ops.attention import attention, attention_gradient
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.planning import orders
from calor_kernel.runtime.backend import KernelBackend

from .test_mma import INFO as FRAGMENTS
from .test_warpgroup_tma import INFO as TMA

PLANES = replace(MANY_UNITS, planes=(32,), cores=16)
LATER = replace(PLANES, features=PLANES.features - {"forward_progress"})
WIDE = replace(FRAGMENTS, cores=132)
# A device, the dtype, batch, heads, key heads, queries, keys, features of keys and of values, and
# what the launches' labels contain; whether results are copied.
CASES = {
    "split keys": (PLANES, float32, (2, 6, 6, 8, 8, 4, 4), "split keys", False),
    "shared heads": (PLANES, bfloat16, (2, 4, 2, 3, 70, 16, 24), "split keys", False),
    "last cube": (PLANES, float32, (1, 2, 1, 5, 900, 8, 12), "split keys", False),
    "second launch": (LATER, float32, (1, 2, 1, 5, 900, 8, 12), "splits", False),
    "planes": (FRAGMENTS, bfloat16, (2, 4, 2, 20, 37, 16, 24), "_mma", False),
    "parts": (WIDE, bfloat16, (1, 2, 1, 66, 600, 24, 32), "_mma", False),
    "TMA": (TMA, bfloat16, (2, 2, 1, 20, 40, 16, 24), "_tma", False),
    "one query": (PLANES, float32, (2, 3, 3, 1, 40, 8, 8), "split keys", False),
    "simt": (MANY_UNITS, float32, (1, 2, 2, 70, 30, 6, 6), "", True),
    "one unit": (ONE_UNIT, float32, (1, 2, 2, 9, 7, 8, 8), "", True),
}


def joined(x):
    """Return the heads of each row, beside each other."""
    turned = calor.permute_dims(x, (0, 2, 1, 3))
    return turned.reshape(*turned.shape[:2], -1) * 2.0


def forward(q, k, v):
    out, total = attention(q, k, v, causal=True, scale=0.3)
    # The result is read in its own order too, as delta is.
    return joined(out), out.sum(axis=-1), total


def backward(up, delta, total, q, k, v):
    return tuple(map(joined, attention_gradient(up, delta, total, q, k, v, causal=True, scale=0.3)))


def arrays_of(sizes, dtype):
    n, heads, key_heads, queries, keys, features, values = sizes
    rng = np.random.default_rng(5)
    shapes = [
        *((n, heads, queries, w) for w in (features,)),
        *((n, key_heads, keys, w) for w in (features, values)),
    ]
    return [rng.standard_normal(shape).astype(dtype.numpy) for shape in shapes]


def run(info, function, arrays):
    backend = KernelBackend("lanes", lambda _: LanesDevice(info), fusers=())
    with calor.device("numpy"):
        graph = calor.trace(function, *map(calor.asarray, arrays))
    executable = backend.compile(0, graph)
    made = executable([backend.upload(0, np.ascontiguousarray(a)) for a in arrays])
    launches = [one.launch for found in executable.base.recording.launches for one in found]
    pairs = zip(made, graph.output_specs, strict=True)
    return [np.array(backend.download(0, b, s)) for b, s in pairs], [la.label for la in launches]


@pytest.mark.parametrize("name", CASES)
def test_results_have_the_bits_of_dense_ones(monkeypatch, name):
    info, dtype, sizes, label, copied = CASES[name]
    arrays = arrays_of(sizes, dtype)
    found, labels = run(info, forward, arrays)
    out, _, total = found
    up = np.random.default_rng(6).standard_normal((*arrays[0].shape[:3], sizes[-1]))
    given = [up.astype(dtype.numpy), np.abs(total) * 0.1, total, *arrays]
    gradients, more = run(info, backward, given)
    assert any(label in one for one in labels)
    assert any(label in one for one in more)
    lone = 1 in sizes[3:5]
    for launches in (labels, more):
        assert any(one.startswith("copy") for one in launches) == (copied and not lone)
    monkeypatch.setattr(orders, "ORDERED", frozenset())
    dense, slow = run(info, forward, arrays)
    assert [a.tobytes() for a in dense] == [a.tobytes() for a in found]
    assert len(slow) == len(labels) + (not copied and not lone)
    dense, slow = run(info, backward, given)
    assert [a.tobytes() for a in dense] == [a.tobytes() for a in gradients]
    assert len(slow) >= len(more) + (not copied and not lone)
    assert out.any()


ROWS = {
    "a result of the graph": lambda q, k, v: (
        (out := attention(q, k, v, causal=False, scale=0.3)[0]),
        joined(out),
    ),
    "two orders": lambda q, k, v: (
        joined(out := attention(q, k, v, causal=False, scale=0.3)[0]),
        calor.permute_dims(out, (1, 0, 2, 3)).reshape(6, -1) * 2.0,
    ),
    "another order": lambda q, k, v: (
        calor.permute_dims(attention(q, k, v, causal=False, scale=0.3)[0], (1, 0, 2, 3)).reshape(
            6, -1
        )
        * 2.0
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_stays_dense(name):
    """What is not read in one order, or not in this one, is right, and is copied."""
    arrays = arrays_of((2, 6, 6, 8, 8, 4, 4), float32)
    found, labels = run(PLANES, ROWS[name], arrays)
    with calor.device("numpy"):
        wanted = ROWS[name](*map(calor.asarray, arrays))
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=2e-5, atol=2e-5)
    assert any(label.startswith("copy") for label in labels)
