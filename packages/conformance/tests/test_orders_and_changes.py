"""Checks of orders of keys, ends of integers, and changes between passes, calls and traces.

Each passes on the reference, and fails where trees are paired by places, where a change of a jitted
step is not remembered for a pass that runs again, where a program does not look at containers,
where a copy has the methods of another object, where a trace that ends keeps what it assigned, and
where indices of loops are floats or have 32 bits.
"""

from __future__ import annotations

from typing import Any

import pytest

from calor import tree
from calor.transforms import control, program
from calor.transforms.containers import Containers
from calor.transforms.jit import Jitted
from calor.transforms.state import JITTED_METHODS, Snapshot
from calor_conformance.checks.assigned_then_ended import assigned_then_ended
from calor_conformance.checks.changed_between_passes import changed_between_passes
from calor_conformance.checks.ends_of_integers import ends_of_integers
from calor_conformance.checks.methods_of_copies import methods_of_copies
from calor_conformance.checks.mutated_containers import mutated_containers
from calor_conformance.checks.orders_of_keys import orders_of_keys
from calor_conformance.checks.states_at_sizes import states_at_sizes
from reference_failures import failures

(KEYS,) = (c.name for c in orders_of_keys())
(PASSES,) = (c.name for c in changed_between_passes())
(CONTAINERS,) = (c.name for c in mutated_containers())
(COPIES,) = (c.name for c in methods_of_copies())
(ENDS,) = (c.name for c in assigned_then_ended())
(INTEGERS,) = (c.name for c in ends_of_integers())
(SIZES,) = (c.name for c in states_at_sizes())


@pytest.mark.parametrize("name", [KEYS, PASSES, CONTAINERS, COPIES, ENDS, INTEGERS, SIZES])
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


def test_containers_that_nobody_looks_at_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Containers, "same", lambda self: True)
    assert "after" in failures(CONTAINERS, 1)[0]


def test_methods_of_the_original_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    get = Jitted.__get__

    def first(self: Any, instance: Any, owner: Any = None) -> Any:
        known = {} if instance is None else vars(instance).get(JITTED_METHODS, {})
        return known[self] if self in known else get(self, instance, owner)

    monkeypatch.setattr(Jitted, "__get__", first)
    assert "attributes of" in failures(COPIES, 1)[0]


def test_assignments_of_traces_that_ended_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Snapshot, "take_back", Snapshot.put_back)
    assert "then" in failures(ENDS, 1)[0]


def test_traces_of_another_state_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program.Program, "fits_state", lambda self, objects: True)
    for name in (ENDS, SIZES):
        assert "does not fit" in failures(name, 1)[0]


@pytest.mark.parametrize("kind", ["int32", "float32"])
def test_indices_of_narrow_types_are_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = control.scan

    def narrow(body: Any, init: Any, xs: Any = None, **options: Any) -> Any:
        return scan(body, init, xs.astype(kind).astype("int64"), **options)

    monkeypatch.setattr(control, "scan", narrow)
    assert "fori_loop" in failures(INTEGERS, 1)[0]
