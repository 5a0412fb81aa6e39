"""Are products of few rows whose columns registers hold what the reference says?"""

from dataclasses import replace
from itertools import product as product_of

import pytest

import calor
from calor.dtypes import bfloat16
from calor_interpreter.device import LanesDevice
from calor_kernel.library.matmul import gpu_ways, lowering, skinny_mma
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.runtime.backend import KernelBackend

from .test_matmul import check
from .test_units import INFO

NONE = ((), ())
H200 = replace(INFO, cores=132, shared_bytes=227 << 10)
# Rows, terms and columns: of whole accesses, of shorter ones, in several turns.
SHAPES = [
    (1, 8, 9),
    (3, 130, 40),
    (20, 66, 35),
    (33, 640, 67),
    (48, 24, 64),
    (16, 1300, 17),
    (9, 512, 24),
]
TYPES = [
    *(("bfloat16", "bfloat16"), ("float16", "float32")),
    ("float32", "float32", "tf32"),
]


@pytest.fixture
def backend(monkeypatch):
    made = skinny_mma.skinny_launches
    found = []
    way = next(way for way in gpu_ways.WAYS if way.name == "skinny MMA")
    # Before GEMV, and where two launches take less.
    monkeypatch.setattr(lowering, "ways_of", lambda request: (way, *gpu_ways.WAYS))
    monkeypatch.setattr(skinny_mma, "_DIVIDED", 1 << 40)
    monkeypatch.setattr(
        skinny_mma, "skinny_launches", lambda *given: found.append(given) or made(*given)
    )
    yield KernelBackend("lanes", lambda index: LanesDevice(replace(INFO, cores=3)))
    assert found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("types", TYPES, ids=" ".join)
def test_few_rows(backend, shape, types, monkeypatch):
    if shape[1] > 600:
        # The terms take several turns.
        monkeypatch.setattr(skinny_mma, "_HELD", 68)
    more = {"precision": "high"} if "tf32" in types else {}
    row = (shape[:2], (shape[2], shape[1]), ((1,), (1,)), NONE, (None, None))
    check(backend, row, *types[:2], 2e-3 if more else None, **more)


def test_several_products(backend):
    row = ((3, 5, 24), (3, 24, 11), ((2,), (1,)), ((0,), (0,)), (None, (0, 2, 1)))
    check(backend, row, "bfloat16", "bfloat16")


def product(m, k, n, dtype, along=True):
    left = Operand((0, 0), k, 1, 0, dtype)
    right = Operand((0, 0), k, 1, 0, dtype) if along else Operand((0, 0), 1, n, 0, dtype)
    return Product((1, 1), m, n, k, left, right, dtype)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ((49, 64, 70), "more than 48"),
        ((20, 64, 10), "more than columns"),
        ((20, 64, 64, False), "not dense along"),
        ((20, 65, 64), "below 4 bytes"),
    ],
)
def test_what_is_refused(given, reason):

    made = product(*given[:3], bfloat16, *given[3:])
    assert reason in skinny_mma.refusal(made)


# The columns of a cube of the plans that were the fastest on an H200, or within 5 % of it, by rows,
# terms and columns of a product; none where two launches took less.
FASTEST = {
    (20, 650, 2600, "bfloat16"): (24,),
    (20, 656, 2600, "bfloat16"): (16, 24),
    (20, 2600, 650, "bfloat16"): (),
    (32, 2048, 1000, "bfloat16"): (16, 24),
    (16, 1024, 4096, "bfloat16"): (16, 24, 32),
    (8, 768, 3072, "bfloat16"): (24,),
    (16, 768, 50257, "bfloat16"): (16, 24, 32),
    (20, 650, 2600, "float32"): (16, 24, 32),
    (8, 768, 768, "bfloat16"): (16, 24),
    (32, 768, 768, "bfloat16"): (16, 24),
    (48, 768, 768, "bfloat16"): (8,),
    (32, 768, 3072, "bfloat16"): (16, 24),
    (32, 1024, 4096, "bfloat16"): (16,),
    (48, 1024, 4096, "bfloat16"): (16,),
    (8, 3072, 768, "bfloat16"): (16,),
    (32, 3072, 768, "bfloat16"): (16,),
    (48, 3072, 768, "bfloat16"): (16,),
    (32, 4096, 1024, "bfloat16"): (16, 24),
    (48, 4096, 1024, "bfloat16"): (16, 24),
    (8, 2048, 1000, "bfloat16"): (8,),
    (48, 2048, 1000, "bfloat16"): (16,),
}


@pytest.mark.parametrize("row", FASTEST, ids=str)
def test_the_first_choice_is_the_fastest(row):
    made = product(*row[:3], calor.dtypes.as_dtype(row[3]))
    plan = skinny_mma.skinny_plan(made, H200)
    assert (plan is None) == (not FASTEST[row])
    assert plan is None or plan.columns in FASTEST[row]


def test_plans_fit():
    sizes = (1, 7, 16, 20, 32), (24, 650, 2600, 4096), (16, 650, 50257)
    for dtype, m, k, n in product_of(("bfloat16", "float32"), *sizes):
        made = product(m, k, n, calor.dtypes.as_dtype(dtype))
        for plan in skinny_mma.plans_of(made, H200):
            assert plan.rows >= m
            assert plan.shared_bytes <= H200.shared_bytes
            assert plan.whole == (plan.terms >= k)
            assert plan.depth * plan.planes * plan.full <= k


@pytest.mark.parametrize(
    ("rows", "columns", "terms", "count", "planes"),
    [(32, 768, 768, 1, 8), (27, 27, 128, 2048, 2), (8, 512, 64, 1, 2), (32, 128, 256, 64, 4)],
)
def test_planes_suit_the_cubes_and_the_terms(rows, columns, terms, count, planes):
    """A matrix alone has many planes; many products, or few terms, have few."""
    left, right = (
        Operand((0, n * terms * (count > 1)), terms, 1, 0, bfloat16) for n in (rows, columns)
    )
    product = Product((1, count), rows, columns, terms, left, right, bfloat16)
    assert skinny_mma.skinny_plan(product, H200).planes == planes
