"""Are products of few rows or columns what the reference says, for every layout and type?"""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import bfloat16
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.matmul import gpu_ways
from calor_kernel.library.matmul.gemv_plan import gemv_plan
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.runtime.backend import KernelBackend

from .test_matmul import ONE, check

NONE = ((), ())
# Devices of few cores have no parts of the K axis, those of many have; launches of the latter wait
# late for those before.
DEVICES = (
    replace(MANY_UNITS, cores=1),
    replace(MANY_UNITS, cores=100, features=MANY_UNITS.features | {"overlap"}),
)
SHAPES = [
    (1, 768, 40),
    (1, 301, 7),
    (3, 64, 33),
    (8, 130, 64),
    (5, 8, 200),
    (40, 96, 1),
    (33, 65, 2),
    (1, 4096, 1),
    (1, 1, 40),
    (6, 40, 70),
    (2, 0, 5),
]
ORDERS = [(None, None), (None, (1, 0)), ((1, 0), None), ((1, 0), (1, 0))]


@pytest.fixture(params=DEVICES, ids=["1 core", "100 cores"])
def backend(request):
    return KernelBackend("lanes", lambda index: LanesDevice(request.param))


@pytest.fixture
def taken(monkeypatch):
    found = []

    def launches(*given, made=gpu_ways.gemv_launches):
        found.append(made(*given))
        return found[-1]

    monkeypatch.setattr(gpu_ways, "gemv_launches", launches)
    return found


@pytest.mark.parametrize("orders", ORDERS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(backend, taken, shape, orders):
    m, k, n = shape
    check(backend, ((m, k), (k, n), ONE, NONE, orders), "float32", "float32")
    assert taken


@pytest.mark.parametrize("orders", ORDERS[:2], ids=str)
@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        *(("bfloat16", "bfloat16"), ("float16", "float32")),
        *(("int8", "int32"), ("int8", "int8"), ("int64", "int64"), ("bool", "bool")),
        *(("uint8", "uint8"), ("complex64", "complex64")),
    ],
)
def test_types(backend, taken, dtype, result, orders):
    for m, k, n in ((2, 80, 24), (20, 37, 3)):
        check(backend, ((m, k), (k, n), ONE, NONE, orders), dtype, result)
    assert taken


def test_sums_of_float64_have_one_order(backend, taken):
    check(backend, ((2, 80), (80, 24), ONE, NONE, (None, None)), "float64", "float64")
    assert not taken


def test_few_multiplications_have_one_order(backend, taken, monkeypatch):
    monkeypatch.setattr(gpu_ways, "_FEW_TERMS", 1 << 14)
    check(backend, ((2, 80), (80, 24), ONE, NONE, (None, None)), "float32", "float32")
    assert not taken
    check(backend, ((2, 400), (400, 24), ONE, NONE, (None, None)), "float32", "float32")
    assert taken


@pytest.mark.parametrize("orders", [(None, None), ((0, 2, 1), None), (None, (0, 2, 1))], ids=str)
def test_batches(backend, taken, orders):
    for m, k, n in ((1, 72, 24), (7, 33, 2)):
        row = ((3, m, k), (3, k, n), ((2,), (1,)), ((0,), (0,)), orders)
        check(backend, row, "float32", "float32")
    assert taken


# Planes of a GPU hold matrices also where launches do not overlap.
HOLDING = {
    "overlap": DEVICES[1],
    "planes of 32": replace(MANY_UNITS, cores=100, planes=(32,)),
}
HELD = [(1, 512, 40), (1, 520, 41), (2, 1024, 24), (4, 256, 96), (1, 200, 300), (8, 64, 64)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", HELD, ids=str)
@pytest.mark.parametrize(("info", "count"), [("overlap", 1), ("overlap", 3), ("planes of 32", 1)])
def test_matrices_that_registers_hold(monkeypatch, shape, dtype, info, count):
    """Also with parts of the K axis, which such a plan does not ask for."""
    m, k, n = shape
    plans = []

    def launches(task, plan, parts, turned, made=gpu_ways.gemv_launches):
        assert parts == 1 or not plan.held
        plans.append(plan)
        return made(task, plan, count if plan.held else parts, turned)

    monkeypatch.setattr(gpu_ways, "gemv_launches", launches)
    backend = KernelBackend("lanes", lambda index: LanesDevice(HOLDING[info]))
    check(backend, ((m, k), (k, n), ONE, NONE, (None, (1, 0))), dtype, dtype)
    assert any(plan.held for plan in plans)


@pytest.mark.parametrize("seed", range(6))
def test_random_shapes(backend, taken, seed):
    rng = np.random.default_rng(seed)
    m, k, n = (int(rng.integers(1, most)) for most in (9, 400, 300))
    if rng.random() < 0.5:
        m, n = n, m
    orders = ORDERS[int(rng.integers(4))]
    dtype = ("float32", "bfloat16", "float16")[int(rng.integers(3))]
    check(backend, ((m, k), (k, n), ONE, NONE, orders), dtype, dtype)
    assert taken


# Columns of odd rows, of which an access has one element: terms in whole accesses of A, in parts
# of those, and behind the last.
COLUMNS = [(4, 64, 37), (3, 72, 41), (8, 80, 33), (2, 36, 65), (4, 66, 39)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", COLUMNS, ids=str)
def test_an_access_of_a_serves_adjacent_terms(backend, taken, shape, dtype):
    m, k, n = shape
    check(backend, ((m, k), (k, n), ONE, NONE, (None, None)), dtype, dtype)
    check(backend, ((m, k), (k, n), ONE, NONE, ((1, 0), None)), dtype, dtype)
    assert taken


def test_cubes_have_more_planes_where_little_is_in_flight():
    wide = replace(MANY_UNITS, max_units=1024, max_cube=(1024, 1024, 64), planes=(32,), cores=132)
    plans = {}
    for columns in (4489, 1 << 17):
        operands = Operand((0, 0), 512, 1, 0, bfloat16), Operand((0, 0), 1, columns, 0, bfloat16)
        plans[columns] = gemv_plan(Product((1, 1), 4, columns, 512, *operands, bfloat16), wide)
    assert [(plan.planes, plan.a_width) for plan in plans.values()] == [(16, 8), (8, 4)]
    assert plans[4489].width == 1
