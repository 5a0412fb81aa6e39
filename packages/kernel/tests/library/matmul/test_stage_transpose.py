"""TF32 products of operands dense off the K axis: planes transpose the stages of one of them."""

import random
from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.dtypes import float32
from calor.specs import spec
from calor_cuda.kernels.matmul import stage_transpose, summed_parts_launch
from calor_kernel.contract.work import Request, View
from calor_kernel.library.gemm.mma import MmaPlan
from calor_kernel.library.matmul import ProductFuser
from calor_kernel.library.matmul.lowering import task_of

from .test_epilogues import graph_of, operands, run
from .test_units import SEVERAL

FEW = ((64, 64, 3, 2), (128, 64, 2, 2), (64, 128, 2, 2))
H200 = replace(SEVERAL, cores=132, max_units=1024, shared_bytes=227 << 10)


def sizes_of(seed):
    """Return sizes whose lines are whole accesses, with few or many steps."""
    rng = random.Random(seed)
    m, n = (4 * rng.randint(16, 26) for _ in range(2))
    return m, n, rng.choice((rng.randint(1, 40), rng.randint(160, 200)))


def check(m, n, k, info, function=lambda x, w: x.T @ w, more=(), fusers=()):
    shapes = [(k, m), (k, n), *more]
    arrays = operands(shapes, float32)
    (found,), launches = run(graph_of(function, float32, shapes, "high"), arrays, info, fusers)
    with calor.device("numpy"):
        wide = [calor.asarray(a.astype(np.float64)) for a in arrays]
        exact = function(*wide).numpy()
    assert np.abs(found - exact).max() <= 4e-3 * max(np.abs(exact).max(), 1)
    return [one.label for one in launches]


@pytest.mark.parametrize("seed", range(5))
def test_drawn_sizes(seed, monkeypatch):
    monkeypatch.setattr(stage_transpose, "_TILES", (FEW[seed % 3],))
    labels = check(*sizes_of(seed), replace(SEVERAL, cores=1 + seed))
    assert len(labels) == 1
    assert labels[0].startswith("matmul boxes")


@pytest.mark.parametrize(("cores", "how"), [(5, "in shares of 4"), (12, "in parts of")])
def test_parts_of_a_long_sum(cores, how, monkeypatch):
    monkeypatch.setattr(stage_transpose, "_TILES", FEW[:1])
    monkeypatch.setattr(stage_transpose, "MOVED", 1000)
    monkeypatch.setattr(stage_transpose, "LATENCY", 0)
    for module in (stage_transpose, summed_parts_launch):
        monkeypatch.setattr(module, "STEPS", 1)
    (label,) = check(68, 64, 330, replace(SEVERAL, cores=cores))
    assert how in label


def test_an_epilogue_follows_the_sums(monkeypatch):
    monkeypatch.setattr(stage_transpose, "_TILES", FEW[:1])
    added = {"function": lambda x, w, b: calor.gelu(x.T @ w + b), "more": [(68,)]}
    (label,) = check(72, 68, 40, SEVERAL, fusers=(ProductFuser(),), **added)
    assert label.endswith("with epilogue")


def first_way(m, n, k):
    views = tuple(View.dense(spec((k, size), float32)) for size in (m, n))
    attributes = {"contract": ((0,), (0,)), "batch": ((), ()), "precision": "high"}
    asked = Request("dot_general", attributes, views, (spec((m, n), float32),), H200)
    return stage_transpose.stage_refusal(task_of(asked), asked)


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ((192, 768, 25088), None),
        ((512, 512, 4096), None),
        ((1024, 4096, 2048), "a copy of an operand takes less"),
        ((102, 512, 512), "operand b does not begin at multiples of 16 bytes"),
        ((60, 512, 512), "fewer than 64 rows"),
    ],
    ids=str,
)
def test_when_it_is_the_first_choice(sizes, reason):
    """On an H200 a copy takes less for large products alone."""
    found = first_way(*sizes)
    assert found == reason if reason is None else reason in found


@pytest.mark.parametrize("size", [16, 32, 48, 64, 96, 128, 192])
@pytest.mark.parametrize("first", [True, False])
def test_lanes_read_elements_off_the_k_axis_from_different_banks(size, first):
    plan = MmaPlan(float32, size, size, 32, 1, 1, 2, False, False)
    layout, banks = plan.layout(first), set()
    for lane in range(32):
        across, deep = lane // 4, lane % 4
        at = layout((across, deep) if first else (deep, across))
        banks.add(int(at) % 32)
    assert len(banks) == 32
    assert layout.cosize <= plan.panel(first).tile.size
