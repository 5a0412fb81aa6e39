"""Profiles: every launch with its time, as a table and as a trace."""

import json
from dataclasses import replace

import numpy as np
import pytest

import calor
import calor_kernel
from calor.backends.device import device_of
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.contract.cost import Ceilings
from calor_kernel.runtime.backend import KernelBackend


@pytest.fixture(scope="module")
def device():
    info = replace(ONE_UNIT, native={"ceilings": Ceilings(1e9, 1e9)})
    return device_of(KernelBackend("profiled", lambda index: LanesDevice(info, checks=False)), 0)


def test_table_and_trace(device, tmp_path):
    with calor.device(device):
        x = calor.asarray(np.ones((8, 8), np.float32))
        with calor_kernel.profile(device) as p:
            for _ in range(3):
                y = (x + x.T).numpy()
        x.numpy()
        (x * 3).numpy()
    assert (y == 2).all()
    assert [e.op for e in p.events] == ["add"] * 3
    assert all(e.seconds > 0 for e in p.events)
    assert p.events[0].start < p.events[1].start
    assert p.seconds == sum(e.seconds for e in p.events)
    header, row, foot = p.table().splitlines()
    assert header.split()[:3] == ["op", "blueprint", "calls"]
    assert row.split()[0] == "add"
    assert row.split()[2] == "3"
    assert foot.startswith("3 launches")
    p.chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [e["name"] for e in events] == ["add"] * 3
    assert events[0]["args"]["bytes"] == 8 * 8 * 4 * 3
    assert 0 <= events[0]["args"]["of ceiling"] < 1


def test_an_event_names_the_ops_that_a_task_covers(device):
    with calor.device(device):
        x = calor.asarray(np.ones((4, 8), np.float32))
        calor.eval(x)
        with calor_kernel.profile(device) as p:
            calor.eval(calor.softmax(x * 2))
            calor.eval(x + 1)
    assert p.events[-1].covers == ("add",)
    assert p.events[-1].results == ("float32[4, 8]",)
    covered = [name for event in p.events for name in event.covers]
    assert {"mul", "softmax"} <= set(covered) or {"mul", "exp"} <= set(covered)


def test_nothing_is_recorded_afterwards(device):
    with calor_kernel.profile(device) as p:
        pass
    with calor.device(device):
        (calor.ones(3) + 1).numpy()
    assert p.events == []
    assert device.backend.engine(0).profiler is None
