"""Steps of models larger than a member are measured, and what they move is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import streaming


def test_a_step_larger_than_its_member_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    asked = ["gpt2", "--member", "numpy", "--beside", "", "--mode", "decoding"]
    streaming.main([*asked, "--size", "tiny", "--repeats", "1", "--json", str(path)])
    found = json.loads(path.read_text("utf-8"))
    assert found["failures"] == []
    (row,) = found["rows"]
    assert not row["disagrees"]
    assert row["limit"] < row["weights"]
    assert row["on_member"] == row["parts"] > 1
    # The weights do not fit together, so each comes at every step.
    assert row["moved"]["up"] > row["limit"]
    assert row["transfers"] > 1
    needed = sum(row["moved"][way] / found["rates"][way] for way in ("up", "down"))
    assert row["floor_s"] == pytest.approx(needed)
    assert row["ratio"] == pytest.approx(needed / row["seconds"])
