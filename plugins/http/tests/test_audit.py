"""The audit log and the metrics of a server that works."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

import calor
from calor.graph.file import save
from calor_http.described import digest_of
from calor_http.frames import pack, seal
from calor_http.server.audit import AuditLog
from calor_http.server.local import LocalServer
from calor_http.server.quotas import Quota
from calor_http.server.tokens import Entry, Keyring, hash_of
from prometheus_samples import samples
from raw_http_client import Client

TOKENS = {"anna": "the-token-of-anna-1", "watch": "the-token-that-watches"}
GRAPH = save(calor.trace(lambda x: calor.tanh(x) + x, calor.ones(4)))


def ring() -> Keyring:
    entries = [
        Entry(name, (hash_of(token),), Quota(observes=name == "watch"))
        for name, token in TOKENS.items()
    ]
    return Keyring(entries)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_who_did_what_is_written_down(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with LocalServer("numpy", keyring=ring(), audit=AuditLog(path)) as server:
        client = Client(server, TOKENS["anna"])
        client.ask(
            ["up", 1, 0, "float32", [4], bytes(16)],
            ["graph", digest_of(GRAPH), GRAPH],
            ["compile", 1, 0, digest_of(GRAPH)],
            ["run", 1, [1], [2], []],
            ["run", 1, [99], [3], []],
        )
        client.http.put(f"{client.session}/blobs/5/0", content=seal(bytes(100)))
        (secret,) = client.ask(["offer", 2, 0])
        client.http.post(f"/v1/offers/{secret}")
        client.http.post("/v1/sessions/none/requests/1", content=pack([]))
        httpx.post(f"{server.address}/v1/sessions", headers={"Authorization": "Bearer no"})
        session = client.session
        client.close()
    found = lines(path)
    for line in found:
        assert set(line) >= {"time", "token", "peer", "what", "digest", "bytes", "result"}
    told = [(line["what"], line["token"], line["result"]) for line in found]
    assert told == [
        ("open", "anna", "done"),
        ("graph", "anna", "done"),
        ("compile", "anna", "done"),
        ("requests", "anna", "done"),
        ("put", "anna", "done"),
        ("requests", "anna", "done"),
        ("redeem", None, "done"),
        ("requests", "anna", "LeaseLostError"),
        ("open", None, "token"),
        ("freed", "anna", "done"),
        ("close", "anna", "done"),
    ]
    assert found[1]["digest"] == found[2]["digest"] == digest_of(GRAPH)
    assert found[1]["bytes"] == len(GRAPH)
    assert found[3]["commands"] == {"up": 1, "graph": 1, "compile": 1, "run": 2}
    assert found[4]["bytes"] > 100
    assert found[0]["peer"].startswith("127.0.0.1:")
    # Of one session all lines have one name, and no line lets anybody in.
    assert len({line["session"] for line in found[:6]}) == 1
    text = path.read_text()
    for private in (*TOKENS.values(), session.rpartition("/")[2], secret, *map(hash_of, TOKENS)):
        assert private not in text


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes here")
def test_the_file_may_be_rotated_and_is_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    assert path.stat().st_mode & 0o077 == 0
    log.write("open", "anna", "here", "done")
    path.rename(tmp_path / "audit.1")
    log.write("close", "anna", "here", "done")
    assert [line["what"] for line in lines(path)] == ["close"]
    log.close()


def test_strangers_fill_no_log_and_a_full_disk_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "calor_http")
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    for _ in range(1000):
        log.write("open", None, "there", "token")
    log.write("open", "anna", "here", "done")
    log.close()
    found = lines(path)
    assert 50 <= len(found) < 100
    assert found[-1]["token"] == "anna"

    full = AuditLog(path)

    def flush() -> None:
        raise OSError("no space is left")

    full._handler.flush = flush
    for _ in range(3):
        full.write("open", "anna", "here", "done")
    assert full.lost == 3
    assert caplog.text.count("cannot be written: no space is left") == 1
    full.close()


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes here")
def test_a_file_that_is_rotated_while_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    log.write("open", "anna", "here", "done")
    room = [10]
    write = os.write

    def little(file: int, data: bytes) -> int:
        """Take what fits, as a disk does that gets full."""
        if not room:
            return write(file, data)
        if room[0] == 0:
            raise OSError(28, "No space left on device")
        done = write(file, data[: room[0]])
        room[0] -= done
        return done

    monkeypatch.setattr(os, "write", little)
    for _ in range(3):
        log.write("full", "anna", "here", "done")
    assert log.lost == 3
    # No line is there in part.
    assert [line["what"] for line in lines(path)] == ["open"]
    path.rename(tmp_path / "audit.1")
    log.write("rotated", "anna", "here", "done")
    assert log.lost == 4
    room.clear()
    log.write("again", "anna", "here", "done")
    assert [line["what"] for line in lines(path)] == ["again"]
    assert path.stat().st_mode & 0o077 == 0

    # Where the folder is gone, nothing can be opened, and requests go on.
    folder = tmp_path / "away"
    folder.mkdir()
    away = AuditLog(folder / "audit.jsonl")
    (folder / "audit.jsonl").unlink()
    folder.rmdir()
    away.write("lost", "anna", "here", "done")
    assert away.lost == 1
    folder.mkdir()
    away.write("back", "anna", "here", "done")
    assert [line["what"] for line in lines(folder / "audit.jsonl")] == ["back"]
    log.close()
    away.close()


def test_half_a_line_of_a_killed_server_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text('{"what":"whole"}\n{"what":"ha')
    log = AuditLog(path)
    log.write("open", "anna", "here", "done")
    log.close()
    whole, half, after = path.read_text().splitlines()
    assert json.loads(whole) == {"what": "whole"}
    assert half == '{"what":"ha'
    assert json.loads(after)["what"] == "open"


def test_metrics_are_for_those_who_observe(tmp_path: Path) -> None:
    with LocalServer("numpy", keyring=ring()) as server:
        client = Client(server, TOKENS["anna"])
        client.ask(["up", 1, 0, "int8", [1000], bytes(1000)], ["nothing"])
        assert client.http.get("/metrics").status_code == 403
        with httpx.Client(base_url=server.address) as other:
            refused = other.get("/metrics")
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert other.get("/healthz").text == "ok\n"
            other.post("/v1/sessions", content=b"")
            header = {"Authorization": f"Bearer {TOKENS['watch']}"}
            found = samples(other.get("/metrics", headers=header).text)

        def value(name: str, **labels: str) -> float:
            return found[f"calor_http_{name}", frozenset(labels.items())]

        assert value("sessions", token="anna") == 1
        assert value("sessions", token="watch") == 0
        assert value("held_bytes", token="anna") == 1000
        assert value("requests_total", route="requests", status="200") == 1
        assert value("requests_total", route="open", status="401") == 1
        assert value("refused_total", why="token") == 1
        assert value("commands_total", command="up") == 1
        assert value("commands_total", command="unknown") == 1
        assert value("device_seconds_total", token="anna") > 0
        assert value("device_memory_bytes", device="numpy:0") >= 0
        assert value("waiting_requests", token="anna") == 0
        assert value("connections") >= 1
        client.close()
