"""Tuning on a processor: every candidate gives the same numbers, and what was found is used."""

import numpy as np
import pytest

import calor
from calor import nn
from calor.backends.device import device_of
from calor_cpu.device import CpuDevice
from calor_kernel.contract.cost import Ceilings
from calor_kernel.runtime import autotune
from calor_kernel.runtime.backend import KernelBackend
from calor_kernel.runtime.engine import Engine

F = nn.functional


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


# What is computed, and its arguments: tiles, few rows over either order of b, a transposed operand;
# a convolution; and how many candidates are timed at least.
CASES = {
    "tiles": (lambda x, y: x @ y, [floats(30, 300), floats(300, 70)], 9),
    "few rows": (lambda x, y: x @ y.T, [floats(3, 200), floats(90, 200)], 9),
    "streams": (lambda x, y: x @ y, [floats(1, 200), floats(200, 90)], 9),
    "transposed": (lambda x, y: x.T @ y, [floats(64, 20), floats(64, 48)], 6),
    "convolution": (
        lambda x, w: F.conv2d(x, w, padding=1),
        [floats(8, 40, 6, 6), floats(48, 40, 3, 3)],
        2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_tuned_results(name, monkeypatch, tmp_path):
    function, arrays, least = CASES[name]
    monkeypatch.setenv("CALOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CALOR_TUNE", "on")
    monkeypatch.setenv("CALOR_TUNE_CHECK", "1")
    # No time comes near such a roofline, so that every group is timed; and nothing is measured.
    monkeypatch.setattr(autotune, "work_seconds", lambda work, ceilings: 0.0)
    monkeypatch.setattr(Engine, "ceilings", Ceilings(1e10, 1e10))
    with calor.device("numpy"):
        wanted = np.asarray(function(*map(calor.asarray, arrays)))
    labels, timed = [], []
    for mode in ("on", "stored"):
        monkeypatch.setenv("CALOR_TUNE", mode)
        backend = KernelBackend("tuned", lambda index: CpuDevice())
        with calor.device(device_of(backend, 0)):
            graph = calor.trace(function, *map(calor.asarray, arrays))
            plan = backend.compile(0, graph)
            (made,) = plan([backend.upload(0, a) for a in arrays])
            found = np.array(backend.download(0, made, graph.output_specs[0]))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)
        labels.append([task.variant for task in plan.works])
        timed.append(backend.engine(0).tuner.timed)
    assert labels[0] == labels[1]
    assert timed[0] >= least
    assert timed[1] == 0
