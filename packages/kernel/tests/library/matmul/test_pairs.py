"""Are products on a processor right whose instructions take pairs or fours along any K axis?"""

from dataclasses import replace

import numpy as np
import pytest

from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from .test_gemv_planes import ORDERS
from .test_matmul import ONE, check

NONE = ((), ())
INFO = replace(ONE_UNIT, features=ONE_UNIT.features | {"dot_8", "dot_bfloat16"})
TYPES = [("bfloat16", "bfloat16"), ("bfloat16", "float32"), ("int8", "int32")]


@pytest.fixture
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(INFO))


@pytest.mark.parametrize("orders", ORDERS, ids=str)
@pytest.mark.parametrize("shape", [(33, 65, 40), (20, 64, 33), (50, 1, 17), (70, 131, 70)], ids=str)
@pytest.mark.parametrize("types", TYPES, ids=str)
def test_shapes(backend, types, shape, orders):
    m, k, n = shape
    check(backend, ((m, k), (k, n), ONE, NONE, orders), *types)


@pytest.mark.parametrize("orders", [(None, None), (None, (0, 2, 1)), ((0, 2, 1), None)], ids=str)
@pytest.mark.parametrize("types", TYPES, ids=str)
def test_batches(backend, types, orders):
    for k in (30, 67):
        row = ((3, 19, k), (3, k, 21), ((2,), (1,)), ((0,), (0,)), orders)
        check(backend, row, *types)


@pytest.mark.parametrize("seed", range(8))
def test_random_shapes(backend, seed):
    rng = np.random.default_rng(seed)
    m, k, n = (int(rng.integers(1, most)) for most in (80, 150, 90))
    orders = ORDERS[int(rng.integers(4))]
    check(backend, ((m, k), (k, n), ONE, NONE, orders), *TYPES[seed % 3])
