"""Numbers of objects that a jitted function reaches by itself are read at each call."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import calor
from calor.transforms.state import Stateful

from .objects import Momentum, parameter

SCALES: list[Any] = []


class Scale(Stateful):
    dynamic: ClassVar[tuple[str, ...]] = ("factor",)

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        return x * self.factor


class Holder:
    """No Stateful object, but it has one."""

    def __init__(self) -> None:
        self.scale = Scale(2.0)
        self.parts = {"list": [Scale(3.0)]}

    @calor.jit
    def apply(self, x: Any) -> Any:
        return self.parts["list"][0](self.scale(x))


def by_list() -> tuple[Any, Any]:
    scales = [Scale(2.0)]
    return scales[0], lambda x: scales[0](x)


def by_default() -> tuple[Any, Any]:
    made = Scale(2.0)
    return made, lambda x, scale=made: scale(x)


def by_global() -> tuple[Any, Any]:
    SCALES[:] = [Scale(2.0)]
    return SCALES[0], lambda x: SCALES[0](x)


def by_body() -> tuple[Any, Any]:
    scales = (Scale(2.0),)
    return scales[0], lambda x: calor.fori_loop(0, 1, lambda i, c: scales[0](c), x)


def by_closure_of_an_object() -> tuple[Any, Any]:
    holder = Holder()
    return holder.scale, lambda x: holder.scale(x)


PLACES = [by_list, by_default, by_global, by_body, by_closure_of_an_object]


@pytest.mark.parametrize("place", PLACES, ids=lambda f: f.__name__)
def test_a_number_is_found_wherever_its_object_is(place: Any) -> None:
    scale, function = place()
    jitted = calor.jit(function)
    x = calor.asarray(1.0)
    assert jitted(x).item() == 2.0
    scale.factor = 5.0
    assert jitted(x).item() == 5.0
    scale.factor = np.float32(0.5)
    assert jitted(x).item() == 0.5
    assert type(scale.factor) is float
    assert jitted.trace_count == 1
    scale.factor = 3
    assert jitted(x).item() == 3.0


def test_methods_of_plain_objects() -> None:
    holder = Holder()
    x = calor.asarray(1.0)
    assert holder.apply(x).item() == 6.0
    holder.scale.factor, holder.parts["list"][0].factor = 5.0, 7.0
    assert holder.apply(x).item() == 35.0
    assert holder.apply.trace_count == 1


def test_an_optimizer_in_a_list() -> None:
    p = parameter(1.0)
    optimizers = [Momentum([p], rate=0.0)]

    @calor.jit
    def step() -> None:
        (p * 2).sum().backward()
        for optimizer in optimizers:
            optimizer.step()

    step()
    assert p.item() == 1.0
    optimizers[0].rate = 1.0
    step()
    assert p.item() == pytest.approx(1.0 - (0.9 * 2 + 2))


def test_objects_that_the_function_makes_are_its_own() -> None:
    def f(x: Any) -> Any:
        scale = Scale(2.0)
        scale.factor = scale.factor * 2
        return scale(x)

    jitted = calor.jit(f)
    assert jitted(calor.asarray(1.0)).item() == 4.0
    assert jitted(calor.asarray(2.0)).item() == 8.0
    assert jitted.trace_count == 1


def test_a_number_attribute_is_an_attribute() -> None:
    scale = Scale(2.0)
    assert vars(scale) == {"factor": 2.0}
    del scale.factor
    with pytest.raises(AttributeError, match="'Scale' object has no attribute 'factor'"):
        scale.factor
    assert not hasattr(scale, "factor")
    scale.factor = 3.0
    assert calor.tree.leaves(scale) == [3.0]
