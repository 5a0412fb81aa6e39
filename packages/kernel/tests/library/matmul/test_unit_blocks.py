"""Are products of few terms right, of which units compute blocks, for every layout and type?"""

from dataclasses import replace

import pytest

from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.matmul import unit_blocks
from calor_kernel.runtime.backend import KernelBackend

from .test_matmul import check

# Few cores have blocks of many rows; many have those of one.
DEVICES = {"1 core": replace(MANY_UNITS, cores=1), "9 cores": replace(MANY_UNITS, cores=9)}
NONE = ((), ())
# Shapes of both operands: whole accesses, a part of one, none; a last block of fewer rows.
SHAPES = [
    ((40, 3), (3, 64)),
    ((33, 1), (1, 50)),
    ((9, 4), (4, 201)),
    ((70, 8), (8, 45)),
    ((8, 7), (7, 66)),
    ((100, 2), (2, 8)),
]
ORDERS = [(None, None), (None, (1, 0)), ((1, 0), None), ((1, 0), (1, 0))]


@pytest.fixture(params=DEVICES)
def backend(request, monkeypatch):
    monkeypatch.setattr(unit_blocks, "_RESULT", 1)
    monkeypatch.setattr(unit_blocks, "_BUSY", 8)
    return KernelBackend("lanes", lambda index: LanesDevice(DEVICES[request.param]))


@pytest.fixture
def taken(monkeypatch):
    found, made = [], unit_blocks.unit_blocks_launch

    def launch(task):
        found.append(unit_blocks.plan_of(task.product, task.info))
        return made(task)

    monkeypatch.setattr(unit_blocks, "unit_blocks_launch", launch)
    return found


@pytest.mark.parametrize("orders", ORDERS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(backend, taken, shape, orders):
    check(backend, (*shape, ((1,), (0,)), NONE, orders), "float32", "float32")
    assert taken


@pytest.mark.parametrize(
    ("dtype", "result"),
    [("bfloat16", "bfloat16"), ("float16", "float32"), ("bfloat16", "float32")],
)
@pytest.mark.parametrize("shape", SHAPES[:4], ids=str)
def test_types(backend, taken, shape, dtype, result):
    for orders in ORDERS[:2]:
        check(backend, (*shape, ((1,), (0,)), NONE, orders), dtype, result)
    assert taken


def test_batches(backend, taken):
    row = ((5, 17, 3), (5, 3, 240), ((2,), (1,)), ((0,), (0,)), (None, None))
    check(backend, row, "float32", "float32")
    row = ((5, 17, 3), (5, 240, 3), ((2,), (2,)), ((0,), (0,)), (None, None))
    check(backend, row, "bfloat16", "bfloat16")
    assert taken


@pytest.mark.parametrize(("cores", "rows"), [(1, 8), (9, 4), (99, 1)])
def test_blocks_have_rows_where_all_cores_have_units(taken, cores, rows, monkeypatch):
    monkeypatch.setattr(unit_blocks, "_RESULT", 1)
    monkeypatch.setattr(unit_blocks, "_BUSY", 16)
    info = replace(MANY_UNITS, cores=cores)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, ((64, 2), (2, 64), ((1,), (0,)), NONE, (None, None)), "float32", "float32")
    assert {(plan.rows, plan.width, plan.dense) for plan in taken} == {(rows, 4, True)}


def test_what_has_other_ways(backend, taken):
    for shape in (((40, 9), (9, 64)), ((4, 3), (3, 64)), ((40, 8), (8, 64))):
        check(backend, (*shape, ((1,), (0,)), NONE, (None, None)), "float32", "float32")
    check(backend, ((40, 3), (3, 64), ((1,), (0,)), NONE, (None, None)), "float64", "float64")
    check(backend, ((40, 3), (3, 64), ((1,), (0,)), NONE, (None, None)), "int32", "int32")
    assert not taken
