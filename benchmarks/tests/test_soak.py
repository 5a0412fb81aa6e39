"""The program that soaks servers: a short sample of each part, and what it says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import remote
import soak
import wire_parsers

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="figures of processes are read from /proc"
)
# What needs longer than a sample: growth, shares, and waits on a machine that does other things.
LONG = ("growth", "grows", "share of", "slowest", "the longest wait")


def sampled(tmp_path: Path, *options: str) -> dict[str, Any]:
    """Run a part of the program on the device numpy; return its result."""
    asked = soak.parse([*options, "--device", "numpy", "--out", str(tmp_path)])
    return soak.run(asked)


def missed(found: dict[str, Any]) -> list[str]:
    """Return the bars that do not hold, of those that a sample shows."""
    short = [bar for bar in found["bars"] if not any(word in bar["bar"] for word in LONG)]
    assert short
    return [f"{bar['bar']}: {bar['value']}" for bar in short if not bar["met"]]


@pytest.mark.slow
def test_servers_and_clients_are_killed(tmp_path: Path) -> None:
    found = sampled(tmp_path, "kills", "--kills", "2", "--model-kills", "1")
    assert missed(found) == []
    servers, clients, models = found["kills"].values()
    assert servers["kills"] == clients["kills"] == 2
    # Each kill met two clients at something, and they learned what was lost.
    assert sum(servers["moments"].values()) == 4
    errors = [name for client in servers["clients"] for name in client["errors"]]
    assert "LeaseLostError" in errors
    assert not [name for name in errors if name.startswith("untyped")]
    assert all(sum(client["done"].values()) for client in servers["clients"])
    assert sum(clients["clients"][0]["done"].values())
    assert models["ready"]
    assert models["answers"]


def test_disks_are_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from soaking import disks

    monkeypatch.setattr(disks, "SHARES", (0.9,))
    measured = remote.Measured("numpy")
    for name in ("audit", "models", "client"):
        (tmp_path / name).mkdir()
    audit = disks.of_audit_log(measured, tmp_path / "audit", "numpy")
    models = disks.of_models(measured, tmp_path / "models", "numpy")
    client = disks.of_client(measured, tmp_path / "client", "numpy")
    assert missed({"bars": measured.bars}) == []
    assert audit["lost"] > 0
    assert set(models["statuses"]) == {2}
    assert client["errors"] == {"OSError": 3}


@pytest.mark.slow
def test_a_crowd_comes_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from soaking import crowd, lives

    monkeypatch.setattr(crowd, "RUSH", 0.5)
    # An offer that nobody takes is held for a minute.
    names = [name for name in lives.LIVES if name != "abandons"]
    one = crowd.Crowd("numpy", tmp_path, 5, names, seeds=2)
    measured = remote.Measured("numpy")
    seen = crowd.crowd(measured, one, 0.15, 3, 0.1)
    assert missed({"bars": measured.bars}) == []
    assert sum(seen["lived"].values()) > 3
    assert seen["waits_s"]["count"] > 3
    assert seen["drained"]
    assert len(seen["samples"][0]) == len(seen["columns"])


def test_clients_are_told_what_they_should_be(tmp_path: Path) -> None:
    """One of each kind that ends in order, one after the other: a crowd draws them."""
    from soaking import crowd
    from soaking.watching import untyped

    names = ["one by one", "strangers", "takes too much", "asks too often", "garbage", "abandons",
             "cuts", "fresh"]  # fmt: skip
    alone = crowd.Crowd("numpy", tmp_path, 3, names, seeds=2)
    with alone.server as server:
        for name in names:
            alone.born(name).join(120)
        metrics = server.metrics(alone.tokens["watch"])
    lines = [json.loads(line) for line in alone.lives.read_text().splitlines()]
    assert [line["life"] for line in lines] == names
    for line in lines:
        assert line["wrong"] == []
        assert [error for error in line["errors"] if error.startswith("untyped")] == []
        assert sum(line["done"].values())
    assert untyped(server.log(), metrics) == 0


def test_two_who_ask_too_often_at_once(tmp_path: Path) -> None:
    """The sessions of a token are those of all its clients: who finds none left is told so."""
    from soaking import crowd
    from soaking.lives import TWO, Life

    alone = crowd.Crowd("numpy", tmp_path, 4, ["asks too often"], seeds=2)
    with alone.server as server:
        life = Life(server.address, "numpy", alone.tokens, alone._known, 1)
        with life.raw("two") as client:
            held = [life.session(client) for _ in range(TWO)]
            alone.born("asks too often").join(120)
            for session in held:
                life.asked(client, "DELETE", session, b"")
        alone.born("asks too often").join(120)
        assert not server.status(alone.tokens["watch"])["sessions"]
    lines = [json.loads(line) for line in alone.lives.read_text().splitlines()]
    assert [line["done"] for line in lines] == [{"refused session": 1}] * 2
    for line in lines:
        assert set(line["errors"]) <= {"QuotaError"}
        assert line["wrong"] == []


def test_calls_in_rows_and_one_by_one(tmp_path: Path) -> None:
    found = sampled(tmp_path, "calls", "--calls", "400")
    assert missed(found) == []
    seen = found["calls"]
    assert seen["calls"] >= 400
    assert seen["requests"] >= 100
    assert seen["numbers"] > seen["calls"]
    assert len(seen["samples"]) == 51


def test_what_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = soak.parse(["--out", str(tmp_path)])
    assert asked.parts == list(soak.PARTS)
    assert set(soak.PART_OF) == set(soak.PARTS)
    with pytest.raises(SystemExit):
        soak.parse(["kill", "--out", str(tmp_path)])
    assert "there is no part kill" in capsys.readouterr().err


def test_a_result_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def part(found: remote.Measured, folder: Path, asked: Any) -> dict[str, Any]:
        found.bar("something", 3, 2, least=False)
        return {"seen": str(folder.name)}

    monkeypatch.setitem(soak.PART_OF, "calls", part)
    path = tmp_path / "result.json"
    command = f"soak.py calls --device numpy --out {tmp_path} --json {path}"
    monkeypatch.setattr(sys, "argv", command.split())
    assert soak.main() == 1
    found = json.loads(path.read_text("utf-8"))
    assert found["command"].startswith("python benchmarks/soak.py calls")
    assert found["bars"] == [{"bar": "something", "value": 3, "limit": 2, "met": False}]
    assert found["calls"] == {"seen": "calls"}


def test_parsers_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.json"
    command = f"wire_parsers.py --rounds 1 --seconds 0.0001 --json {path}"
    monkeypatch.setattr(sys, "argv", command.split())
    wire_parsers.main()
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert {row["peer"] for row in rows if row["case"] == "the head of a request"} >= {"h11"}
    for row in rows:
        assert row["ratio"] == pytest.approx(row["peer_s"] / row["ours_s"])
