"""Checks of orders of keys, and of what changes between passes.

Each passes on the reference, and fails where trees are paired by places, and where a change of a
jitted step is not remembered for a pass that runs again.
"""

from __future__ import annotations

from typing import Any

import pytest

from calor import tree
from calor.transforms import program
from calor_conformance.checks.changed_between_passes import changed_between_passes
from calor_conformance.checks.orders_of_keys import orders_of_keys
from reference_failures import failures

(KEYS,) = (c.name for c in orders_of_keys())
(PASSES,) = (c.name for c in changed_between_passes())


@pytest.mark.parametrize("name", [KEYS, PASSES])
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 2) == []


def test_trees_paired_by_places_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_places(given: Any, structure: Any, *, absent: bool = False) -> Any:
        found = tree.leaves(given)
        return found if len(found) == structure.count else None

    monkeypatch.setattr(tree, "aligned", by_places)
    assert "jvp" in failures(KEYS, 1)[0]


def test_jitted_steps_that_are_not_remembered_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "note", lambda handle: None)
    assert "step" in failures(PASSES, 1)[0]
