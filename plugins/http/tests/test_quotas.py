"""Quotas of tokens: what each may use, what it is told, and that others are not harmed."""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, OutOfMemoryError
from calor.graph.file import save
from calor.ops.sources import HostArray, constant
from calor_http import MemoryQuotaError, QuotaError, TokenError, TokenExpiredError
from calor_http.connection import Connection
from calor_http.described import digest_of
from calor_http.errors import decode_error, encode_error
from calor_http.frames import CHUNK, MESSAGE, seal, unpack
from calor_http.server.limits import MIB, Limits
from calor_http.server.local import LocalServer
from calor_http.server.quotas import Account, Bucket, Ledger, Quota, number_of
from calor_http.server.serving import config_of, main, parser
from calor_http.server.tokens import Entry, Keyring, hash_of, new_token, read_tokens
from raw_http_client import Client, kind_of

TOKENS = {"anna": "the-token-of-anna-1", "bert": "the-token-of-bert-2"}
GRAPH = save(calor.trace(lambda x: calor.tanh(x) + x, calor.ones(4)))


def keyring(**quotas: Quota) -> Keyring:
    entries = [
        Entry(name, (hash_of(token),), quotas.get(name, Quota())) for name, token in TOKENS.items()
    ]
    return Keyring(entries)


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let this process be anna at 127.0.0.1 and bert at localhost, for a server."""
    monkeypatch.delenv("CALOR_HTTP_TOKEN", raising=False)
    monkeypatch.setenv("CALOR_HTTP_TOKENS", str(tmp_path / "tokens"))

    def addresses(server: LocalServer) -> tuple[str, str]:
        port = server.address.rpartition(":")[2]
        lines = [f"127.0.0.1:{port} {TOKENS['anna']}", f"localhost:{port} {TOKENS['bert']}"]
        (tmp_path / "tokens").write_text("\n".join(lines))
        (tmp_path / "tokens").chmod(0o600)
        return f"http://127.0.0.1:{port}/numpy", f"http://localhost:{port}/numpy"

    return addresses


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_fills_at_its_rate() -> None:
    clock = Clock()
    bucket = Bucket(2.0, 4.0, clock)
    assert [bucket.take(1.0) for _ in range(4)] == [0.0] * 4
    assert bucket.take(1.0) == pytest.approx(0.5)
    clock.now += 0.5
    assert bucket.take(1.0) == 0.0
    clock.now += 1000
    assert bucket.level == 4.0
    # What was used already may be owed.
    bucket.spend(10.0)
    assert bucket.wait == pytest.approx((6 + 0.04) / 2)
    clock.now += bucket.wait
    assert bucket.wait == 0.0


def test_bytes_are_counted_where_many_take_them_at_once() -> None:
    ledger = Ledger()
    taken: list[int] = []

    def take(holder: int) -> None:
        held = 0
        for _ in range(200):
            if ledger.reserve(holder, held, 7, 4000) is None:
                held += 7
        taken.append(held)

    threads = [threading.Thread(target=take, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == ledger.nbytes == 4000 // 7 * 7
    for holder in range(8):
        ledger.settle(holder, 0)
    assert ledger.nbytes == 0


def test_quotas_are_numbers() -> None:
    assert number_of("memory", "8 GiB") == number_of("memory", 8 << 30) == 8 << 30
    assert number_of("memory", "1000") == 1000
    assert number_of("device_seconds", "2.5") == 2.5
    for name, value in (
        ("sessions", "1.5"), ("sessions", 0), ("pending", 1), ("weight", -1), ("memory", "much"),
        ("device_seconds", True), ("requests_per_second", "inf"), ("weight", "nan"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=name):
            number_of(name, value)


def test_errors_of_quotas_arrive_whole() -> None:
    error = QuotaError("wait")
    error.retry_after = 2.5
    made = decode_error(encode_error(error))
    assert type(made) is QuotaError
    assert made.retry_after == 2.5
    assert type(decode_error(encode_error(MemoryQuotaError("x", op="add")))) is MemoryQuotaError
    assert issubclass(MemoryQuotaError, OutOfMemoryError)


# The file of tokens.
def written(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_file_of_tokens_is_read(tmp_path: Path) -> None:
    first, second = hash_of("one-token-of-many"), hash_of("its-successor-token")
    path = written(
        tmp_path / "tokens.toml",
        f"""
        [tokens.anna]
        sha256 = ["{first}", "{second}"]
        memory = "2 GiB"
        requests_per_second = 20
        device_seconds = 60
        expires = 2199-01-01
        observes = true
        [tokens."bert@example"]
        sha256 = "{hash_of("another-one-token")}"
        """,
    )
    anna, bert = read_tokens(path, Quota(sessions=3))
    assert anna.hashes == (first, second)
    assert anna.quota == Quota(2 << 30, 20, device_seconds=60, sessions=3, observes=True)
    assert anna.expires == datetime(2199, 1, 1, tzinfo=UTC)
    assert (bert.name, bert.quota, bert.expires) == ("bert@example", Quota(sessions=3), None)


WRONG = {
    "": "one at least",
    "[tokens": "cannot be read",
    "[other.anna]": "nothing else",
    "[tokens.anna]\nmemory = 1": "sha256 is the token's hash",
    '[tokens.anna]\nsha256 = "secret"': "python -m calor_http token anna",
    '[tokens.anna]\nsha256 = "HASH"\nmemroy = 1': "memroy is wrong; keys: sha256, expires",
    '[tokens.anna]\nsha256 = "HASH"\nmemory = -1': r"\[tokens\.anna\]: memory",
    '[tokens.anna]\nsha256 = "HASH"\nexpires = "soon"': "a date such as",
    '[tokens.anna]\nsha256 = "HASH"\nobserves = 1': "observes is wrong",
    '[tokens."a b"]\nsha256 = "HASH"': "letters, digits",
    '[tokens.a]\nsha256 = "HASH"\n[tokens.b]\nsha256 = "HASH"': "one token twice",
}


@pytest.mark.parametrize("text", WRONG)
def test_files_of_tokens_that_are_wrong(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "tokens.toml", text.replace("HASH", hash_of("one-token-of-many")))
    with pytest.raises(ArgumentError, match=WRONG[text]) as caught:
        read_tokens(path, Quota())
    assert "secret" not in str(caught.value)


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes here")
def test_nobody_else_writes_the_file_of_tokens(tmp_path: Path) -> None:
    path = written(tmp_path / "tokens.toml", "")
    path.chmod(0o622)
    with pytest.raises(ArgumentError, match="others can write"):
        read_tokens(path, Quota())


def test_a_new_token_is_what_the_file_takes(tmp_path: Path) -> None:
    text = new_token("anna")
    token = text.partition("CALOR_HTTP_TOKEN=")[2].split()[0]
    (entry,) = read_tokens(written(tmp_path / "tokens.toml", text), Quota())
    assert entry.hashes == (hash_of(token),)


def test_the_command_line_has_quotas_for_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["token", "anna"]) == 0
    path = written(tmp_path / "tokens.toml", capsys.readouterr().out + "sessions = 3\n")
    start = ["serve", "--devices", "numpy"]
    options = ["--tokens-file", str(path), "--quota-memory", "2 GiB", "--quota-weight", "0.5"]
    _, server = config_of(parser().parse_args([*start, *options]))
    assert server.keyring.accounts["anna"].quota == Quota(2 << 30, sessions=3, weight=0.5)
    _, everybody = config_of(parser().parse_args([*start, "--no-token", *options[2:]]))
    account = everybody.keyring.account("")
    assert account.quota == Quota(2 << 30, weight=0.5, observes=True)
    for wrong, match in (
        ([*options, "--no-token"], "not both"),
        (["--no-token", "--quota-sessions", "many"], "sessions is a whole number above 0"),
        (["--tokens-file", str(tmp_path / "none")], "cannot be read"),
    ):
        with pytest.raises(ArgumentError, match=match):
            config_of(parser().parse_args([*start, *wrong]))


def test_a_file_that_changes_is_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "calor_http")

    def text(*names: str) -> str:
        return "\n".join(f'[tokens.{n}]\nsha256 = "{hash_of(TOKENS[n])}"\n' for n in names)

    path = written(tmp_path / "tokens.toml", text("anna"))
    known = Keyring(read_tokens(path, Quota()), path=path)
    anna = known.account(f"Bearer {TOKENS['anna']}")
    written(path, text("anna", "bert") + 'memory = "1 KiB"\n')
    known.refresh()
    assert known.account(f"Bearer {TOKENS['bert']}").quota.memory == 1024
    assert known.account(f"Bearer {TOKENS['anna']}") is anna
    written(path, "[tokens")
    known.refresh()
    assert "the tokens stay as they were" in caplog.text
    assert known.account(f"Bearer {TOKENS['anna']}") is anna
    written(path, text("bert"))
    known.refresh()
    with pytest.raises(Exception, match="^$") as caught:
        known.account(f"Bearer {TOKENS['anna']}")
    assert type(caught.value).__name__ == "Refused"


def test_tokens_end(monkeypatch: pytest.MonkeyPatch) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    entry = Entry("anna", (hash_of(TOKENS["anna"]),), Quota(), yesterday)
    monkeypatch.setenv("CALOR_HTTP_TOKEN", TOKENS["anna"])
    with (
        LocalServer("numpy", keyring=Keyring([entry])) as server,
        pytest.raises(TokenExpiredError, match="'anna' expired at .* ask the server's operator"),
    ):
        calor.device(f"{server.address}/numpy")


def test_a_token_that_comes_back_finds_what_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALOR_HTTP_TOKEN", TOKENS["anna"])
    anna, bert = (Entry(name, (hash_of(token),), Quota()) for name, token in TOKENS.items())
    ring = Keyring([anna, bert])
    with LocalServer("numpy", keyring=ring) as server:
        device = calor.device(f"{server.address}/numpy")
        x = calor.asarray([1.0, 2.0], device=device)
        assert x.tolist() == [1.0, 2.0]
        ring._take([bert])
        for _ in range(2):
            with pytest.raises(TokenError, match="does not know the token; set CALOR_HTTP_TOKEN"):
                x.tolist()
        ring._take([anna, bert])
        assert x.tolist() == [1.0, 2.0]
        assert (x + 1).tolist() == [2.0, 3.0]
        device.backend.close()


# Over a server.
def test_memory_of_a_token_is_that_of_all_its_sessions(tokens: Any) -> None:
    ring = keyring(anna=Quota(memory=12 * MIB))
    with LocalServer("numpy", keyring=ring) as server:
        anna, bert = tokens(server)
        other = Client(server, TOKENS["anna"])
        other.ask(["up", 1, 0, "int8", [11 * MIB], bytes(11 * MIB)])
        fits = calor.asarray(np.zeros(1000, np.int8), device=anna)
        assert fits.sum().item() == 0
        small = calor.asarray(np.zeros(MIB, np.int8), device=anna)
        with pytest.raises(MemoryQuotaError, match=r"'anna' may hold 12\.0 MiB .* free tensors"):
            small.numpy()
        # Contents in pieces find no room either, and nothing else is lost by it.
        large = calor.asarray(np.zeros(2 * CHUNK, np.int8), device=anna)
        with pytest.raises(MemoryQuotaError, match="may hold"):
            large.numpy()
        assert (fits + 1).sum().item() == 1000
        # Bert has room for all that.
        given = np.arange(2 * CHUNK, dtype=np.uint8)
        np.testing.assert_array_equal(calor.asarray(given, device=bert).numpy(), given)
        other.ask(["drop", [1]])
        again = calor.asarray(np.ones(MIB, np.int8), device=anna)
        assert again.sum().item() == MIB
        other.close()
        for address in (anna, bert):
            calor.device(address).backend.close()
    assert {name: account.memory.nbytes for name, account in ring.accounts.items()} == {
        "anna": 0, "bert": 0,
    }  # fmt: skip


def test_programs_and_offers_count_as_memory() -> None:
    with LocalServer("numpy", keyring=keyring(anna=Quota(memory=1900))) as server:
        client = Client(server, TOKENS["anna"])
        held = HostArray.of(np.random.default_rng(0).standard_normal(125))
        traced = calor.trace(lambda x: x + constant(array=held, weak=False), calor.ones(125))
        graph = save(traced)
        made = client.ask(
            ["graph", digest_of(graph), graph],
            ["compile", 1, 0, digest_of(graph)],
            ["compile", 2, 0, digest_of(graph)],
            ["up", 1, 0, "int8", [600], bytes(600)],
        )
        assert made[2]["error"]["kind"] == "MemoryQuotaError"
        assert client.kinds(["verify", 0, [1]], ["release", [1]], ["offer", 1, 0]) == [None] * 3
        offers = client.kinds(*[["offer", 1, 0]] * 5)
        assert offers == [None] + ["MemoryQuotaError"] * 4
        client.close()


def test_requests_come_at_a_rate(tokens: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALOR_HTTP_PATIENCE", "0.2")
    slow = Quota(requests_per_second=0.001, requests_burst=8)
    ring = keyring(anna=slow)
    with LocalServer("numpy", keyring=ring) as server:
        anna, bert = tokens(server)
        x = calor.asarray([1.0, 2.0], device=anna)
        assert x.tolist() == [1.0, 2.0]
        client = Client(server, TOKENS["anna"])
        answers = [client.post(["memory", 0]) for _ in range(9)]
        assert [a.status_code for a in answers[-3:]] == [429] * 3
        assert int(answers[-1].headers["retry-after"]) > 100
        assert kind_of(answers[-1]) == "QuotaError"
        # The client learns what to do, at once where its patience is shorter than the wait.
        y = x + 1
        with pytest.raises(QuotaError, match=r"0\.001 requests a second; send fewer, larger") as e:
            y.numpy()
        assert e.value.retry_after > 100
        # Nothing is lost: what waited is sent when there is room again.
        ring.accounts["anna"].give(Quota())
        assert (x + 1).tolist() == [2.0, 3.0]
        assert calor.ones(3, device=bert).sum().item() == 3
        # What only gives back is never refused.
        ring.accounts["anna"].give(slow)
        while client.post(["memory", 0]).status_code == 200:
            pass
        client.close()
        ring.accounts["anna"].give(Quota())
        for address in (anna, bert):
            calor.device(address).backend.close()


def test_a_client_comes_when_it_is_told_to(tokens: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    answers = iter(
        [
            httpx.Response(503, headers={"Retry-After": "7"}),
            httpx.Response(429, content=b"", headers={"Retry-After": "soon"}),
            httpx.Response(200, content=seal(b"\x01")),
        ]
    )
    connection = Connection("http://127.0.0.1:1", None)
    monkeypatch.setattr(connection._client, "request", lambda *a, **k: next(answers))
    assert connection.message("GET", "/") == 1
    assert slept[0] == 7
    assert slept[1] < 7
    connection.close()


def test_device_time_is_counted_and_ends(monkeypatch: pytest.MonkeyPatch, tokens: Any) -> None:
    monkeypatch.setenv("CALOR_HTTP_PATIENCE", "0.2")
    ring = keyring(anna=Quota(device_seconds=1000.0, device_period=1e6))
    with LocalServer("numpy", keyring=ring) as server:
        anna, bert = tokens(server)
        x = calor.asarray([1.0, 2.0], device=anna)
        y = x + 1
        assert y.tolist() == [2.0, 3.0]
        account = ring.accounts["anna"]
        assert account.device_seconds > 0
        account.spent(2000.0)
        with pytest.raises(QuotaError, match=r"1000 s of device time for each 1e\+06 s") as caught:
            (y + 2).numpy()
        assert caught.value.retry_after > 1e5
        # What is there can be read by a client that asks for nothing new.
        client = Client(server, TOKENS["anna"])
        assert client.ask(["memory", 0], ["sync", 0]) == [[0, 0], None]
        assert client.post(["up", 1, 0, "int8", [1], b"1"]).status_code == 429
        assert (calor.ones(3, device=bert) * 2).sum().item() == 6
        account.spent(-2000.0)
        # Its session was kept while it had to wait.
        assert (y + 1).tolist() == [3.0, 4.0]
        client.close()
        for address in (anna, bert):
            calor.device(address).backend.close()


def test_a_session_that_waits_for_its_quota_is_kept() -> None:
    ring = keyring(anna=Quota(device_seconds=1.0, device_period=1000.0))
    with LocalServer("numpy", keyring=ring, limits=Limits(lease_seconds=60)) as server:
        client = Client(server, TOKENS["anna"])
        client.ask(["up", 1, 0, "int8", [1], b"1"])
        ring.accounts["anna"].spent(5.0)
        assert client.post(["up", 2, 0, "int8", [1], b"1"]).status_code == 429
        (session,) = server.server.sessions.values()
        assert session.seen > session.began + 3000
        server.server.end_leases()
        assert client.ask(["read", 1, 0, 1]) == [b"1"]
        client.close()


def test_sessions_and_open_requests_are_shared_out() -> None:
    limits = Limits(clients=8, requests=16)
    account = Account("anna", Quota(pending=2))
    account.enter(9)
    account.enter(9)
    with pytest.raises(QuotaError, match="2 requests under way") as caught:
        account.enter(9)
    assert caught.value.retry_after > 0
    account.leave()
    account.enter(9)
    with LocalServer("numpy", keyring=keyring(), limits=limits) as server:
        annas = [Client(server, TOKENS["anna"]) for _ in range(4)]
        answer = annas[0].http.post("/v1/sessions", content=seal(b"\x81\xa7version\x01"))
        assert (answer.status_code, kind_of(answer)) == (429, "QuotaError")
        assert (
            "end a program that uses this server"
            in unpack(answer.content, MESSAGE)["error"]["text"]
        )
        berts = [Client(server, TOKENS["bert"]) for _ in range(4)]
        annas.pop().close()
        annas.append(Client(server, TOKENS["anna"]))
        for client in (*annas, *berts):
            client.close()
        assert {a.sessions for a in server.server.keyring.accounts.values()} == {0}
        assert {a.pending for a in server.server.keyring.accounts.values()} == {0}


def test_graphs_belong_to_their_token(monkeypatch: pytest.MonkeyPatch) -> None:
    from calor_http.server import graphs

    with LocalServer("numpy", keyring=keyring()) as server:
        anna, bert = Client(server, TOKENS["anna"]), Client(server, TOKENS["bert"])
        anna.ask(["graph", digest_of(GRAPH), GRAPH])
        assert anna.ask(["compile", 1, 0, digest_of(GRAPH)]) != ["missing"]
        # A digest is no secret, and opens nothing to others.
        assert bert.ask(["claim", 0, digest_of(GRAPH)], ["compile", 1, 0, digest_of(GRAPH)]) == [
            "missing", "missing",
        ]  # fmt: skip
        # Who sends many graphs gives up its own.
        monkeypatch.setattr(graphs, "_KEPT_BYTES", 3 * (len(GRAPH) + 3 * graphs._NODE_BYTES))
        for n in range(2, 12):
            graph = save(calor.trace(lambda x, n=n: x + n, calor.ones(4)))
            bert.ask(["graph", digest_of(graph), graph])
        assert anna.ask(["compile", 2, 0, digest_of(GRAPH)]) != ["missing"]
        assert bert.ask(["compile", 2, 0, digest_of(graph)]) != ["missing"]
        anna.close()
        bert.close()


@pytest.mark.parametrize("after", ["", "Retry-After: 1\r\n"])
def test_something_before_the_server_lets_no_more_requests_pass(
    monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    """A proxy that answers 429 with a page of its own."""
    monkeypatch.setenv("CALOR_HTTP_PATIENCE", "0.2")
    asked = []

    def answers(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listening.accept()
                with near:
                    asked.append(near.recv(65536))
                    page = "<html>slow down</html>"
                    near.sendall(
                        f"HTTP/1.1 429 Too Many Requests\r\n{after}Connection: close\r\n"
                        f"Content-Length: {len(page)}\r\n\r\n{page}".encode()
                    )

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answers, args=(listening,), daemon=True).start()
        port = listening.getsockname()[1]
        with pytest.raises(QuotaError, match=r"\(status 429\); send fewer, or later") as caught:
            calor.device(f"http://127.0.0.1:{port}/numpy")
        listening.shutdown(socket.SHUT_RDWR)
    assert caught.value.retry_after == (1.0 if after else 0.0)
    # Who is told when to come does not come before.
    assert (len(asked) == 1) is bool(after)
