"""Checks of where a router plans to run what pass, and find other plans than the cheapest."""

from __future__ import annotations

from typing import Any

import pytest

from calor_conformance.checks import planned_placements
from calor_router import effort, placement
from reference_failures import failures

NAMES = [check.name for check in planned_placements.planned_placements()]


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 4) == []


def test_placements_that_look_at_no_cut_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "_expanded", lambda problem, chosen, member: tuple(chosen))
    assert "and another" in failures("devices/planned-placements", 3)[0]


def test_moves_that_cost_nothing_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement.Problem, "moving", lambda *given: 0.0)
    assert " s, not " in failures("devices/planned-placements", 3)[0]


def test_loops_that_are_counted_once_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = effort.effort

    def once(graph: Any, node: Any) -> Any:
        made = counted(graph, node)
        turns = node.attributes.get("length", 1)
        return made if node.op.name != "scan" else tuple(n // turns for n in made)

    monkeypatch.setattr(effort, "effort", once)
    assert "scan does" in failures("devices/planned-efforts", 1)[0]
