"""Is attention by tile registers right: edges of tiles and blocks, masks, orders, beyond keys?"""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import bfloat16, float32
from calor.graph.graph import Builder
from calor.ops.base import table
from calor.specs import spec
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.contract.work import LOWERINGS, Request, View
from calor_kernel.library.attention import cpu_tile_gradient, cpu_tile_registers
from calor_kernel.planning.lowering import load_families
from calor_kernel.runtime.backend import KernelBackend

from . import reference
from .test_attention import Row, check_backward, check_forward, near

INFO = replace(ONE_UNIT, features=ONE_UNIT.features | {"tile_bfloat16"}, vector_bytes=64)
ROWS = [
    Row(1, 2, 1, 35, 40, 40, 36, causal=True),
    Row(1, 2, 2, 17, 33, 5, 17, order=(0, 1, 3, 2), mask=(1, 1, 17, 33)),
    Row(2, 1, 1, 20, 32, 32, 32, bias=(1, 1, 1, 32)),
    Row(1, 1, 1, 16, 1, 1, 1, scale=-0.7),
]


@pytest.fixture
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(INFO))


def first(row, op="attention"):
    load_families()
    shapes = [(row.n, row.heads, row.queries, row.features)]
    shapes += [(row.n, row.key_heads, row.keys, w) for w in (row.features, row.values)]
    specs = tuple(spec(s, bfloat16) for s in shapes)
    views = tuple(map(View.dense, specs))
    given = {"causal": row.causal, "scale": row.scale}
    result, total = spec((*shapes[0][:3], row.values), bfloat16), spec(shapes[0][:3], float32)
    outputs = result, total
    if op == "attention_gradient":
        outputs = specs
        views = tuple(View.dense(s) for s in (result, total, total)) + views
    return LOWERINGS[op](Request(op, given, views, outputs, INFO))[0]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_forward(backend, row):
    assert first(row).variant == "tile registers"
    check_forward(backend, row, "bfloat16")


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_gradient(backend, row):
    assert first(row, "attention_gradient").variant == "tile registers"
    check_backward(backend, row, "bfloat16", "attention_gradient")


def test_several_blocks(backend, monkeypatch):
    monkeypatch.setattr(cpu_tile_registers, "_KEYS", 32)
    monkeypatch.setattr(cpu_tile_gradient, "_KEYS", (32,))
    monkeypatch.setattr(cpu_tile_gradient, "_QUERIES", 32)
    check_forward(backend, ROWS[0], "bfloat16")
    check_backward(backend, ROWS[0], "bfloat16", "attention_gradient")


def test_few_queries_have_register_tiles():
    assert first(Row(1, 2, 1, 15, 40, 32, 32)).variant == "register tiles"


def test_operands_that_begin_within_a_tensor(backend):
    """Query, key and value are parts of one tensor, as of one product."""
    rng = np.random.default_rng(2)
    whole = rng.standard_normal((3, 2, 17, 32)).astype(bfloat16.numpy)
    builder = Builder()
    given = builder.input(spec(whole.shape, bfloat16))
    parts = []
    for i in range(3):
        cut = {"starts": (i, 0, 0, 0), "stops": (i + 1, 2, 17, 32), "steps": (1,) * 4}
        parts += builder.add(table()["slice"], [given], cut)
    attributes = {"causal": False, "scale": 0.5}
    graph = builder.build(builder.add(table()["attention"], parts, attributes))
    (made, _) = backend.compile(0, graph)([backend.upload(0, whole)])
    found = np.array(backend.download(0, made, graph.output_specs[0]))
    operands = [part[None] for part in whole.astype(np.float64)]
    near(found, reference.attention(*operands, **attributes)[0], "bfloat16")
