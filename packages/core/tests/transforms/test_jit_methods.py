"""jit: methods of objects, of their classes and of their copies."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import calor
from calor.transforms.state import Stateful


class Scale(Stateful):
    """A factor."""

    def __init__(self, factor: float) -> None:
        self.factor: Any = calor.asarray(factor)

    @calor.jit
    def __call__(self, x: Any) -> Any:
        return x * self.factor


class Shift(Scale):
    """A factor, and one more."""

    @calor.jit
    def __call__(self, x: Any) -> Any:
        return super().__call__(x) + 1


def test_a_jitted_method_calls_the_one_that_it_overrides() -> None:
    shift, x = Shift(2.0), calor.asarray(3.0)
    assert (shift(x).item(), shift(x).item(), Scale.__call__.__get__(shift)(x).item()) == (7, 7, 6)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda scale: pickle.loads(pickle.dumps(scale))]
)
def test_a_copy_has_methods_of_its_own(copied: Callable[[Any], Any]) -> None:
    scale, x = Scale(2.0), calor.asarray(3.0)
    assert scale(x).item() == 6.0
    made = copied(scale)
    made.factor = calor.asarray(7.0)
    assert (made(x).item(), scale(x).item()) == (21.0, 6.0)
