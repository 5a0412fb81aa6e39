"""The check of two writers of a file passes on the reference, and finds what harms the living."""

from __future__ import annotations

from pathlib import Path

import pytest

from calor import safetensors_file
from reference_failures import failures

NAME = "transfers/written-at-once"


def test_the_reference_passes() -> None:
    assert failures(NAME, 3) == []


def test_a_file_that_is_taken_from_its_writer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors_file, "_lock", lambda file: True)
    assert "another one writes is gone" in failures(NAME, 1)[0]


def test_what_the_dead_leave_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fcntl")
    monkeypatch.setattr(safetensors_file, "_remove_dead", lambda target: None)
    assert "dead writer left" in failures(NAME, 1)[0]


def test_a_file_that_is_written_in_its_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def beside(path: Path, name: str) -> Path:
        return path

    monkeypatch.setattr(safetensors_file.Path, "with_name", beside)
    assert failures(NAME, 1)
