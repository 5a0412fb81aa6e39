"""Steps on routers are timed beside their members, and said to be slow or wrong where they are."""

import json
from pathlib import Path
from typing import Any

import pytest

import routers
from programs import compared

STEP = ["graph_network", "--members", "numpy,cpu", "--size", "tiny", "--repeats", "1"]


def told(seconds: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each side take so long."""

    def timed(steps: dict[str, Any], repeats: int, *, computing: bool) -> dict[str, float]:
        return {name: seconds["router" if "router" in name else name] for name in steps}

    monkeypatch.setattr(compared, "timed", timed)


def test_a_step_runs_on_members_and_routers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told({"numpy": 4.0, "cpu": 1.0, "router": 1.05}, monkeypatch)
    file = tmp_path / "found.json"
    assert routers.main([*STEP, "--orders", "--json", str(file)]) == 0
    (row,) = json.loads(file.read_text("utf-8"))["rows"]
    assert set(row["ratios"]) == {"router:numpy,cpu", "router:cpu,numpy"}
    assert all(ratio == pytest.approx(1 / 1.05) for ratio in row["ratios"].values())
    assert row["seconds"]["router:cpu,numpy"] == 1.05
    assert not row["disagreements"]
    for parts in row["parts"].values():
        assert sum(parts["members"].values()) >= 1
        assert set(parts["members"]) <= {"numpy:0", "cpu:0"}


def test_a_router_that_loses_more_than_a_tenth_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    told({"numpy": 4.0, "cpu": 1.0, "router": 1.2}, monkeypatch)
    assert routers.main(STEP) == 1


def test_other_results_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told({"numpy": 1.0, "cpu": 1.0, "router": 1.0}, monkeypatch)
    results = compared.results

    def wrong(step: Any, setting: Any) -> list[Any]:
        made = results(step, setting)
        return [one + 1 for one in made] if "router" in str(step.device) else made

    monkeypatch.setattr(compared, "results", wrong)
    assert routers.main(STEP) == 1
    assert "DISAGREES: router:numpy,cpu is" in capsys.readouterr().out


def test_a_step_that_fails_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert routers.main([*STEP[:2], "numpy,nowhere", *STEP[3:]]) == 1
    assert 'DeviceError: no device "nowhere"' in capsys.readouterr().out
