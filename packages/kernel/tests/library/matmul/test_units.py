"""Are large products what the reference says, on devices of many units that have what they ask?"""

from dataclasses import replace

import pytest

from calor.dtypes import bfloat16
from calor_kernel.library.matmul import units
from calor_kernel.library.matmul.fragments import Fragments
from calor_kernel.library.matmul.groups import Groups
from calor_kernel.library.matmul.patches import Patches
from calor_kernel.runtime.backend import KernelBackend
from calor_kernel.runtime.lanes_device import MANY_UNITS, LanesDevice

from .test_matmul import ONE, check

NONE = ((), ())
# As ROWS of the other ways; sizes are of whole accesses, and not of whole tiles.
ROWS = [
    ((72, 40), (40, 104), ONE, NONE, (None, None)),
    ((72, 40), (40, 104), ONE, NONE, (None, (1, 0))),
    ((72, 40), (40, 104), ONE, NONE, ((1, 0), None)),
    ((72, 40), (40, 104), ONE, NONE, ((1, 0), (1, 0))),
    ((2, 72, 16), (2, 16, 64), ((2,), (1,)), ((0,), (0,)), (None, None)),
    ((64, 8), (8, 64), ONE, NONE, (None, None)),
]
INFO = replace(
    MANY_UNITS,
    planes=(32,),
    shared_bytes=227 << 10,
    features=MANY_UNITS.features | {"load_matrix"},
)


GROUPED = replace(INFO, features=INFO.features | {"async_matrix"})


@pytest.fixture(scope="module")
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(INFO))


@pytest.fixture(scope="module")
def grouped():
    return KernelBackend("lanes", lambda index: LanesDevice(GROUPED))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Tiles of which there are several, with several steps, and planes that share them."""
    monkeypatch.setattr(units, "_FRAGMENTS", ((64, 32, 16, 2, 1, 3),))
    monkeypatch.setattr(units, "_GROUPS", ((128, 64, 64, 3),))
    monkeypatch.setattr(units, "_PATCHES", ((4, 8, 2, 1, 8),))


def labels(backend, monkeypatch):
    seen = []
    monkeypatch.setattr(
        units, "_launch", lambda *given, made=units._launch: seen.append(given[1]) or made(*given)
    )
    return seen


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize(
    ("dtype", "result", "kind"),
    [
        ("float32", "float32", Patches),
        ("bfloat16", "bfloat16", Fragments),
        ("float16", "float32", Fragments),
    ],
)
def test_ways(backend, monkeypatch, row, dtype, result, kind):
    seen = labels(backend, monkeypatch)
    check(backend, row, dtype, result)
    assert {type(plan) for plan in seen} == {kind}


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize(("dtype", "result"), [("bfloat16", "float32"), ("float16", "float16")])
def test_products_beside_warp_groups(grouped, monkeypatch, row, dtype, result):
    seen = labels(grouped, monkeypatch)
    check(grouped, row, dtype, result)
    assert {type(plan) for plan in seen} == {Groups, Fragments}


@pytest.mark.parametrize(
    "row",
    [
        ((63, 40), (40, 104), ONE, NONE, (None, None)),
        ((72, 40), (40, 102), ONE, NONE, (None, None)),
        ((72, 42), (42, 104), ONE, NONE, (None, (1, 0))),
    ],
    ids=str,
)
def test_what_is_not_of_whole_accesses_is_left_to_others(backend, monkeypatch, row):
    seen = labels(backend, monkeypatch)
    for dtype in ("float32", "bfloat16"):
        check(backend, row, dtype, dtype)
    assert seen == []


@pytest.mark.parametrize("made", units._FRAGMENTS, ids=str)
def test_a_tile_is_shared_evenly(made):
    plan = Fragments(bfloat16, *made, True, False)
    assert plan.rows % (plan.shape.m * plan.down) == 0
    assert plan.columns % (plan.shape.n * plan.across) == 0
    assert plan.depth % plan.shape.k == 0
    assert plan.shared_bytes <= INFO.shared_bytes
