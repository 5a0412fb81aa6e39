"""Checks of drawn matrices pass on the reference, and fail where a definition is broken."""

from __future__ import annotations

import pytest

import calor
from calor_conformance.checks.drawn_matrices import drawn_matrices
from calor_linalg import factored, general
from calor_linalg import matrices as mx
from reference_failures import failures

NAMES = {c.subject.partition("drawn-")[2]: c.name for c in drawn_matrices()}


@pytest.mark.parametrize("name", NAMES.values())
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 2) == []


def test_phases_of_half_the_plane_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(general.e, "atan2", lambda y, x: calor.atan(y / x))
    assert "logdet: phase" in failures(NAMES["triangular-factors"], 2)[0]


def test_adjoints_without_conjugates_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factored.mx, "adjoint", mx.transposed)
    assert failures(NAMES["definite-matrices"], 2)
