"""Do long sums of few rows lose few units in the last place on a processor?"""

import numpy as np
import pytest

from calor.dtypes import float32
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op

K = 9_001


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("columns", [1, 5, 40])
@pytest.mark.parametrize("along", [True, False], ids=["dots", "streams"])
def test_equal_numbers_are_added_in_blocks(rows, columns, along):
    backend = KernelBackend("lanes", lambda index: LanesDevice(ONE_UNIT))
    a = np.ones((rows, K), np.float32)
    b = np.full((columns, K) if along else (K, columns), 0.1, np.float32)
    given = {
        "contract": ((1,), (1 if along else 0,)),
        "batch": ((), ()),
        "dtype": float32,
    }
    (found,), _ = run_op(backend, "dot_general", [a, b], given)
    exact = K * float(np.float32(0.1))
    assert np.abs(found - exact).max() <= 60 * np.spacing(np.float32(exact))
