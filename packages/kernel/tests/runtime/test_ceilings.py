"""What a device does at most is measured once, and kept."""

from dataclasses import replace

import pytest

import calor
from calor.backends.device import device_of
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.cost import Ceilings
from calor_kernel.device.storage import Lines
from calor_kernel.runtime import ceilings
from calor_kernel.runtime.backend import KernelBackend


@pytest.mark.parametrize("info", [ONE_UNIT, MANY_UNITS])
def test_measured(info, monkeypatch):
    for name, value in {
        "_BYTES": 1 << 14,
        "_APART_BYTES": 1 << 14,
        "_TURNS": 4,
        "_SAMPLES": 1,
    }.items():
        monkeypatch.setattr(ceilings, name, value)
    backend = KernelBackend("measured", lambda index: LanesDevice(info, checks=False))
    lines = Lines(None)
    found = ceilings.measured(backend.engine(0), lines)
    assert found.bandwidth > 0
    assert found.flops > 0
    assert ceilings.measured(backend.engine(0), lines) == found
    assert lines.get("peak rates") == [found.bandwidth, found.flops, found.launch, found.timed]
    assert 0 < found.timed < 1


def test_what_a_launch_takes_at_least_is_part_of_a_profile():
    info = replace(ONE_UNIT, native={"ceilings": Ceilings(1e9, 1e9, timed=0.5)})
    device = device_of(KernelBackend("timed", lambda index: LanesDevice(info, checks=False)), 0)
    with calor.device(device):
        x = calor.ones(250)
        calor.eval(x)
        with calor.profile(device) as p:
            calor.eval(x + 1)
    (event,) = p.events
    assert event.nbytes > 0
    assert event.least == pytest.approx(0.5 + event.nbytes / 1e9, rel=1e-9)


def test_roofline():
    known = Ceilings(bandwidth=100.0, flops=1000.0, launch=0.5)
    assert known.seconds(200, 100) == 2.5
    assert known.seconds(200, 9000, launches=2) == 10.0
