"""Names from ``torch.nn`` that are missing say what to write instead, and that is there."""

from __future__ import annotations

import re

import pytest

import calor
from calor import nn
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


def test_other_names_are_missing_without_a_hint() -> None:
    with pytest.raises(AttributeError, match="module 'calor_nn' has no attribute 'Nothing'$"):
        nn.Nothing  # type: ignore[attr-defined]
