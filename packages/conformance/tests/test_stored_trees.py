"""A writer of trees that loses tensors, types or ties is found."""

from __future__ import annotations

from typing import Any

import pytest

import calor
from calor import persistence
from calor.plugins.discovery import get_device
from calor_conformance.checks.base import Place
from calor_conformance.checks.stored_trees import stored_trees

(CHECK,) = stored_trees()


def ask() -> None:
    device = get_device("numpy")
    with calor.device("numpy"):
        CHECK.run(Place(device, device))


def overwriting(self: Any, value: Any, place: str) -> str:
    name = place[1:] or "value"
    self.tensors[name] = value
    return name


def untied(self: Any, value: Any, place: str) -> str:
    self.tensors[f"{len(self.tensors)}"] = value
    return f"{len(self.tensors) - 1}"


@pytest.mark.parametrize("name", [overwriting, untied])
def test_it_is_named(name: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ask()
    monkeypatch.setattr(persistence._Writer, "name", name)
    with pytest.raises(AssertionError, match="the tree"):
        ask()
