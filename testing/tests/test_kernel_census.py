"""The census of kernels: cases are planned for devices that are not there."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

import kernel_census
from calor.dtypes import float32, int64
from calor_kernel.language import Buffer, Scalar, absolute_position, kernel
from census_devices import DEVICES, form_of

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
    return kernel_census.take("cpu", ["rows"], ["softmax 128x768", "argmax axis 0 128x768"])


@pytest.mark.parametrize("name", sorted(set(DEVICES) - {"opencl", "wgpu"}))
def test_a_device_prints_without_its_driver(name: str) -> None:
    made = kernel_census.take(name, ["rows"], ["sum axis -1 1024x768"])
    ((case, tasks),) = made["cases"].items()
    assert case == "rows: sum axis -1 1024x768"
    assert [task["op"] for task in tasks] == ["sum"]
    (launch,) = tasks[0]["launches"]
    assert launch["arguments"][:2] == ["input0", "output0"]
    assert launch["kernel"] in made["kernels"]


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
