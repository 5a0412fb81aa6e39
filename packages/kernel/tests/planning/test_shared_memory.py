"""Shared memory: no kernel of a plan, or of a candidate for it, exceeds what a device declares."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest

import calor
from calor import nn
from calor.dtypes import as_dtype, int64, uint8, uint16, uint32
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS
from calor_kernel.contract.work import Request, View
from calor_kernel.library.sort import SortFuser
from calor_kernel.library.sort.radix_launch import radix_refusal, shared_bytes, tile_of
from calor_kernel.planning.lowering import Lowerings, load_families
from calor_kernel.planning.planner import Planner, cover

F = nn.functional
LARGE = replace(MANY_UNITS, max_units=1024, max_cube=(1024, 1024, 64), cores=128)
# What browsers promise, without planes; 32 KiB, as some drivers have; a GPU's, in planes of 32.
# The first and the last have words for elements, whatever their dtype.
INFOS = {
    "16 KiB": replace(
        LARGE, shared_bytes=16 << 10, shared_word=4, planes=(1,), matrices=frozenset(),
        features=LARGE.features - {"planes", "matrix", "async_copy", "forward_progress"},
    ),
    "32 KiB": replace(LARGE, shared_bytes=32 << 10, planes=(16,)),
    "48 KiB": replace(LARGE, shared_bytes=48 << 10, shared_word=4, planes=(32,)),
}  # fmt: skip


def same(x, w, groups=1):
    return F.conv2d(x, w, padding=w.shape[-1] // 2, groups=groups)


# A function and the shapes of its operands.
CASES = {
    "sort": (lambda x: calor.sort(x, axis=-1), [(4, 20_000)]),
    "sort of few": (lambda x: calor.sort(x, axis=-1), [(300, 700)]),
    "sort across": (lambda x: calor.argsort(x, axis=0), [(3000, 40)]),
    "largest": (lambda x: calor.topk(x, 50), [(2, 50_000)]),
    "sum": (lambda x: (calor.sum(x, axis=-1), calor.sum(x, axis=0)), [(70, 5000)]),
    "sum of all": (calor.sum, [(1 << 20,)]),
    "best": (lambda x: (calor.argmax(x, axis=-1), calor.argmin(x, axis=0)), [(7, 9000)]),
    "scan": (lambda x: calor.cumulative_sum(x, axis=-1), [(3, 70_000)]),
    "scan across": (lambda x: calor.cumulative_sum(x, axis=0), [(5000, 60)]),
    "softmax": (lambda x: calor.softmax(x, axis=-1), [(40, 3000)]),
    "softmax across": (lambda x: calor.softmax(x, axis=0), [(900, 70)]),
    "variance": (lambda x: calor.var(x, axis=-1), [(40, 3000)]),
    "transposed": (lambda x: (x + x.T) * calor.flip(x).T, [(2000, 2000)]),
    "turned": (lambda x: calor.permute_dims(x, (2, 0, 1)), [(7, 300, 200)]),
    "product": (lambda x: x @ x.T, [(300, 500)]),
    "row": (lambda x: x[:1] @ x.T, [(1000, 500)]),
    "deep": (lambda x: x @ x.T, [(16, 20_000)]),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), [(2, 4, 200, 64)]),
    "convolution": (same, [(2, 8, 40, 40), (24, 8, 3, 3)]),
    "convolution of many channels": (same, [(2, 64, 14, 20), (64, 64, 7, 7)]),
    "depthwise": (partial(same, groups=8), [(2, 8, 60, 60), (8, 1, 5, 5)]),
    "pooling": (lambda x: F.max_pool2d(x, 3, 2), [(2, 8, 60, 60)]),
    "fourier": (lambda x: calor.abs(calor.fft.fft(x)), [(4, 3000)]),
    "gradient of convolutions": (
        calor.grad(lambda x, w: calor.sum(same(x, w) ** 2), argnums=(0, 1)),
        [(2, 64, 14, 20), (64, 64, 3, 3)],
    ),
    "gradient of attention": (
        calor.grad(lambda x: calor.sum(F.scaled_dot_product_attention(x, x, x) ** 2)),
        [(1, 2, 200, 64)],
    ),
}  # fmt: skip
WHOLE = {"sort", "sort of few", "sort across", "largest", "best", "transposed", "turned"}
DTYPES = ("float32", "bool", "int64")
ROWS = [(name, dtype) for name in CASES for dtype in DTYPES[: 3 if name in WHOLE else 1]]
ROWS += [(name, "float16") for name in ("sort of few", "softmax", "product", "convolution")]


@cache
def pieces_of(build, features):
    """Return the elements and the bytes of each in the pieces of shared memory of a kernel."""
    memories = build.kernel(features).memories
    return [(m.size, m.type.dtype.itemsize) for m in memories if m.space == "shared"]


@pytest.mark.parametrize("info", INFOS.values(), ids=INFOS)
@pytest.mark.parametrize(("name", "dtype"), ROWS)
def test_no_candidate_exceeds_shared_memory(name, dtype, info):
    load_families()
    function, shapes = CASES[name]
    with calor.device("numpy"):
        graph = calor.trace(function, *[calor.asarray(np.zeros(s, dtype)) for s in shapes])
    lowerings, fusers = Lowerings(info, lambda op: True), (SortFuser(),)
    draft = Planner(lowerings, graph, fusers).draft(cover(graph, fusers, info))
    launches = [(w, la) for task in draft.tasks for w in task.works for la in w.launches]
    assert launches
    for work, launch in launches:
        room = sum(info.shared_room(*one) for one in pieces_of(launch.build, info.features))
        assert room <= info.shared_bytes, f"{launch.label} of {work.variant}: {room} bytes"


@pytest.mark.parametrize("kilobytes", [2, 6, 16, 32, 48, 227])
@pytest.mark.parametrize("plane", [1, 4, 16, 32, 64])
def test_tiles_of_sorts_fit_at_every_length(kilobytes, plane):
    info = replace(LARGE, shared_bytes=kilobytes << 10, planes=(plane,), shared_word=4)
    for dtype, word in (("bool", uint8), ("float16", uint16), ("float32", uint32)):
        for n in {*range(33, 200, 13), *(2**k + d for k in range(6, 20) for d in (0, 1, 700))}:
            request = request_of("sort", {"axis": 1, "descending": False}, (3, n), dtype, info)
            if radix_refusal(request) is None:
                tile = tile_of(info, word, n, 3)
                assert shared_bytes(info, tile, word) <= info.shared_bytes, f"{tile} for {n}"
            else:
                assert kilobytes == 2


def request_of(op, attributes, shape, dtype, info):
    one = spec(shape, as_dtype(dtype))
    return Request(op, attributes, (View.dense(one),), (one, spec(shape, int64)), info)
