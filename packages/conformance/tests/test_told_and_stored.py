"""Checks of pictures, profiles, screens and other processes pass, and find what is planted."""

from __future__ import annotations

from typing import Any

import pytest

import calor
from calor import doctor, profiling, units
from calor_conformance.checks import shown_runs, told_work
from calor_drawing import labels, layers, picture
from calor_train import AnnealTo, ReduceLROnPlateau, pace, plots, screens
from reference_failures import failures

TOLD = tuple(f"features/told-{name}" for name in told_work._SUBJECTS)
SHOWN = tuple(f"functions/calor_train.{name}" for name in shown_runs._SUBJECTS)
MODULES = (*TOLD, *SHOWN, "graphs/drawn-pictures", "transfers/read-in-another-process")


@pytest.mark.parametrize("name", MODULES)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 2) == []


def test_a_port_in_another_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_port", lambda index, count: 1 - (index + 1) / (count + 1))
    assert failures("graphs/drawn-pictures", 2)


def test_a_family_in_the_colour_of_another_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = labels.family
    monkeypatch.setattr(labels, "family", lambda op: "source" if op.name == "tanh" else right(op))
    assert failures("graphs/drawn-pictures", 3)


def test_boxes_on_each_other_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = picture.place

    def place(boxes: Any, links: Any) -> Any:
        frame = right(boxes, links)
        for box in boxes[1:]:
            box.x = boxes[0].x
        return frame

    monkeypatch.setattr(picture, "place", place)
    assert failures("graphs/drawn-pictures", 2)


def test_rows_in_another_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = profiling.Profile.table

    def table(self: Any, rows: int = 40) -> str:
        head, *lines, last = right(self, rows).splitlines()
        return "\n".join([head, *lines[::-1], last])

    monkeypatch.setattr(profiling.Profile, "table", table)
    assert failures("features/told-sums")


def test_a_timeline_of_the_first_samples_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        profiling.Profile, "peak_bytes", property(lambda self: self.memory[0].in_use)
    )
    assert failures("features/told-sums")


def test_a_second_profile_that_is_taken_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = profiling.Profile.__exit__

    def leave(self: Any, kind: Any, error: Any, traceback: Any) -> None:
        if error is None:
            right(self, kind, error, traceback)

    monkeypatch.setattr(profiling.Profile, "__exit__", leave)
    with pytest.MonkeyPatch.context() as patch:
        device = calor.device("numpy")
        patch.setattr(device.backend, "_listeners", {})
        assert failures("features/told-raised")


def test_thousands_for_1024_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_work, "bytes_of", lambda size, name: units.bytes_of(size, name) // 2)
    assert failures("features/told-sizes")


def test_a_variable_without_its_meaning_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = doctor._variables
    monkeypatch.setattr(doctor, "_variables", lambda: [(n, v, "?") for n, v, _ in right()])
    assert failures("features/told-variables")


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "check"),
    [
        (pace.Pace, "resume", lambda self: None, "paces"),
        (pace.Pace, "left", lambda self, batches, evaluations: 1.0, "paces"),
        (pace, "duration", lambda seconds: f"{seconds:.1f} s", "texts"),
        (screens, "number_text", lambda value: f"{value:.4f}", "texts"),
        (screens.Status, "place", lambda self: f"epoch {self.epoch}", "status"),
        (plots, "_selection", lambda shares, true, count: list(range(count)), "chosen-predictions"),
        (AnnealTo, "value", lambda self, step, base: self.rate, "annealed-rates"),
        (ReduceLROnPlateau, "improves", lambda self, value: True, "plateaus-of-runs"),
    ],
)
def test_what_is_shown_otherwise_is_found(
    owner: Any, name: str, wrong: Any, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    assert failures(f"functions/calor_train.{check}", 2)


def test_percent_of_a_share_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = screens.texts
    monkeypatch.setattr(
        screens, "texts", lambda learner, row: dict.fromkeys(right(learner, row), "0.5")
    )
    assert failures("functions/calor_train.lines")


def test_the_best_of_the_other_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = plots._curves

    def curves(ax: Any, history: Any, name: str, label: str) -> None:
        turned = [{k: -v if k.startswith("valid") else v for k, v in r.items()} for r in history]
        right(ax, turned, name, label)

    monkeypatch.setattr(plots, "_curves", curves)
    assert failures("functions/calor_train.curves", 4)


def test_a_stream_that_is_stored_at_its_begin_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = calor.random.Generator
    monkeypatch.setattr(kind, "__reduce__", lambda self: (kind, (7,)), raising=False)
    assert failures("transfers/read-in-another-process")
