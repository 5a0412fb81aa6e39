"""Checks of how functions reach and change state pass on the reference, and find what is lost."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

from calor.transforms import jit, vmap
from reference_failures import failures

REACHED, MAPPED = "state/reached-without-arguments", "transforms/mapped-states"


@pytest.mark.parametrize("name", [REACHED, MAPPED])
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 3) == []


def test_state_that_a_keyword_has_by_default_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    found: Callable[[Any], list[Any]] = jit.hidden_state

    def forgetful(function: Any) -> list[Any]:
        if isinstance(function, types.FunctionType) and function.__kwdefaults__:
            return []
        return found(function)

    monkeypatch.setattr(jit, "hidden_state", forgetful)
    assert failures(REACHED, 2)


def test_axes_of_changed_state_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vmap, "write", lambda tensor, value: None)
    assert "tensor is" in failures(MAPPED, 2)[0]
