"""Are products by matrix instructions of small squares what the reference says?"""

from dataclasses import replace

import pytest

from calor_kernel.library.matmul import squares
from calor_kernel.runtime.backend import KernelBackend
from calor_kernel.runtime.lanes_device import MANY_UNITS, LanesDevice

from .test_matmul import ONE, check

NONE = ((), ())
# As ROWS of the other ways; sizes are neither of whole tiles nor of whole squares.
ROWS = [
    ((70, 37), (37, 101), ONE, NONE, (None, None)),
    ((70, 37), (37, 101), ONE, NONE, ((1, 0), (1, 0))),
    ((2, 64, 9), (2, 9, 65), ((2,), (1,)), ((0,), (0,)), (None, None)),
]
INFO = replace(MANY_UNITS, planes=(32,), matrices=frozenset({squares.SQUARE}))


@pytest.fixture(scope="module")
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(INFO))


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize(
    ("dtype", "result"),
    [("float32", "float32"), ("bfloat16", "bfloat16"), ("float16", "float32")],
)
def test_products(backend, monkeypatch, row, dtype, result):
    seen = []
    made = squares.Squares
    monkeypatch.setattr(squares, "Squares", lambda *given: seen.append(given) or made(*given))
    check(backend, row, dtype, result)
    assert seen


@pytest.mark.parametrize("made", squares._PLANS, ids=str)
def test_a_tile_is_shared_evenly(made):
    plan = squares.Squares(*made, True, False)
    assert plan.rows % (plan.shape.m * plan.down) == 0
    assert plan.columns % (plan.shape.n * plan.across) == 0
    assert plan.depth % plan.shape.k == 0
    assert plan.shared_bytes <= 32 << 10
