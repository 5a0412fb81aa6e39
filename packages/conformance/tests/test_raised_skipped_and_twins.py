"""Checks of functions that raise once, of skipped steps, and of several objects of a class.

Each passes on the reference, and fails where an object keeps something of a call that failed, where
a scaler restores not all that a step changed, and where a file holds or gives back another's state.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import pytest

from calor.transforms.custom import CustomVjp
from calor.transforms.jit import Jitted
from calor_conformance.checks import several_of_a_class, skipped_steps
from calor_conformance.checks.raised_once import raised_once
from calor_train import scaling
from calor_train.callbacks import Checkpoint, EarlyStopping
from calor_train.data.loader import DataLoader
from reference_failures import failures

RAISED = [c.name for c in raised_once()]
SKIPPED = [c.name for c in skipped_steps.skipped_steps()]
LEARNERS, DICTIONARIES = (c.name for c in several_of_a_class.several_of_a_class())
LEAVES = scaling.named_leaves


@pytest.mark.parametrize("name", [*RAISED, *SKIPPED, LEARNERS, DICTIONARIES])
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 2) == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [(Jitted, "jit"), (Jitted, "scan"), (CustomVjp, "custom_vjp"), (CustomVjp, "callback")],
)
def test_objects_that_remember_an_error_are_found(
    kind: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, call = WeakSet[Any](), kind.__call__

    def remembers(self: Any, *args: Any) -> Any:
        if self in failed:
            return args[0] * 0
        try:
            return call(self, *args)
        except BaseException:
            failed.add(self)
            raise

    monkeypatch.setattr(kind, "__call__", remembers)
    assert "raised in its" in failures(f"state/raised-once-{name}", 4)[0]


@pytest.mark.parametrize("name", SKIPPED)
def test_what_a_scaler_does_not_restore_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "named_leaves", lambda made: list(LEAVES(made))[:-1])
    assert "skipped" in failures(name, 4)[0]


def test_checkpoints_before_others_have_looked_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    compare = Checkpoint._compare

    def on_epoch_end(self: Any, learner: Any) -> None:
        compare(self, learner)
        if self._improved:
            learner.save(self.best)
        self._save_last(learner)

    monkeypatch.setattr(Checkpoint, "on_epoch_end", on_epoch_end)
    assert "the best of 1" in failures(LEARNERS, 8)[0]


def test_states_of_another_callback_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    first: list[Any] = []

    def load_state_dict(self: Any, state_dict: Any) -> None:
        first.append(state_dict)
        self.monitor.best, self.waited = first[0]["best"], first[0]["waited"]

    monkeypatch.setattr(EarlyStopping, "load_state_dict", load_state_dict)
    assert "stopper 1" in failures(LEARNERS, 8)[0]


def test_loaders_that_keep_their_own_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    load = DataLoader.load_state_dict
    monkeypatch.setattr(
        DataLoader, "load_state_dict", lambda self, state: load(self, {**state, "seed": self.seed})
    )
    assert "DataLoader" in failures(DICTIONARIES, 4)[0]
