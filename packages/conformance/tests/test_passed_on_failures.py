"""Checks of failed results that are passed on: ways that lose the error are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calor.reference import indexing
from calor_conformance.checks.passed_on_failures import passed_on_failures
from reference_failures import failures

NAMES = [check.name for check in passed_on_failures()]


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 2) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_nearest_place_is_no_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nearest(indices: Any, size: int, axis: int) -> Any:
        return np.clip(indices, 0, size - 1)

    monkeypatch.setattr(indexing, "_checked", nearest)
    assert any("no error was raised" in told for told in failures(name))
