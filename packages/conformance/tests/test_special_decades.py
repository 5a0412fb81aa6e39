"""Checks of special functions by decades pass on the reference, and name what loses digits."""

from __future__ import annotations

import pytest

import calor
from calor_conformance.checks.special_decades import special_decades
from reference_failures import failures

NAMES = [c.name for c in special_decades()]


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 1) == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_digits_that_are_lost_are_found(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    upper = calor.special.gammaincc
    monkeypatch.setattr(calor.special, "gammaincc", lambda a, x: 1 - (1 - upper(a, x)))
    assert "gammaincc in" in failures(f"accuracy/decades-gammaincc/{dtype}", 1)[0]
