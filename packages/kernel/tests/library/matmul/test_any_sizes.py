"""Are products right at many sizes of one function, whose plans are templates?"""

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import bfloat16, float32
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from .test_units import ENGINE, INFO

INFOS = {"one unit": ONE_UNIT, "many units": MANY_UNITS, "planes": INFO, "engine": ENGINE}
# Rows, terms and columns, of which more and more change.
SIZES = [
    *((1, 40, 24), (1, 41, 24), (3, 57, 33), (70, 64, 64)),
    *((71, 33, 65), (90, 35, 1), (17, 130, 9), (66, 72, 66)),
]


@pytest.mark.parametrize(("dtype", "rows"), [(float32, False), (bfloat16, True)], ids=str)
@pytest.mark.parametrize("name", INFOS)
def test_one_function(name, dtype, rows):
    backend = KernelBackend("lanes", lambda index: LanesDevice(INFOS[name]))
    rng = np.random.default_rng(1)

    @calor.jit
    def product(x, w):
        return x @ (w.T if rows else w)

    with calor.device(device_of(backend, 0)):
        for m, k, n in SIZES:
            x = calor.asarray(rng.standard_normal((m, k)).astype(np.float32)).astype(dtype)
            w = rng.standard_normal((n, k) if rows else (k, n)).astype(np.float32)
            w = calor.asarray(w).astype(dtype)
            found = product(x, w).astype(float32).numpy()
            left, right = (t.astype(float32).numpy().astype(np.float64) for t in (x, w))
            wanted = left @ (right.T if rows else right)
            digits = 2e-2 if dtype is bfloat16 else 1e-5
            assert np.abs(found - wanted).max() <= digits * np.abs(wanted).max()
