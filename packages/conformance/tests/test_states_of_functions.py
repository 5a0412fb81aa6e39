"""Checks of how functions reach and change state pass on the reference, and find what is lost."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

from calor.transforms import binding, hidden, jit, vmap
from reference_failures import failures

REACHED, MAPPED = "state/reached-without-arguments", "transforms/mapped-states"
ALIASED = "state/aliased-tensors"


@pytest.mark.parametrize("name", [REACHED, MAPPED, ALIASED])
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 3) == []


def test_state_that_a_keyword_has_by_default_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    found: Callable[[Any], Any] = jit.hidden

    def forgetful(function: Any) -> Any:
        if isinstance(function, types.FunctionType) and function.__kwdefaults__:
            return [], []
        return found(function)

    monkeypatch.setattr(jit, "hidden", forgetful)
    assert failures(REACHED, 2)


def test_state_in_containers_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden, "_parts", lambda value: None)
    assert failures(REACHED, 2)


def test_state_of_attributes_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden._Search, "_attributes", lambda *args: None)
    assert failures(REACHED, 2)


def test_arguments_that_are_state_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding.Binding, "_touched", lambda self: frozenset())
    assert "not" in failures(ALIASED, 3)[0]


def test_tensors_that_a_function_has_beside_objects_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: Callable[[Any], Any] = jit.hidden
    monkeypatch.setattr(jit, "hidden", lambda function: (found(function)[0], []))
    assert "not" in failures(ALIASED, 6)[0]


def test_axes_of_changed_state_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vmap, "write", lambda tensor, value: None)
    assert "tensor is" in failures(MAPPED, 2)[0]
