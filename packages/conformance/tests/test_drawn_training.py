"""Drawn runs of what trains: the reference is right, and what is planted is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import calor
from calor_conformance import outcomes
from calor_conformance.checks.averaged_weights import averaged_weights
from calor_conformance.checks.base import Place
from calor_conformance.checks.drawn_searches import drawn_searches
from calor_train import averaged_model, averaging, plateau
from calor_train.optimizers import lbfgs, line_search, muon

CHECKS = {c.subject.rpartition("drawn-")[2]: c for c in (*drawn_searches(), *averaged_weights())}


def failed(name: str) -> bool:
    device = calor.device("numpy")
    return outcomes.run(CHECKS[name], Place(device, device)).outcome == "failed"


@pytest.mark.parametrize("name", CHECKS)
def test_the_reference_passes(name: str) -> None:
    assert not failed(name)


def _forgets(method: Callable[..., Any]) -> Callable[..., Any]:
    def direction(self: Any, grad: Any) -> Any:
        made = method(self, grad)
        for name in ("old_dirs", "old_stps", "ro"):
            self.history[name] = self.history[name][-1:]
        return made

    return direction


PLANTED: dict[str, tuple[str, Any, str, Callable[[Any], Any]]] = {
    "a history of one step": ("LBFGS", lbfgs._Run, "direction", _forgets),
    "the middle of each interval": (
        "LBFGS-with-a-line-search", line_search, "_cubic",
        lambda _: lambda first, second, bounds: sum(bounds) / 2),
    "no rate by the shape": ("Muon", muon.MuonGroup, "_ratio", lambda _: lambda *_: 1.0),
    "averages that stay": (
        "ExponentialMovingAverage", averaging.ExponentialMovingAverage, "update",
        lambda _: lambda self: None),
    "the last weights for their mean": (
        "AveragedModel", averaged_model.AveragedModel, "_mean",
        lambda _: lambda self, held, now: now.astype(held.dtype)),
    "statistics that begin anew": (
        "update_bn", averaged_model, "assign", lambda _: lambda held, value: None),
    "no threshold": (
        "ReduceLROnPlateau", plateau.ReduceLROnPlateau, "improves",
        lambda _: lambda self, value: self.best is None or (
            value > self.best if self.mode == "max" else value < self.best)),
}  # fmt: skip


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, change = PLANTED[what]
    monkeypatch.setattr(owner, attribute, change(getattr(owner, attribute)))
    assert failed(name)
