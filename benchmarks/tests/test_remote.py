"""The program that measures devices of another machine, and the server of its peers."""

import json
import sys
from pathlib import Path

import pytest

import remote


@pytest.mark.slow
def test_all_parts_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "ray_sides", lambda array: {})
    path = tmp_path / "result.json"
    sizes = "--rounds 1 --row 60 --mib 5 --model tiny --batch 2 --calls 200"
    command = f"remote.py --device numpy {sizes} --json {path}"
    monkeypatch.setattr(sys, "argv", command.split())
    remote.main()
    found = json.loads(path.read_text("utf-8"))
    assert found["command"].startswith("python benchmarks/remote.py --device numpy")
    cases = {(row["case"], row["peer"]) for row in found["rows"]}
    assert cases >= {
        ("one kernel, waited for", "local"),
        ("4000 bytes there and back", "httpx"),
        ("4000 bytes there and back", "onnxruntime"),
        ("one kernel, many in a row", "local"),
        ("upload of 5 MiB", "httpx"),
        ("download of 5 MiB", "httpx"),
        ("ResNet-50, tiny, 2 images", "local"),
    }
    for row in found["rows"]:
        assert row["ratio"] == pytest.approx(row["peer_s"] / row["ours_s"])
    bars = found["bars"]
    assert len(bars) == 7
    for bar in bars:
        assert bar["met"] in (bar["value"] >= bar["limit"], bar["value"] <= bar["limit"])
    samples = found["memory"]["samples"]
    assert samples[0][0] == 0
    assert samples[-1][0] == 200
    assert all(client > 1e6 and server > 1e6 for _, client, server in samples)


def test_parts_are_chosen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "remote.py --device numpy --only contents --mib 1 --rounds 1"
    monkeypatch.setattr(sys, "argv", command.split())
    remote.main()
    told = capsys.readouterr().out
    assert "upload of 1 MiB" in told
    assert "one kernel" not in told


def test_growth_is_a_slope_and_no_step() -> None:
    steps = [(0, 100), (10, 500), (20, 500), (30, 500), (40, 500), (50, 500)]
    assert remote.slope(steps, 1) == 0
    grows = [(n, 1000 + 3 * n) for n in range(0, 60, 10)]
    assert remote.slope(grows, 1) == pytest.approx(3)
