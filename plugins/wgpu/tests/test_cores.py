"""Cores are counted from times of one cube and of many, once, and kept."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from calor.errors import CompileError
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.runtime.autotune import tuning_lines
from calor_wgpu.probes import cores
from calor_wgpu.probes.cores import STEPS, cores_of, counted, with_cores
from calor_wgpu.probes.last_cache import with_last_cache
from device_runs import run

US = 1e-6


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """Keep what is found in the test's own directory."""
    monkeypatch.setenv("CALOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CALOR_BUNDLES", raising=False)
    return tmp_path / "cache"


def test_steps_rise_by_half_at_most():
    assert list(STEPS) == sorted(set(STEPS))
    assert all(b <= 1.5 * a for a, b in pairwise(STEPS[1:]))


@pytest.mark.parametrize(
    ("nothing", "one", "many", "cubes", "expected"),
    [
        (5, 325, 5 + 40 * 32, 4096, 128),
        (5, 325, 5 + 40 * 31.03, 4096, 128),
        (0, 320, 40 * 32, 32, 1),
        (0, 320, 40 * 33, 32, 1),  # The clock varies.
        (0, 320, 40 * 32, 256, 8),
        (100, 420, 100 + 40 * 32, 256, 8),
        (3, 323, 3 + 40 * 9, 4096, 448),
        (3, 323, 3 + 40 * 4, 4096, None),  # too few rounds to tell
        (3, 323, 3 + 40 * 40, 32, None),  # less than one core
        (800, 1120, 800 + 40 * 32, 4096, None),  # mostly something else
        (5, 5, 160, 4096, None),  # a coarse clock
        (5, 4, 160, 4096, None),
        (0, 0, 0, 4096, None),  # no clock
        (0, 0, 160, 4096, None),
        (5, 325, 4, 4096, None),
        (math.nan, math.nan, math.nan, 4096, None),
    ],
)
def test_cores_of_times(nothing, one, many, cubes, expected):
    assert cores_of(nothing * US, one * US, many * US, cubes) == expected


def gpu(count, together, overhead=5 * US, one=40 * US, ramp=1e-3, tick=0.0):
    """Return what takes times as a GPU does that rested, whose cores run cubes ``together``."""
    waited = [ramp]

    def seconds(cubes, turns):
        whole, rest = divmod(cubes, count * together)
        rounds = whole * together + -(-rest // count)
        took = overhead + rounds * one * turns / cores._TURNS + waited[0]
        waited[0] = 0.0
        return math.ceil(took / tick) * tick if tick else took

    return seconds


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        *((n, n) for n in STEPS if n <= 192),
        *((5, 4), (7, 6), (10, 8), (14, 12), (20, 16), (28, 24), (30, 24), (36, 32), (46, 40)),
        *((60, 48), (68, 64), (84, 80), (114, 112), (132, 128), (142, 128), (170, 160)),
    ],
)
@pytest.mark.parametrize("together", [1, 2])
@pytest.mark.parametrize("tick", [0.0, US])
def test_a_gpu_is_counted(count, expected, together, tick):
    assert counted(gpu(count, together, tick=tick)) == expected


def test_a_device_without_a_clock_is_not_counted():
    assert counted(lambda cubes, turns: 0.0) is None
    assert counted(lambda cubes, turns: 1e-3) is None


@pytest.fixture
def device(monkeypatch):
    """A device whose times are those of a GPU of 132 cores."""
    monkeypatch.delenv("CALOR_DETERMINISTIC", raising=False)
    made = LanesDevice(MANY_UNITS, checks=False)
    seconds = gpu(132, 2)

    def told(recorded, handles):
        (step,) = recorded
        return [seconds(step.cubes[0], step.arguments[1])]

    monkeypatch.setattr(made.queue, "record", lambda steps, slots: steps)
    monkeypatch.setattr(made.queue, "seconds", told)
    return made


def test_cores_are_counted_once(device, monkeypatch):
    found = with_cores(device)
    assert found.cores == 128
    assert found.dtypes == device.info.dtypes
    monkeypatch.setattr(device.queue, "seconds", None)
    assert with_cores(device) == found


def test_a_deterministic_program_takes_what_was_assumed(device, monkeypatch):
    assert with_cores(device).cores == 128
    monkeypatch.setenv("CALOR_DETERMINISTIC", "1")
    assert with_cores(device) is device.info


def test_what_cannot_be_is_not_kept(device, monkeypatch):
    monkeypatch.setattr(device.queue, "seconds", lambda recorded, handles: [0.0])
    assert with_cores(device) is device.info
    assert tuning_lines(device.toolchain.target).get("cores") is None


def test_a_device_that_cannot_run_it_is_as_it_was(device, monkeypatch):
    def refused(source, name):
        raise CompileError("refused")

    monkeypatch.setattr(type(device.toolchain), "compile", lambda self, *given: refused(*given))
    assert with_cores(device) is device.info


def test_the_kernel_multiplies():
    y = np.zeros(12, np.float32)
    run(LanesDevice(MANY_UNITS), cores.built(4), (3, 1, 1), [y, 5, 1.0001])
    expected = np.arange(15, 27, dtype=np.float32)
    for _ in range(5):
        expected *= np.float32(1.0001)
    assert y.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("vendor", "count", "more"), [(0x10DE, 128, 1), (0x10DE, 80, 0), (0x1002, 128, 0)]
)
def test_the_last_cache_of_many_cores(vendor, count, more):
    """An adapter names no cache; NVIDIA's GPUs of so many cores have a large one."""
    info = replace(MANY_UNITS, cores=count, caches=(1 << 17,))
    found = with_last_cache(info, {"vendor_id": vendor})
    assert found.caches == (1 << 17, *([40 << 20] * more))
