"""Is attention right where cubes of units hold whole rows and copy tiles ahead of their use?"""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from calor.dtypes import bfloat16, float32, float64
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.contract.work import Request, View
from calor_kernel.library.attention import simt_launch
from calor_kernel.library.attention.lowering import attention, gradient
from calor_kernel.runtime.backend import KernelBackend

from . import reference
from .test_attention import Row, check_backward, check_forward, near, run

# Many cores: cubes share the loop of a tile.
INFO = replace(MANY_UNITS, planes=(32,), shared_bytes=227 << 10, cores=40)
FORWARD = ["attend_whole"]
BACKWARD = ["query_gradient_whole", "key_gradient_whole"]


def names(row, dtype=float32, info=INFO, order=None, first=0, offset=0):
    """Return the kernels of a case; ``order``: of the axes of operands in memory."""
    q = (row.n, row.heads, row.queries, row.features)
    k, v = ((row.n, row.key_heads, row.keys, w) for w in (row.features, row.values))
    rows = float64 if dtype is float64 else float32
    views = []
    for shape in (q, k, v):
        view = View.dense(spec(shape, dtype))
        if order:
            dense = View.dense(spec(tuple(shape[i] for i in order), dtype)).strides
            view = replace(view, strides=tuple(dense[order.index(i)] for i in range(4)))
        views.append(view)
    outputs = spec((*q[:3], row.values), dtype), spec(q[:3], rows)
    if first:
        up = [replace(View.dense(outputs[0]), offset=offset), *[View.dense(outputs[1])] * 2]
        views, outputs = [*up, *views], tuple(spec(s, dtype) for s in (q, k, v))
    said = {"causal": row.causal, "scale": row.scale}
    request = Request("attention", said, tuple(views), outputs, info)
    works = (gradient if first else attention)(request)
    return [launch.label for launch in works[0].launches]


# A device whose units copy by registers, and have less shared memory.
PLAIN = replace(INFO, features=INFO.features - {"async_copy"}, shared_bytes=48 << 10)


@pytest.fixture(scope="module", params=[INFO, PLAIN], ids=["ahead", "by registers"])
def backend(request):
    return KernelBackend("lanes", lambda index: LanesDevice(request.param))


@pytest.mark.parametrize(
    "row",
    [
        Row(1, 1, 1, 70, 40, 64, 64),
        Row(1, 4, 2, 40, 70, 9, 7, causal=True),
        Row(1, 2, 1, 70, 67, 40, 72, causal=True),
        Row(2, 2, 2, 33, 35, 24, 16, bias=(1, 2, 1, 35), mask=(2, 1, 33, 35)),
        Row(1, 3, 1, 40, 66, 16, 20, order=(0, 2, 1, 3)),
    ],
    ids=str,
)
def test_results(backend, row):
    assert names(row) == FORWARD
    # Gradients of few rows of a key head split the keys.
    assert row.queries < 64 or set(BACKWARD) <= set(names(row, first=3))
    check_forward(backend, row, "float32")
    check_backward(backend, row, "float32", "attention_gradient")


def drawn(seed):
    """A row of odd sizes with drawn groups, masks, biases and order."""
    random = Random(seed)
    n, key_heads, group = random.choice([1, 2]), random.choice([1, 2]), random.choice([1, 2, 3, 5])
    queries, keys = random.randrange(1, 50), random.randrange(1, 70)
    features, values = random.randrange(1, 40), random.randrange(1, 40)
    heads = key_heads * group

    def shape():
        """Each axis of the scores, or 1 where it broadcasts."""
        whole = (n, heads, queries, keys)
        return tuple(random.choice([1, size]) for size in whole[:3]) + whole[3:]

    more = {"causal": random.random() < 0.4}
    more |= {"mask": shape()} if random.random() < 0.6 else {}
    more |= {"bias": shape()} if random.random() < 0.5 else {}
    if random.random() < 0.4:
        more["order"] = (0, 2, 1, 3)
    return Row(n, heads, key_heads, queries, keys, features, values, **more)


@pytest.mark.parametrize("seed", range(8))
def test_drawn_forms(backend, seed):
    row = drawn(seed)
    check_forward(backend, row, "float32")
    check_backward(backend, row, "float32", "attention_gradient")


@pytest.mark.parametrize(
    ("features", "dtype", "info", "order"),
    [
        # Other dtypes would be converted on the way, and strided features gathered.
        (16, bfloat16, INFO, None),
        (16, float64, INFO, None),
        (16, float32, INFO, (0, 1, 3, 2)),
        # Shared memory holds no such tiles.
        (64, float32, replace(INFO, shared_bytes=8 << 10), None),
    ],
)
def test_what_is_held_in_parts(features, dtype, info, order):
    row = Row(1, 2, 1, 40, 40, features, features)
    assert names(row, dtype, info, order) == ["attend_simt"]


def test_upstream_rows_that_begin_within_a_vector_are_held_in_parts():
    row = Row(1, 4, 2, 40, 70, 8, 8)
    assert set(names(row, first=3)) >= set(BACKWARD)
    assert not set(names(row, first=3, offset=2)) & set(BACKWARD)


def test_a_row_that_is_no_number_is_alone(backend):
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((1, 1, 33, 8)).astype(np.float32) for _ in range(3))
    said = {"causal": False, "scale": 0.5}
    wanted, _ = reference.attention(*(a.astype(np.float64) for a in (q, k, v)), **said)
    q[0, 0, 3] = np.nan
    found, _ = run(backend, "attention", [q, k, v], said, None, 0)
    assert np.isnan(found[0, 0, 3]).all()
    others = np.arange(33) != 3
    near(found[:, :, others], wanted[:, :, others], "float32")


@pytest.mark.parametrize("tile", [*simt_launch.WHOLE_TILES, *simt_launch.SMALL_TILES], ids=str)
def test_tiles(monkeypatch, backend, tile):
    monkeypatch.setattr(simt_launch, "WHOLE_TILES", (tile,))
    monkeypatch.setattr(simt_launch, "SMALL_TILES", ())
    monkeypatch.setattr(simt_launch, "_LEAST_SCORES", 1)
    row = Row(1, 2, 1, 70, 67, 20, 24, causal=True)
    check_forward(backend, row, "float32")
    check_backward(backend, row, "float32", "attention_gradient")


@pytest.mark.parametrize("tile", simt_launch.SHUFFLED_TILES, ids=str)
def test_tiles_of_exchanged_weights(monkeypatch, tile):
    monkeypatch.setattr(simt_launch, "SHUFFLED_TILES", (tile,))
    row = Row(1, 2, 1, 70, 67, 20, 24, causal=True)
    assert names(row, info=replace(PLAIN, registers=150)) == ["attend_shuffled"]
    backend = KernelBackend("lanes", lambda index: LanesDevice(PLAIN))
    check_forward(backend, row, "float32")
    check_backward(backend, row, "float32", "attention_gradient")
