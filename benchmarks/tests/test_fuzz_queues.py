"""Calls in the queue of an OpenCL or Vulkan device, timed by the device's clock."""

from typing import Any

import numpy as np
import pytest

import calor
from calor_kernel.contract.cost import Ceilings
from fuzzing import launch_floor, queues, report
from fuzzing.cases import sample_of
from fuzzing.families import work_of
from fuzzing.graphs import NotCaptured, engine_of
from fuzzing.measuring import measure
from fuzzing.sides import Calor

ABSENT = {
    "opencl": "there is no OpenCL device; apt-get install pocl-opencl-icd makes the processor one",
    "wgpu": "there is no wgpu device; apt-get install mesa-vulkan-drivers makes the processor one",
}
LINE = "elementwise f32 gradient shape=3x40 form=multiply broadcast=row"


@pytest.fixture(params=ABSENT)
def device(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a device with a queue, whose peak rates are not measured, which takes long."""
    name = str(request.param)
    if f"{name}:0" not in map(str, calor.devices()):
        pytest.skip(ABSENT[name])
    monkeypatch.setitem(vars(engine_of(name)), "ceilings", Ceilings(1e9, 1e9))
    return name


def side_of(device: str, line: str) -> Calor:
    drawn = sample_of(line)
    return Calor(device, drawn, work_of(drawn), groups=2)


def test_a_queue_has_the_launches_of_all_calls(device: str) -> None:
    side = side_of(device, LINE)
    calls = side.calls()
    *_, last = calls
    wanted = [one.numpy() for one in last()]
    runner = queues.calor_queue(device, calls, copies=4)
    assert runner.units == 4
    assert not runner.on_host
    half = len(runner.lists) // 2
    # The sets of operands take turns, and a call of a set writes where the last one wrote.
    assert runner.lists[:half] == runner.lists[half:]
    assert runner.lists[: half // 2] != runner.lists[half // 2 : half]
    # What the timed launches write is what the last call returned.
    before = [one.numpy() for one in runner.kept]
    assert 0 < runner.seconds(2) < 10
    for mine, again, yours in zip(before, runner.kept, wanted, strict=True):
        np.testing.assert_array_equal(mine, yours)
        np.testing.assert_array_equal(again.numpy(), yours)
    runner.close()


def test_all_calls_write_to_the_same_memory(device: str) -> None:
    side = side_of(device, LINE)
    runner = queues.calor_queue(device, side.calls(), copies=2)
    first, second = (set(map(id, handles)) for _, handles in runner.lists[:: len(runner.lists) - 1])
    # Each set has its operands and cotangent; the rest are results and memory of the plan.
    apart = len(side.sets[0])
    assert len(first - second) == len(second - first) == apart
    assert first & second


@pytest.mark.parametrize("line", [
    "dropout f32 forward shape=3x40 p=0.5",
    "embedding f32 gradient ids=2x3 words=7 width=16 form=positions",
    "update f32 forward form=adam network=perceptron width=8 layers=2",
])  # fmt: skip
def test_calls_with_states_and_indices_are_collected(device: str, line: str) -> None:
    runner = side_of(device, line).runner(1e-3, captured=True)
    assert isinstance(runner, queues.QueueRunner)


def test_what_only_the_host_does_is_refused(device: str) -> None:
    with calor.device(device):
        x = calor.asarray(np.ones(3, np.float32))
        calor.eval(x)

        def written() -> Any:
            made = calor.asarray(np.ones(3, np.float32)) + x
            calor.eval(made)
            return made

        with pytest.raises(NotCaptured):
            queues.calor_queue(device, [written], copies=1)
        assert written().tolist() == [2.0, 2.0, 2.0]


def test_without_a_clock_both_sides_are_timed_on_the_host(device: str) -> None:
    drawn = sample_of("activation f32 forward shape=3x40 name=relu form=plain")
    measured = measure(drawn, device, "calor-interpreter")
    assert not measured.problem
    assert measured.note == "not captured: the launches of interpreter have no clock here"


def test_launches_are_counted_and_the_least_is_timed(device: str) -> None:
    drawn = sample_of("row_norm f32 gradient kind=layer rows=2x3 width=40 affine=1")
    measured = measure(drawn, device, f"calor-{device}")
    launches = measured.launches
    assert launches is not None
    side = side_of(device, str(drawn))
    (one, *_) = queues.calor_queue(device, side.calls()[:1], copies=1).lists
    assert launches.ours == launches.peer == len(getattr(one[0], "steps", ()))
    assert launches.ours_s == launches.peer_s == launch_floor.least_launch(device) > 0


def test_a_row_tells_what_remains_without_launches() -> None:
    launches = {"ours": 2, "peer": 1, "ours_s": 3e-6, "peer_s": 1e-6}
    row = {"family": "linear", "ratio": 0.4, "ours_s": 10e-6, "peer_s": 4e-6, "launches": launches}
    (found,) = report.counted([row, {**row, "launches": None}, {"family": "linear"}])
    assert found["ratio"] == pytest.approx(3 / 4)
    (found,) = report.bounds([row, {**row, "launches": None}, {"family": "linear"}])
    assert found["ratio"] == pytest.approx(4 / 6)
    # Less than a tenth of a launch is no time.
    (found,) = report.counted([{**row, "ours_s": 6e-6, "peer_s": 1e-6}])
    assert found["ratio"] == 1.0
