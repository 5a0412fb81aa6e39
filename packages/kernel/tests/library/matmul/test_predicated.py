"""Are products of odd sizes and few rows what the reference says, on tiles with edges?"""

from dataclasses import replace

import numpy as np
import pytest

from calor_interpreter.device import LanesDevice
from calor_kernel.library.matmul import gpu_ways
from calor_kernel.runtime.backend import KernelBackend

from .test_gemv_planes import ORDERS
from .test_matmul import ONE, check
from .test_units import INFO

NONE = ((), ())
# Rows, terms and columns: of whole accesses, of one operand alone, and of none.
SHAPES = [
    (16, 128, 72),
    (32, 40, 136),
    (9, 147, 30),
    (70, 64, 33),
    (65, 27, 64),
    (130, 72, 17),
    (31, 257, 131),
    (66, 35, 67),
    (70, 34, 68),
    (66, 36, 102),
    (140, 37, 150),
]
# Those with "tf32" may be rounded.
TYPES = [
    *(("bfloat16", "bfloat16"), ("float16", "float32")),
    *(("float32", "float32"), ("float32", "float32", "tf32")),
]
# A GPU of few cores has no parts of the K axis, one of many has.
CORES = (1, 100)


@pytest.fixture(params=CORES)
def backend(request):
    info = replace(INFO, cores=request.param)
    return KernelBackend("lanes", lambda index: LanesDevice(info))


@pytest.fixture
def taken(monkeypatch):
    found = []

    def noted(made):
        return lambda *given: found.append(made(*given)) or found[-1]

    for name in ("mma_launches", "predicated_simt_launches"):
        monkeypatch.setattr(gpu_ways, name, noted(getattr(gpu_ways, name)))
    return found


def checked(backend, row, types):
    more = {"precision": "high"} if "tf32" in types else {}
    check(backend, row, *types[:2], 2e-3 if more else None, **more)


@pytest.mark.parametrize("types", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(backend, taken, shape, types):
    m, k, n = shape
    orders = ORDERS[(SHAPES.index(shape) + TYPES.index(types)) % len(ORDERS)]
    checked(backend, ((m, k), (k, n), ONE, NONE, orders), types)
    # GEMV has further rows if they are not of matrix instructions.
    assert taken or (types == TYPES[2] and min(m, n) <= 8)


@pytest.mark.parametrize("types", TYPES, ids=str)
def test_batches(backend, taken, types):
    for m, k, n in ((20, 24, 24), (33, 65, 30)):
        row = ((3, m, k), (3, k, n), ((2,), (1,)), ((0,), (0,)), (None, (0, 2, 1)))
        checked(backend, row, types)
    assert taken


@pytest.mark.parametrize(("kilobytes", "depth"), [(64, 16), (48, 8)])
def test_steps_are_short_where_shared_memory_is_small(taken, kilobytes, depth):
    missing = {"load_matrix", "async_copy"}
    info = replace(INFO, features=INFO.features - missing, shared_bytes=kilobytes << 10, cores=1)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, ((70, 34), (34, 68), ONE, NONE, (None, None)), "float32", "float32")
    ((_, (launch, *_)),) = taken
    plan = dict(launch.build.keywords)["plan"]
    assert (plan.depth, plan.stages) == (depth, 2)
    assert 2 * plan.shared_bytes <= info.shared_bytes


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_devices_without_matrix_instructions(taken, shape, asynchronous):
    missing = {"load_matrix"} | (set() if asynchronous else {"async_copy"})
    info = replace(INFO, cores=20, features=INFO.features - missing, shared_bytes=48 << 10)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    m, k, n = shape
    for orders in ORDERS[::3]:
        check(backend, ((m, k), (k, n), ONE, NONE, orders), "float32", "float32")
    assert bool(taken) is (min(m, n) > 8)


@pytest.mark.parametrize(
    ("asynchronous", "k", "accesses"),
    [(False, 64, 4), (False, 40, 4), (False, 66, 1), (True, 64, 1)],
)
def test_units_that_store_what_they_load_take_four_terms(taken, asynchronous, k, accesses):
    """Lines along the K axis: an asynchronous copy would leave its terms side by side."""
    missing = {"load_matrix"} | (set() if asynchronous else {"async_copy"})
    info = replace(INFO, features=INFO.features - missing)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, ((33, k), (k, 30), ONE, NONE, (None, (1, 0))), "float32", "float32")
    _, (launch, *_) = taken[-1]
    assert dict(launch.build.keywords)["accesses"] == (accesses, accesses)


def test_few_tiles_are_divided(taken):
    """Where whole aligned tiles leave most cores idle."""
    backend = KernelBackend("lanes", lambda index: LanesDevice(replace(INFO, cores=100)))
    for types in TYPES:
        checked(backend, ((72, 1024), (1024, 64), ONE, NONE, (None, None)), types)
    assert len(taken) == len(TYPES)
    assert all(len(launches) == 2 for _, launches in taken)


def test_units_share_many_parts(taken):
    """More parts than units of a cube that add one element."""
    backend = KernelBackend("lanes", lambda index: LanesDevice(replace(INFO, cores=100)))
    checked(backend, ((20, 3200), (3200, 24), ONE, NONE, (None, None)), TYPES[0])
    ((_, launches),) = taken
    assert launches[1].label == "matmul sums of 10"


@pytest.mark.parametrize("seed", range(8))
def test_random_shapes(backend, taken, seed):
    rng = np.random.default_rng(seed)
    m, k, n = (int(rng.integers(17, most)) for most in (140, 200, 140))
    orders = ORDERS[int(rng.integers(4))]
    checked(backend, ((m, k), (k, n), ONE, NONE, orders), TYPES[seed % 4])
    assert taken
