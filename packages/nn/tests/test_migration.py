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
