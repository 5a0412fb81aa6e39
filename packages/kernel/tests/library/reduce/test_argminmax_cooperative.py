"""Do teams find the first extreme of rows and columns of any size, wherever rows begin?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import as_dtype
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.contract.cost import Ceilings
from calor_kernel.runtime.backend import KernelBackend

INFO = replace(MANY_UNITS, planes=(32,), cores=1)
DEVICES = {
    "planes": INFO,
    "no planes": replace(INFO, planes=(1,), features=INFO.features - {"planes"}),
}
BOTH = calor.argmax, calor.argmin
ROWS = {
    "aligned": ((24, 1024), -1, slice(None)),
    "uneven": ((21, 1003), -1, slice(None)),
    "a part of rows": ((19, 1200), -1, slice(3, 1190)),
    "short": ((300, 33), -1, slice(None)),
    "whole vectors": ((500, 16), -1, slice(None)),
    "of one element": ((500, 1), -1, slice(None)),
    "columns": ((700, 90), 0, slice(None)),
    "few columns": ((900, 5), 0, slice(None)),
    "middle axes": ((3, 37, 70), 1, slice(2, 69)),
}


def drawn(dtype, shape, strange):
    """Return numbers of which many are equal, and their lowest ones at the first places too."""
    rng = np.random.default_rng(7)
    made = rng.integers(-9, 9, shape)
    if dtype.startswith("uint"):
        return abs(made).astype(dtype)
    made = made.astype(as_dtype(dtype).numpy)
    if strange:
        made[..., 0] = -np.inf
        made.reshape(-1)[rng.integers(0, made.size, 3)] = np.nan
    return made


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int64", "uint8"])
def test_the_first_of_equals(name, rows, dtype):
    device = device_of(KernelBackend("teams", lambda index: LanesDevice(DEVICES[name])), 0)
    device.backend.engine(0).ceilings = Ceilings(1e9, 1e9)  # measured slowly on lanes
    shape, axis, part = ROWS[rows]
    for strange in (False, True)[: 1 + dtype.startswith("float")]:
        host = drawn(dtype, shape, strange)
        with calor.device(device):
            x = calor.asarray(host)
            made = calor.jit(lambda x: [f(x[..., part], axis=axis) for f in BOTH])(x)
            got = [np.asarray(one.numpy()) for one in made]
        for one, kind in zip(got, (np.argmax, np.argmin), strict=True):
            assert (one == kind(host[..., part], axis=axis)).all()
