"""Are float32 products whose K axis is in parts right, and which are?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import float32
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.matmul import gpu_ways, ranking
from calor_kernel.runtime.backend import KernelBackend

from .test_waves import H200, first

INFO = replace(
    MANY_UNITS,
    planes=(32,),
    cores=9,
    max_units=1024,
    max_cube=(1024, 1024, 64),
    shared_bytes=227 << 10,
)
WAITING = replace(INFO, features=INFO.features - {"async_copy"})


def numbers(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


CASES = {
    "plain": (lambda x, y: x @ y, numbers(68, 216), numbers(216, 132)),
    "along": (lambda x, y: x @ y.mT, numbers(128, 200), numbers(64, 200)),
    "across": (lambda x, y: x.mT @ y, numbers(88, 128), numbers(88, 64)),
    "batches": (lambda x, y: x @ y, numbers(3, 64, 72), numbers(3, 72, 64)),
    "epilogue": (
        lambda x, y, z: calor.tanh(x @ y + z),
        *(numbers(68, 216), numbers(216, 132), numbers(132)),
    ),
}


@pytest.mark.parametrize("info", [INFO, WAITING], ids=["copied", "loaded"])
@pytest.mark.parametrize("name", CASES)
def test_parts(monkeypatch, name, info):
    function, *operands = CASES[name]
    counts = []
    made = gpu_ways.simt_in_parts
    monkeypatch.setattr(gpu_ways, "divided", lambda rates, *_: (list(rates)[-1], 3))
    monkeypatch.setattr(
        gpu_ways,
        "simt_in_parts",
        lambda task, plan, parts: counts.append(parts) or made(task, plan, parts),
    )
    monkeypatch.setattr(gpu_ways.predicated_simt, "idle", lambda *_: False)
    device = device_of(KernelBackend("lanes", lambda index: LanesDevice(info)), 0)
    found = []
    for place in ("numpy", device):
        with calor.device(place):
            found.append(calor.jit(function)(*map(calor.asarray, operands)).numpy())
    assert set(counts) == {3}
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("sizes", "label"),
    [
        ((1232, 4864, 896), "patches 256x128, sums of 7"),
        ((1576, 3072, 768), "patches 128x128, sums of 5"),
        ((1576, 768, 3072), "patches 64x128"),
        ((4096, 1024, 4096), "patches 256x128"),
    ],
    ids=str,
)
def test_first_choice(sizes, label):
    assert first(*sizes, float32) == label


def test_parts_cost_time(monkeypatch):
    monkeypatch.setattr(ranking, "SUM", 10_000)
    assert "sums" not in first(1232, 4864, 896, float32, H200)
