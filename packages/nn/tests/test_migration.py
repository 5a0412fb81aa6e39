"""Names from ``torch.nn`` that are missing say what to write instead, and that is there."""

from __future__ import annotations

import pickle
import re
import sys
from typing import Any

import pytest

import calor
from calor import nn
from calor.migration import NEURAL
from calor.nn import functional
from calor_nn.migration import FUNCTIONS, INITIAL, LAYERS

ROWS = [(nn, name, hint) for name, hint in LAYERS.items()]
ROWS += [(functional, name, hint) for name, hint in FUNCTIONS.items()]
ROWS += [(nn.init, name, hint) for name, hint in INITIAL.items()]


@pytest.mark.parametrize(("module", "name", "hint"), ROWS, ids=[r[1] for r in ROWS])
def test_hint(module: object, name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; write {re.escape(hint)}"):
        getattr(module, name)
    places = {"nn": nn, "nn.init": nn.init, "functional": functional, "calor": calor}
    for where, found in re.findall(r"\b(nn\.init|nn|functional|calor)\.(\w+)", hint):
        assert hasattr(places[where], found)


def test_calor_says_where_the_functions_are() -> None:
    assert set(functional.__all__) - set(calor.__all__) == NEURAL
    assert all(hasattr(functional, name) for name in functional.__all__)


MODULES = [
    kind
    for kind in map(vars(nn).get, nn.__all__)
    if isinstance(kind, type) and issubclass(kind, nn.Module) and kind is not nn.Identity
]


@pytest.mark.parametrize("kind", MODULES, ids=lambda kind: kind.__name__)
def test_a_module_refuses_an_argument_that_it_does_not_know(kind: type) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'banana'"):
        kind(banana=1)


def test_modules_and_functions_that_are_done_in_place_elsewhere_say_what_to_write() -> None:
    x = calor.ones((2, 2))
    makes = [nn.ReLU, nn.ReLU6, nn.SiLU, nn.Hardswish, nn.Hardtanh, nn.LeakyReLU, nn.Dropout]
    calls = [functional.relu, functional.elu, functional.silu, functional.hard_swish]
    for make in makes:
        with pytest.raises(TypeError, match=f"^{make.__name__}.* 'inplace'; .* so leave it out"):
            make(inplace=True)
    for call in (*calls, functional.leaky_relu, functional.dropout, functional.selu):
        with pytest.raises(TypeError, match=f"^{call.__name__}.* 'inplace'; .* so leave it out"):
            call(x, inplace=True)


def test_a_class_without_init_takes_no_arguments() -> None:
    class Mine(nn.Module):
        pass

    with pytest.raises(TypeError, match=r"^Mine\(\) takes no arguments$"):
        Mine(3)
    assert isinstance(Mine(), Mine)
    assert nn.Identity(54, unused=0.1)(3) == 3


def test_wrong_keywords_say_the_right_one() -> None:
    x = calor.ones((2, 2))
    for call in (functional.glu, functional.normalize, functional.softmax):
        with pytest.raises(TypeError, match="'dim'; in calor it is axis=$"):
            call(x, dim=0)
    assert pickle.loads(pickle.dumps(functional.glu)) is functional.glu


def test_modules_have_one_copy_under_both_names() -> None:
    import calor.nn.functional.conv
    import calor.nn.module

    assert calor.nn.functional is functional
    assert sys.modules["calor.nn.functional.conv"] is sys.modules["calor_nn.functional.conv"]
    assert sys.modules["calor.nn.module"].Module is nn.Module


def test_other_names_are_missing_without_a_hint() -> None:
    with pytest.raises(AttributeError, match="module 'calor_nn' has no attribute 'Nothing'$"):
        nn.Nothing  # type: ignore[attr-defined]


def test_too_many_arguments_are_told_in_a_trace_too() -> None:
    x = calor.ones((1, 2, 4, 8))

    def wrong(a: Any) -> Any:
        return nn.functional.scaled_dot_product_attention(a, x, x, x)  # type: ignore[misc]

    for call in (wrong, calor.jit(wrong), calor.vmap(wrong)):
        with pytest.raises(TypeError, match="takes 3 positional arguments but 4 were given"):
            call(x)
