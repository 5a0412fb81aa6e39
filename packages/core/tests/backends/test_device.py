"""Devices: names, plans, companions, what is refused, and how the default is chosen."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calor
from calor import device_selection as selection
from calor.backends.device import Device, device_of, known_devices
from calor.backends.numpy_backend import NumpyBackend
from calor.backends.protocol import (
    FEATURES,
    FULL,
    NOT_YET,
    Info,
    State,
    impossible,
    partial,
)
from calor.compiling import plans
from calor.compiling.partitioned import PartitionedExecutable
from calor.compiling.plans import plan_for
from calor.config import config
from calor.dtypes import ALL, bfloat16, float16, float32
from calor.errors import DeviceError, TraceError, UnsupportedError
from calor.local import local
from calor.plugins import discovery
from calor.plugins.registry import Registry


@pytest.fixture
def slow() -> Iterator[Device]:
    """A device whose compiler takes minutes, so that it compiles programs alone."""
    made = device_of(Slow(), 0)
    yield made
    del known_devices[id(made.backend), 0]


class Slow(NumpyBackend):
    name = "slow"

    def info(self, index: int) -> Info:
        info = super().info(index)
        features = {**info.features, "interactive": impossible("a compile takes minutes")}
        return replace(info, features=features)


NAMES = ["numpy", "numpy:0", "strict:numpy", "strict:numpy:0", "null:0"]


@pytest.mark.parametrize("name", NAMES)
def test_a_device_is_one_object_under_all_its_names(name: str) -> None:
    device = discovery.get_device(name)
    assert discovery.get_device(device.name) is device
    assert pickle.loads(pickle.dumps(device)) is device
    assert copy.deepcopy(device) is device
    assert device == device.name
    assert device == device.backend.name
    assert device != "other"
    assert device != 3
    assert repr(device) == f"device('{device}')"
    assert {device: 1}[discovery.get_device(name)] == 1


def test_plans_are_made_once_for_one_structure() -> None:
    with calor.device("numpy") as device:
        x = calor.ones((3,))
        calor.eval(x)
        before = device.plans_made
        for number in (1.0, 2.0, 3.0):
            assert (x * number + 1).tolist() == [number + 1] * 3
        assert device.plans_made == before + 1


def test_the_oldest_plan_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "PLAN_LIMIT", 3)
    device = Device(NumpyBackend(), 0)
    graph = calor.trace(calor.exp, calor.ones(2))
    for key in "abcd":
        plan_for(device, key, lambda: graph)
    assert list(device.plans) == ["b", "c", "d"]
    assert device.plans_made == 4


def test_a_slow_compiler_runs_programs(slow: Device) -> None:
    x = calor.asarray([1.0, 2.0], device=slow)
    double = calor.jit(lambda x: x * 2)
    assert double(x).tolist() == [2.0, 4.0]


def test_a_slow_compiler_is_not_started_by_a_look(slow: Device) -> None:
    x = calor.asarray([1.0, 2.0], device=slow)
    y, z = x * 2, x + 1
    message = (
        r"^slow:0 does not compile pending operations when a value is read \(.* minutes\); put"
    )
    for t in (y, z, y + z):
        with pytest.raises(UnsupportedError, match=message):
            t.numpy()
    assert slow.plans_made == 0
    assert x.tolist() == [1.0, 2.0]


def test_a_companion_computes_what_is_looked_at(slow: Device) -> None:
    slow.companions = (calor.device("numpy"),)
    x = calor.asarray([1.0, 2.0], device=slow)
    y = x * 2 + 1
    assert y.tolist() == [3.0, 5.0]
    assert slow.fallbacks > 0
    assert (slow.transfers, slow.transferred_bytes) == (2, 16)
    (plan,) = slow.plans.values()
    assert isinstance(plan, PartitionedExecutable)
    assert "slow:0 is not interactive (a compile takes minutes)" in plan.explain()


def test_a_companion_that_is_slow_too_does_not_help(slow: Device) -> None:
    slow.companions = (slow,)
    with pytest.raises(UnsupportedError, match="when a value is read"):
        (calor.asarray([1.0], device=slow) * 2).numpy()


def test_a_device_without_number_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"backend 'numpy' has 1 device: python -m calor dev"):
        device_of(NumpyBackend(), 1)


class Empty(NumpyBackend):
    name = "empty"

    def enumerate(self) -> int:
        return 0


def test_a_machine_without_the_device_says_so() -> None:
    with pytest.raises(DeviceError, match=r'no device "empty:0"; backend .* finds none'):
        device_of(Empty(), 0)


# How the default device is chosen.


@pytest.fixture
def no_default(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(local, "devices", [])
    monkeypatch.setattr(config, "device", None)
    selection.reset_default()
    yield
    selection.reset_default()


@pytest.mark.usefixtures("no_default")
def test_without_a_choice_the_reference_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "find_spec", lambda name: None)
    message = r'NumPy reference .*; pip install "calor\[cpu\]", or set CALOR_DEVICE=numpy to choose'
    with pytest.warns(UserWarning, match=message):
        assert selection.current_device().name == "numpy:0"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert selection.current_device().name == "numpy:0"


@pytest.mark.usefixtures("no_default")
def test_printing_a_tensor_of_a_named_device_chooses_no_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Warnings are errors here, and the reference does not compute what is printed."""
    monkeypatch.setattr(selection, "find_spec", lambda name: None)
    with calor.device("null"):
        x = calor.ones(2)
    assert repr(x) == "tensor([0., 0.], device='null:0')"
    assert selection._default is None
    assert repr(calor.ones(2, device="numpy")) == "tensor([1., 1.])"


