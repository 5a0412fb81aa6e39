"""Checks of systems that are solved by factors pass, and find options that are left out."""

from __future__ import annotations

from typing import Any

import pytest

from calor_conformance.checks import factored_systems
from calor_linalg import indefinite
from reference_failures import failures

NAMES = [check.name for check in factored_systems.factored_systems()]


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 4) == []


def test_hermitian_matrices_that_are_taken_for_symmetric_ones_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = indefinite._step

    def symmetric(k: Any, state: Any, row: Any, places: Any, hermitian: bool) -> Any:
        return step(k, state, row, places, False)

    monkeypatch.setattr(indefinite, "_step", symmetric)
    assert "hermitian True" in failures("functions/calor_linalg.systems-indefinite", 2)[0]
