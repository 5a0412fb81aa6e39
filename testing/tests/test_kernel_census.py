"""The census of kernels: cases are planned for devices that are not there."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import calor
import kernel_census
from calor.dtypes import float32, int64
from calor_kernel.language import Buffer, Scalar, absolute_position, kernel
from census_devices import DEVICES, form_of

ROOT = Path(__file__).parents[2]
SIGNATURE = (Buffer(float32), Buffer(float32, writable=False), Scalar(int64))


@kernel
def twice(y: Any, x: Any, n: Any) -> None:
    i = absolute_position()
    if i < n:
        y[i] = x[i] * 2.0


@kernel
def doubled(out: Any, given: Any, count: Any) -> None:
    place = absolute_position()
    if place < count:
        out[place] = given[place] * 2.0


@kernel
def thrice(y: Any, x: Any, n: Any) -> None:
    i = absolute_position()
    if i < n:
        y[i] = x[i] * 3.0


@pytest.fixture(scope="module")
def taken() -> Any:
    """Take two cases in a process that has opened the device itself, and keeps it."""
    opened = calor.ones(2, device="cpu").device
    found = kernel_census.take("cpu", ["rows"], ["softmax 128x768", "argmax axis 0 128x768"])
    assert calor.ones(2, device="cpu").device is opened
    return found


def test_devices_print_without_their_drivers(tmp_path: Path) -> None:
    """In a process of its own, since suites set the environment that devices are opened in."""
    devices = sorted(set(DEVICES) - {"opencl", "wgpu"})
    case, census = "rows: sum axis -1 1024x768", tmp_path / "census.json"
    command = [sys.executable, str(ROOT / "testing/kernel_census.py"), "--suite", "rows"]
    command += ["--device", ",".join(devices), "--only", case, "--json", str(census)]
    subprocess.run(command, check=True)
    made = json.loads(census.read_text("utf-8"))
    assert sorted(made) == devices
    for found in made.values():
        assert [task.get("op", task) for task in found["cases"][case]] == ["sum"]
        (launch,) = found["cases"][case][0]["launches"]
        assert launch["arguments"][:2] == ["input0", "output0"]
        assert launch["kernel"] in found["kernels"]


def test_a_case_does_not_depend_on_those_before_it(taken: Any) -> None:
    alone = kernel_census.take("cpu", ["rows"], ["argmax axis 0 128x768"])
    name = "rows: argmax axis 0 128x768"
    assert alone["cases"] == {name: taken["cases"][name]}
    assert kernel_census.differences(taken, taken) == []


def test_what_differs_is_told_by_case(taken: Any) -> None:
    other = json.loads(json.dumps(taken))
    (task,) = other["cases"]["rows: softmax 128x768"]
    task["launches"][0]["cubes"][0] += 1
    del other["cases"]["rows: argmax axis 0 128x768"]
    gone, cubes = kernel_census.differences(taken, other)
    assert gone == "rows: argmax axis 0 128x768: gone"
    assert cubes.startswith("rows: softmax 128x768: [0].launches[0].cubes[0] ")


def test_a_renamed_kernel_is_told_where_that_is_asked(taken: Any) -> None:
    other = json.loads(json.dumps(taken).replace('"kernel": "', '"kernel": "0'))
    other["kernels"] = {f"0{k}": {**v, "name": "new"} for k, v in taken["kernels"].items()}
    assert kernel_census.differences(taken, other) == []
    assert all("is renamed" in line for line in kernel_census.differences(taken, other, True))
    assert kernel_census.differences(taken, other, True)
    for kernel_ in other["kernels"].values():
        kernel_["form"] = "other"
    assert "has another text" in kernel_census.differences(taken, other)[0]


def test_the_form_of_a_kernel_is_without_names() -> None:
    first, second, third = (form_of(k.build(SIGNATURE)) for k in (twice, doubled, thrice))
    assert first == second != third


def test_ways_that_are_offered_and_never_win_are_counted() -> None:
    tasks = [{"op": "dot", "way": "tiles", "offered": ["tiles", "rows"]}]
    assert kernel_census.winners({"cases": {"one": tasks, "two": tasks}}) == {
        ("dot", "tiles"): 2,
        ("dot", "rows"): 0,
    }


def test_an_argument_says_which_buffer_it_is() -> None:
    Input = type("Input", (SimpleNamespace,), {})
    assert kernel_census.argument(Input(number=1, offset=4)) == "input1+4"
    assert kernel_census.argument(3) == 3


@pytest.mark.parametrize("device", ["avx2", "cpu"])
def test_rows_of_all_lanes_keep_values_on_a_stack(device: str) -> None:
    """The wider a vector, the more rows keep their values at once."""
    made = kernel_census.take(device, ["operations"], ["softmaxes of few"])["cases"]
    assert len(made) == 2
    assert not [tasks for tasks in made.values() if "error" in tasks[0]]
