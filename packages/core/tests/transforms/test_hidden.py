"""What a jitted function reaches without arguments: through containers and other objects."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import pytest

import calor
from calor.transforms.hidden import hidden
from calor.transforms.state import Stateful


class Switch(Stateful):
    """A factor, which a mode turns on."""

    def __init__(self) -> None:
        self.factor = calor.asarray(3.0)
        self.on = True

    def __call__(self, x: Any) -> Any:
        return x * self.factor if self.on else x


class Keeper:
    """An object without state of its own, as a trainer that a user writes."""

    def __init__(self, switch: Switch) -> None:
        self.kept = {"switch": [switch]}
        self.unused = Switch()

    @property
    def switch(self) -> Switch:
        return self.kept["switch"][0]

    def apply(self, x: Any) -> Any:
        return self.switch(x)

    def __call__(self, x: Any) -> Any:
        return self.apply(x)


def _ways(switch: Switch) -> dict[str, Callable[[Any], Any]]:
    listed, keyed, keeper = [[switch]], {"a": (switch,)}, Keeper(switch)
    spaced = types.SimpleNamespace(inner=types.SimpleNamespace(switch=switch))
    module = types.ModuleType("models")
    vars(module).update(switch=switch, calls=calor)
    return {
        "list": lambda x: listed[0][0](x),
        "dict": lambda x: keyed["a"][0](x),
        "attribute": lambda x: spaced.inner.switch(x),
        "module": lambda x: module.switch(x),
        "method": keeper.apply,
        "object": lambda x: keeper(x),
        "partial": functools.partial(lambda f, x: f(x), keeper.apply),
    }


@pytest.mark.parametrize("way", _ways(Switch()))
def test_a_mode_is_that_of_the_call(way: str) -> None:
    switch = Switch()
    function = _ways(switch)[way]
    assert hidden(function)[0] == [switch]
    f = calor.jit(function)
    x = calor.asarray(2.0)
    assert f(x).item() == 6.0
    switch.on = False
    assert f(x).item() == 2.0
    switch.on = True
    switch.factor = calor.asarray(5.0)
    assert (f(x).item(), f.trace_count) == (10.0, 2)


def test_what_the_code_does_not_name_makes_no_trace() -> None:
    keeper = Keeper(Switch())
    f = calor.jit(keeper.apply)
    f(calor.asarray(2.0))
    keeper.unused.on = False
    f(calor.asarray(2.0))
    assert f.trace_count == 1


def test_a_captured_tensor_is_no_other_object_s() -> None:
    weight = calor.asarray(3.0)
    first, second = Switch(), Switch()
    first.factor, second.factor = weight, calor.asarray(5.0)
    f = calor.jit(lambda switch, x: switch(x) + weight)
    assert f(first, calor.asarray(2.0)).item() == 9.0
    assert f(second, calor.asarray(2.0)).item() == 13.0


def test_containers_that_hold_themselves_end() -> None:
    switch = Switch()
    ring: list[Any] = [switch]
    ring.append(ring)
    assert hidden(lambda x: ring[0](x))[0] == [switch]
