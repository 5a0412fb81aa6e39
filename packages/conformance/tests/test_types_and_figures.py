"""Checks of types of operators, of measured speeds and of servers' figures: they pass, and find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import calor
from calor_conformance.checks import figures_of_servers, measured_speeds, types_of_operators
from calor_http.server import blobs, refusals
from calor_onnx.operators import recurrent
from calor_onnx.registry import REGISTRY
from calor_router import figures, options, speeds
from reference_failures import failures

NAMES = [
    check.name
    for found in (
        types_of_operators.types_of_operators(),
        measured_speeds.measured_speeds(),
        figures_of_servers.figures_of_servers(),
    )
    for check in found
]


GROUPS = [f"models/operators-{group}" for group in ("recurrent", "attributed", "narrow")]


@pytest.mark.parametrize("name", [*NAMES, *GROUPS])
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 2) == []


def _planted(monkeypatch: pytest.MonkeyPatch, name: str, turned: Any) -> None:
    """Let an operator give something else than it does."""
    (known,) = REGISTRY.table["", name]

    def made(*given: Any, **options: Any) -> Any:
        return turned(known.function(*given, **options))

    monkeypatch.setitem(REGISTRY.table, ("", name), [replace(known, function=made)])


def test_results_of_another_precision_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounded(x: Any) -> Any:
        return calor.astype(calor.astype(x, calor.float32), x.dtype)

    _planted(monkeypatch, "Tanh", rounded)
    assert "Tanh" in failures("models/types-of-plain-operators", 2)[0]


def test_activations_that_are_not_clipped_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent.Layer, "limited", lambda self, x: x)
    assert "clip" in failures("models/operators-recurrent", 2)[0]


def test_casts_that_always_saturate_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def saturated(known: Any) -> Any:
        return lambda *given, **options: known.function(*given, **{**options, "saturate": 1})

    made = [replace(known, function=saturated(known)) for known in REGISTRY.table["", "Cast"]]
    monkeypatch.setitem(REGISTRY.table, ("", "Cast"), made)
    assert "saturate" in failures("models/operators-narrow", 2)[0]


def test_a_box_by_its_middle_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    (known,) = REGISTRY.table["", "NonMaxSuppression"]

    def corners(*given: Any, center_point_box: int = 0, **options: Any) -> Any:
        return known.function(*given, **options)

    monkeypatch.setitem(
        REGISTRY.table, ("", "NonMaxSuppression"), [replace(known, function=corners)]
    )
    assert "NonMaxSuppression" in failures("models/operators-attributed", 3)[0]


def test_times_of_the_first_run_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(once: Any) -> float:
        start = speeds.perf_counter()
        once()
        return float(speeds.perf_counter() - start)

    monkeypatch.setattr(speeds, "_least", first)
    assert failures("devices/measured-speeds", 1)


def test_trials_that_are_forgotten_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "kept", lambda name, measure: measure())
    assert "tried again" in failures("devices/tried-placements", 1)[0]


def test_files_of_another_name_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    path = figures._path
    monkeypatch.setattr(figures, "_path", lambda key: path(key[:2]))
    assert failures("devices/kept-figures", 1)


def test_a_limit_without_its_status_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = refusals.refusal

    def other(error: BaseException) -> Any:
        status, *rest = refusal(error)
        return 400 if status == 413 else status, *rest

    monkeypatch.setattr(refusals, "refusal", other)
    assert "413" in failures("devices/errors-on-the-way", 1)[0]


def test_contents_that_stay_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    forget = blobs.Blobs.forget

    def kept(self: Any, number: int) -> None:
        nbytes = self.nbytes
        forget(self, number)
        self.nbytes = nbytes

    monkeypatch.setattr(blobs.Blobs, "forget", kept)
    assert "held" in failures("devices/contents-around-borders", 1)[0]
