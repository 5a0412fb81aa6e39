"""Drawn parametrizations: the reference is right, and what is planted in the package is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import calor
from calor_conformance import outcomes
from calor_conformance.checks.base import Place
from calor_conformance.checks.drawn_parametrizations import drawn_parametrizations
from calor_nn import parametrize


def failures() -> list[str]:
    device = calor.device("numpy")
    found = [outcomes.run(check, Place(device, device)) for check in drawn_parametrizations()]
    return [r.detail for r in found if r.outcome == "failed"]


def test_the_reference_passes() -> None:
    assert failures() == []


PLANTED: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "no first iterations": (
        parametrize.SpectralNorm, "_iterate",
        lambda real: lambda self, matrix, count: real(self, matrix, count if count < 15 else 0)),
    "one length for all": (
        parametrize.WeightNorm, "_norm", lambda _: lambda self, x: calor.sqrt(calor.sum(x * x))),
    "an assignment by no inverse": (
        parametrize.ParametrizationList, "assign",
        lambda real: lambda self, value: real(self, value * 1.01)),
    "blank objects": (
        parametrize, "_blank",
        lambda _: lambda base, names: object.__new__(parametrize._parametrized(base, names))),
}  # fmt: skip


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, change = PLANTED[what]
    monkeypatch.setattr(owner, attribute, change(getattr(owner, attribute)))
    assert failures()
