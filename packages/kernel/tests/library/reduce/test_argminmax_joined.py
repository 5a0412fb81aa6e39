"""Is the first extreme of few long rows or columns found by cubes that join their parts?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import as_dtype
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel import profile
from calor_kernel.contract.cost import Ceilings
from calor_kernel.runtime.backend import KernelBackend

INFO = replace(MANY_UNITS, planes=(32,), cores=24)
DEVICES = {
    "planes": INFO,
    "no planes": replace(INFO, planes=(1,), features=INFO.features - {"planes"}),
    "cubes apart": replace(INFO, features=INFO.features - {"forward_progress"}),
}


def values(rng, dtype, shape):
    if dtype == "bool":
        return rng.random(shape) < 0.001
    if dtype.startswith(("int", "uint")):
        return rng.integers(0, 100, shape).astype(dtype)
    # Many are equal.
    return np.round(rng.standard_normal(shape) * 8).astype(as_dtype(dtype).numpy)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize(
    ("dtype", "shape", "axis"),
    [
        ("bfloat16", (1, 5001), -1),
        ("float32", (3, 7000), -1),
        ("float64", (4096,), 0),
        ("int64", (2, 2, 3000), -1),
        ("uint8", (1, 6000), 1),
        ("bool", (5000,), 0),
        ("float16", (9000, 1), 0),
        ("float16", (24, 4099), 1),
        ("float32", (60000, 3), 0),
    ],
    ids=str,
)
def test_the_first_of_equals(name, kind, dtype, shape, axis):
    device = device_of(KernelBackend("joined", lambda index: LanesDevice(DEVICES[name])), 0)
    device.backend.engine(0).ceilings = Ceilings(1e9, 1e9)  # measured slowly on lanes
    rng = np.random.default_rng(len(dtype))
    for strange in (False, True):
        host = values(rng, dtype, shape)
        if strange and host.dtype.kind not in "iub":
            host.reshape(-1)[rng.integers(0, host.size, 3)] = np.nan
        with calor.device(device):
            x = calor.asarray(host)
            with profile(device) as found:
                got = getattr(calor, kind)(x, axis=axis).numpy()
        wide = host.astype(np.float64) if host.dtype.kind not in "iub" else host
        assert (got == getattr(np, kind)(wide, axis=axis)).all()
        joined = any(event.blueprint.endswith("joined") for event in found.events)
        assert joined == (name != "cubes apart")
