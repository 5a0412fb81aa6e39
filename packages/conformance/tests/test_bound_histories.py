"""Histories of bound calls: the reference is right, and guards that are missing are found."""

from __future__ import annotations

import pytest

import calor
from calor.transforms import fast_path
from calor_conformance import outcomes
from calor_conformance.checks.base import Place
from calor_conformance.checks.bound_histories import bound_histories


def failures() -> list[str]:
    device = calor.device("numpy")
    found = [outcomes.run(check, Place(device, device)) for check in bound_histories()]
    return [r.detail for r in found if r.outcome == "failed"]


def test_the_reference_passes() -> None:
    assert failures() == []


@pytest.mark.parametrize(
    "guard",
    [
        "local.autocast is not autocast",
        "local.floating is not floating",
        "not config.jit",
        "local.jit or",
    ],
)
def test_a_guard_that_is_missing_is_found(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = fast_path._BEGIN
    assert guard in text
    monkeypatch.setattr(fast_path, "_BEGIN", text.replace(guard, "False"))
    assert failures()
