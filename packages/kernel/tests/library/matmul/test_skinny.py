"""Are products of few rows whose columns registers hold what the reference says?"""

from dataclasses import replace

import pytest

from calor_interpreter.device import LanesDevice
from calor_kernel.contract.ways import Way
from calor_kernel.library.matmul import gpu_ways, lowering, skinny_mma
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.runtime.backend import KernelBackend

from .test_matmul import check
from .test_units import INFO

NONE = ((), ())
# Rows, terms and columns: of whole accesses, of shorter ones, in several turns.
SHAPES = [
    (1, 8, 9),
    (3, 130, 40),
    (20, 66, 35),
    (33, 640, 67),
    (64, 24, 64),
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
    way = Way("skinny MMA", gpu_ways._skinny_refusal, gpu_ways._skinny)
    monkeypatch.setattr(lowering, "ways_of", lambda request: (way, *gpu_ways.WAYS))
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
        monkeypatch.setattr(skinny_mma, "_HELD", 40)
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
        ((65, 64, 70), "more than 64"),
        ((20, 64, 10), "more than columns"),
        ((20, 64, 64, False), "not dense along"),
        ((20, 65, 64), "below 4 bytes"),
    ],
)
def test_what_is_refused(given, reason):
    from calor.dtypes import bfloat16

    made = product(*given[:3], bfloat16, *given[3:])
    assert reason in skinny_mma.refusal(made)


def test_plans_fit():
    from calor.dtypes import bfloat16, float32

    info = replace(INFO, cores=132, shared_bytes=227 << 10)
    for dtype in (bfloat16, float32):
        for m, k, n in ((20, 650, 2600), (16, 4096, 4096), (1, 64, 50257), (64, 2600, 650)):
            plan = skinny_mma.skinny_plan(product(m, k, n, dtype), info)
            assert plan.rows >= m
            assert plan.shared_bytes <= info.shared_bytes
            assert plan.whole == (plan.terms >= k)
