"""A learner that loses state, counts or events is found."""

from __future__ import annotations

from typing import Any

import pytest

import calor
from calor.plugins.discovery import get_device
from calor_conformance.checks.base import Place
from calor_conformance.checks.drawn_learning import drawn_learning
from calor_train import callbacks, checkpoints, learner, steps, watch

CHECKS = {c.subject.partition(".")[2]: c for c in drawn_learning()}
LOAD = checkpoints.load_checkpoint


def ask(name: str) -> None:
    device = get_device("numpy")
    with calor.device("numpy"):
        CHECKS[name].run(Place(device, device))


def without_numbers(run: Any, path: Any) -> None:
    state = calor.random.default_generator.state
    LOAD(run, path)
    calor.random.default_generator.set_state(state)


def without_a_row(run: Any, path: Any) -> None:
    LOAD(run, path)
    run.history = run.history[1:]


FAULTS: list[tuple[str, Any, str, Any, str]] = [
    ("runs", steps, "batch_length", lambda batch: 1, "weight of|bias of"),
    ("runs", learner.Learner, "_interrupted", lambda self, i: self._call("on_interrupt"), "events"),
    ("resumed-runs", learner, "load_checkpoint", without_numbers, "resumed by"),
    ("resumed-runs", learner, "load_checkpoint", without_a_row, "resumed by"),
    ("watched-runs", callbacks.Monitor, "improved", lambda self, row: True, "after"),
    ("watched-runs", watch.LossWatch, "look", lambda self: None, "not finite"),
]


@pytest.mark.parametrize(("check", "owner", "name", "fault", "said"), FAULTS)
def test_it_is_named(
    check: str, owner: Any, name: str, fault: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, fault)
    with pytest.raises(AssertionError, match=said):
        ask(check)