@pytest.mark.usefixtures("no_default")
def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "device", "null")
    assert selection.current_device().name == "null:0"


@pytest.mark.usefixtures("no_default")
def test_the_cpu_is_preferred_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithCpu(Registry):
        def installed(self) -> tuple[str, ...]:
            return ("numpy", "cpu")

        def device(self, text: str) -> Device:
            return super().device("null" if text == "cpu" else text)

    monkeypatch.setattr("calor.plugins.discovery.registry", WithCpu(list))
    monkeypatch.setattr(selection, "find_spec", lambda name: name == "calor_cpu" or None)
    assert selection.current_device().name == "null:0"


@pytest.mark.usefixtures("no_default")
def test_a_device_is_a_value_and_a_context() -> None:
    device = calor.device("null")
    assert device is calor.device(device)
    assert calor.ones(2, device=device).to(calor.device("numpy")).device == "numpy"
    with device as entered, device, calor.device("numpy"):
        assert entered is device
        assert calor.ones(2).device == "numpy"
    with device:
        assert calor.ones(2).device is device


def test_the_innermost_device_counts() -> None:
    with calor.device("null") as outer:
        with calor.device("strict:numpy") as inner:
            assert selection.current_device() is inner
            assert calor.zeros(1).device is inner
            assert calor.zeros(1, device="numpy").device == "numpy"
        assert selection.current_device() is outer


def test_one_trace_is_for_one_device() -> None:
    @calor.jit
    def moved(x: Any) -> Any:
        with calor.device("null"):
            return x + 1

    with pytest.raises(TraceError, match="one trace is for one device"):
        moved(calor.asarray([1.0], device="numpy"))


# What a device says of itself.

INFO = Info(
    "a device for tests",
    dtypes={float32: FULL, float16: partial("rounds twice"), bfloat16: NOT_YET},
    ops={"exp": NOT_YET, ("add", float16): impossible("no adder")},
    features={"in_place": FULL},
)
SUPPORTED = {
    ("mul", float32): FULL,
    ("mul", float16): partial("rounds twice"),
    ("mul", bfloat16): NOT_YET,
    ("mul", calor.float64): impossible("the device has no float64"),
    ("exp", float32): NOT_YET,
    ("exp", bfloat16): NOT_YET,
    ("add", float16): impossible("no adder"),
    ("add", float32): FULL,
}


@pytest.mark.parametrize("case", SUPPORTED, ids=lambda c: f"{c[0]}-{c[1].name}")
def test_states_of_ops_and_dtypes(case: Any) -> None:
    assert INFO.supports(*case) == SUPPORTED[case]


def test_features() -> None:
    assert INFO.feature("in_place") is FULL
    assert INFO.feature("fork") is NOT_YET
    assert set(FEATURES) >= {"fork", "interactive"}
    with pytest.raises(KeyError, match="'magic' is no feature; there are interactive, "):
        INFO.feature("magic")


def test_states_read_as_truth_and_text() -> None:
    assert [bool(s) for s in (FULL, partial("a"), NOT_YET, impossible("b"))] == [1, 1, 0, 0]
    assert [str(s) for s in (FULL, impossible("b"), State("not_yet"))] == [
        "full",
        "impossible (b)",
        "not_yet",
    ]


def test_objections_name_the_first_dtype_that_is_ruled_out() -> None:
    graph = calor.trace(
        lambda x: calor.exp(x.astype("float16") + 1).astype("float64"), calor.ones(2)
    )
    found = {graph.nodes[i].op.name: why for i, why in INFO.objections(graph).items()}
    assert found == {
        "add": "float16 is impossible (no adder)",
        "exp": "float16 is not_yet",
        "cast": "float64 is impossible (the device has no float64)",
    }


def test_every_dtype_is_full_unless_said_otherwise() -> None:
    assert all(Info("any").supports("add", t) is FULL for t in ALL)


# The null device.


def test_null_computes_nothing() -> None:
    with calor.device("null") as device:
        x = calor.asarray(np.arange(6.0).reshape(2, 3))
        step = calor.jit(lambda a, rate: (a @ a.T * rate, a.sum()))
        product, total = step(x, 0.5)
        assert product.tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert (total.item(), total.dtype) == (0.0, calor.float64)
        assert (x.softmax(axis=1) + 1).shape == (2, 3)
        assert device.memory.in_use == 0
        assert x.to("numpy").tolist() == [[0.0] * 3] * 2


def test_null_takes_composites_whole() -> None:
    graph = calor.trace(lambda x: x.softmax(axis=0), calor.ones(3))
    null = calor.device("null")
    claim = null.backend.claim(0, graph)
    assert claim.parts == (tuple(range(len(graph.nodes))),)
    assert not claim.reasons


def test_a_plan_that_another_thread_dropped_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Emptied(OrderedDict[Any, Any]):
        def popitem(self, last: bool = True) -> Any:
            raise KeyError

    device = calor.device("numpy")
    monkeypatch.setattr(plans, "PLAN_LIMIT", 0)
    monkeypatch.setattr(device, "plans", Emptied())
    assert (calor.ones(7, device=device) + 3).tolist() == [4.0] * 7
    assert len(device.plans) > 0
