"""Are caches written and attended to by one launch, in place or not, and when by several?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.ops.attention import attention
from calor.ops.movement import dynamic_update_slice
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from . import reference
from .test_attention import NAMES, near

INFO = replace(MANY_UNITS, planes=(32,), cores=16)
DEVICES = {
    "last cube": INFO,
    "second launch": replace(INFO, features=INFO.features - {"forward_progress"}),
    "planes of 8": replace(MANY_UNITS, cores=2),
}
# Batch, heads, key heads, queries, places, features of keys and of values.
SIZES = [(1, 4, 2, 1, 150, 64, 64), (2, 3, 3, 2, 70, 24, 40), (1, 12, 1, 1, 40, 8, 5)]


def step(query, keys, values, key, value, starts, mask):
    """Write a row of both caches, and attend to them."""
    keys = dynamic_update_slice(keys, key, starts)
    values = dynamic_update_slice(values, value, starts)
    return attention(query, keys, values, mask, causal=False, scale=0.3)[0], keys, values


def operands(sizes, dtype, place):
    n, heads, key_heads, queries, count, features, width = sizes
    rng, host = np.random.default_rng(7), NAMES[dtype].numpy
    shapes = [
        (n, heads, queries, features),
        *((n, key_heads, count, w) for w in (features, width)),
        *((n, key_heads, 1, w) for w in (features, width)),
    ]
    made = [rng.standard_normal(shape).astype(host) for shape in shapes]
    mask = np.arange(count)[None, None, None] <= max(place, 1)
    return [*made, np.array([0, 0, place, 0], np.int64), mask]


def expected(arrays, place):
    query, keys, values, key, value, _, mask = arrays
    keys, values = keys.copy(), values.copy()
    place = min(max(place, 0), keys.shape[2] - 1)
    keys[:, :, place], values[:, :, place] = key[:, :, 0], value[:, :, 0]
    wide = [x.astype(np.float64) for x in (query, keys, values)]
    return reference.attention(*wide, mask, causal=False, scale=0.3)[0], keys, values


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("place", [0, 33, 1000])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", DEVICES)
def test_one_launch_writes_and_attends(name, sizes, place, dtype):
    backend = KernelBackend("cached", lambda index: LanesDevice(DEVICES[name]))
    device_of(backend, 0)
    arrays = operands(sizes, dtype, place)
    with calor.device("numpy"):
        graph = calor.trace(step, *map(calor.asarray, arrays))
    plan = backend.compile(0, graph)
    assert [task.op for task in plan.draft.tasks] == ["attention_cached"]
    wanted = expected(arrays, place)
    for in_place in (False, True, True):
        given = [backend.upload(0, np.ascontiguousarray(a)) for a in arrays]
        made = plan(given, [None, *given[1:3]] if in_place else None)
        found = [
            np.array(backend.download(0, b, s))
            for b, s in zip(made, graph.output_specs, strict=True)
        ]
        near(found[0], wanted[0], dtype)
        for mine, right in zip(found[1:], wanted[1:], strict=True):
            np.testing.assert_array_equal(mine, right)
    recorded = plan.recorder.laid({1: 1, 2: 2}).lists[0]
    labels = [launched.launch.label for launched, _ in recorded]
    assert not [label for label in labels if "copy" in label]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda q, k, v, *rest: step(q, k, v, *rest)[:1], 3),
        (lambda q, k, v, *rest: step(q, k, k, *rest[:1], *rest[:1], *rest[2:]), 3),
    ],
    ids=["caches that are not kept", "one cache"],
)
def test_others_take_a_launch_each(change, wanted):
    backend = KernelBackend("apart", lambda index: LanesDevice(INFO))
    device_of(backend, 0)
    arrays = operands((1, 2, 2, 1, 40, 16, 16), "float32", 3)
    with calor.device("numpy"):
        graph = calor.trace(change, *map(calor.asarray, arrays))
    ops = [task.op for task in backend.compile(0, graph).draft.tasks]
    assert "attention_cached" not in ops
    assert len(ops) <= wanted
