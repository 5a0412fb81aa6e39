"""What an operator gives a server and gets of it: files of tokens, addresses, offers, audit logs.

Tokens are drawn with quotas, ends and several texts, and their file changes while a server runs.
Options of where to listen and whom to let in are drawn, and refused where anybody would get in.
Values are offered from one server to another, once each, within what an account may hold. A log has
each line as a whole, whatever was in its file before.
"""

from __future__ import annotations

import argparse
import inspect
import io
import json
import logging
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from calor.errors import ArgumentError, CalorError, FormatError

from .base import Check, Place

CONTRACT: Final = "a server lets in, hands over and writes down what its operator says"
PACKAGE: Final = "calor_http"
_TURNS: Final = 5
Rng = np.random.Generator


def _part(name: str) -> Any:
    return import_module(f"{PACKAGE}.server.{name}")


def _refused(call: Callable[[], Any], why: str, *kinds: type[Exception]) -> None:
    """Require that a call raises an error that names something."""
    said, expected = None, kinds or (ArgumentError,)
    try:
        call()
    except expected as error:
        said = str(error)
    assert said is not None, f"nothing is refused, where {why!r} is wrong"
    assert why in said, f"{said!r} does not name {why!r}"


def _logged(call: Callable[[], Any]) -> str:
    """Return what a call writes to the log of the package, and nowhere else."""
    log, stream = logging.getLogger(PACKAGE), io.StringIO()
    handler, passed_on, level = logging.StreamHandler(stream), log.propagate, log.level
    log.addHandler(handler)
    log.propagate = False
    log.setLevel(logging.INFO)
    try:
        call()
    finally:
        log.removeHandler(handler)
        log.propagate = passed_on
        log.setLevel(level)
    return stream.getvalue()


_QUOTAS: Final[dict[str, Callable[[Rng], Any]]] = {
    "memory": lambda rng: int(rng.integers(1, 1 << 34)),
    "requests_per_second": lambda rng: float(rng.integers(1, 99)) / 2,
    "requests_burst": lambda rng: float(rng.integers(1, 99)),
    "device_seconds": lambda rng: float(rng.integers(1, 99)),
    "device_period": lambda rng: float(rng.integers(1, 9999)),
    "sessions": lambda rng: int(rng.integers(1, 300)),
    "pending": lambda rng: int(rng.integers(2, 300)),
    "weight": lambda rng: float(rng.integers(1, 9)) / 4,
}  # fmt: skip


class _Token:
    """A token of a file, drawn."""

    def __init__(self, rng: Rng, number: int) -> None:
        self.name = str(rng.choice(["anna", "b.ob", "c_d", "e@f-9"])) + str(number)
        self.texts = [f"text-{number}-{k}-{rng.integers(1 << 30)}" for k in range(
            int(rng.integers(1, 3)))]  # fmt: skip
        self.quota = {n: draw(rng) for n, draw in _QUOTAS.items() if rng.random() < 0.3}
        self.observes = bool(rng.random() < 0.3)
        now = datetime.now(UTC).replace(microsecond=0)
        away = timedelta(days=int(rng.choice([-400, -2, 2, 400])))
        self.end: datetime | None = None
        self.written = ""
        form = int(rng.integers(4))
        if form == 1:
            # A date ends where it begins, in UTC.
            day = (now + away).date()
            self.end, self.written = datetime(day.year, day.month, day.day, tzinfo=UTC), f"{day}"
        elif form == 2:
            self.end = now + away
            self.written = self.end.replace(tzinfo=None).isoformat()
        elif form == 3:
            zone = timezone(timedelta(hours=int(rng.integers(-11, 12))))
            self.end = (now + timedelta(hours=int(rng.choice([-1, 1])))).astimezone(zone)
            self.written = self.end.isoformat()

    def table(self, digest: Callable[[str], str]) -> str:
        """Return it as the file has it."""
        hashes = [digest(t) for t in self.texts]
        told = json.dumps(hashes[0] if len(hashes) == 1 else hashes)
        rows = [f'[tokens."{self.name}"]', f"sha256 = {told}"]
        rows += [f"{n} = {v}" for n, v in self.quota.items()]
        rows += ["observes = true"] if self.observes else []
        rows += [f"expires = {self.written}"] if self.written else []
        return "\n".join(rows) + "\n"


def _lets_in(ring: Any, tokens: list[_Token], usual: Any) -> None:
    errors, refusals = import_module(f"{PACKAGE}.errors"), _part("refusals")
    for token in tokens:
        for text in token.texts:
            ask = partial(ring.account, f"Bearer {text}")
            if token.end is not None and token.end <= datetime.now(UTC):
                _refused(ask, token.name, errors.TokenExpiredError)
                continue
            account = ask()
            assert account.name == token.name, f"{token.name} is taken for {account.name}"
            for name in _QUOTAS:
                want = token.quota.get(name, getattr(usual, name))
                got = getattr(account.quota, name)
                assert got == want, f"{name} of {token.name} is {got}, not {want}"
            assert account.quota.observes == token.observes, f"{token.name} observes"
        for header in (token.texts[0], f"bearer {token.texts[0]}", f"Bearer {token.texts[0]}x", ""):
            _refused(partial(ring.account, header), "", refusals.Refused)


def _files(rng: Rng) -> None:
    tokens, quotas = _part("tokens"), _part("quotas")
    usual = quotas.Quota(sessions=7, weight=3.0)
    drawn = [_Token(rng, n) for n in range(int(rng.integers(1, 5)))]
    with tempfile.TemporaryDirectory() as folder:
        path, stamp = Path(folder) / "tokens.toml", 1_000_000_000

        def write(text: str, mode: int = 0o600) -> None:
            nonlocal stamp
            path.write_text(text)
            path.chmod(mode)
            # Each version of the file has a time of its own.
            stamp += 10
            os.utime(path, (stamp, stamp))

        def tables(some: list[_Token]) -> str:
            return "\n".join(t.table(tokens.hash_of) for t in some)

        write(tables(drawn))
        ring = tokens.Keyring(tokens.read_tokens(path, usual), usual, path)
        assert ring.wanted, "no token is needed"
        _lets_in(ring, drawn, usual)
        more = [*drawn[1:], _Token(rng, 8)]
        write(tables(more))
        ring.refresh()
        _lets_in(ring, more, usual)
        gone = f"Bearer {drawn[0].texts[0]}"
        _refused(partial(ring.account, gone), "", _part("refusals").Refused)
        write("[tokens.")
        assert "stay as they were" in _logged(ring.refresh), "a wrong file is not told"
        _lets_in(ring, more, usual)
        one = more[-1].table(tokens.hash_of)
        wrong = {
            "": "one at least", "x = 1\n" + one: "nothing else",
            one + one.replace("8", "9", 1): "twice",
            one + "speed = 3\n": "speed", one + 'memory = "much"\n': "memory",
            one + "observes = 1\n": "observes", '[tokens."-a"]\nsha256 = "0"': "a name is",
            '[tokens.a]\nsha256 = "0"': "sha256 is", "[tokens.a]\nsha256 = []": "sha256 is",
            f'[tokens.a]\nsha256 = "{"0" * 64}"\nexpires = "2030-01-01"': "without quotes",
        }  # fmt: skip
        if "observes" in one or "memory" in one:
            wrong = {t: why for t, why in wrong.items() if why not in ("observes", "memory")}
        for text, why in wrong.items():
            write(text)
            _refused(partial(tokens.read_tokens, path, usual), why)
        if os.name == "posix":
            write(one, 0o620)
            _refused(partial(tokens.read_tokens, path, usual), "others can write")
    made = tokens.new_token("g").splitlines()
    text = made[0].rpartition("=")[2]
    assert made[-1] == f'sha256 = "{tokens.hash_of(text)}"', f"{made}"


def _access(rng: Rng) -> None:
    """Options of a server, which are refused where anybody would get in."""
    access = _part("access")
    parser = argparse.ArgumentParser()
    access.add_access(parser, 8470)
    access.add_tokens(parser)
    with tempfile.TemporaryDirectory() as folder:
        one, several = Path(folder) / "token", Path(folder) / "tokens.toml"
        secret = "s" * int(rng.integers(16, 40))
        one.write_text(f"{secret}\n")
        drawn = _Token(rng, 1)
        several.write_text(drawn.table(_part("tokens").hash_of))
        for path in (one, several):
            path.chmod(0o600)
        for _ in range(16):
            host = str(rng.choice(["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "gpu.example"]))
            use = {k: bool(rng.random() < 0.4) for k in ("one", "several", "free", "tls", "plain")}
            port = int(rng.integers(0, 1 << 16))
            given = ["--host", host, "--port", str(port)]
            given += ["--token-file", str(one)] * use["one"]
            given += ["--tokens-file", str(several)] * use["several"]
            given += ["--no-token"] * use["free"] + ["--tls", "a", "b"] * use["tls"]
            given += ["--plain"] * use["plain"] + ["--quota-sessions", "5"]
            local = host in ("127.0.0.1", "localhost", "[::1]")
            ways = use["one"] + use["several"] + use["free"]
            options = parser.parse_args(given)
            ask = partial(access.access_of, options)
            if ways > 1:
                _refused(ask, "not both")
            elif use["free"] and not local:
                _refused(ask, "for 127.0.0.1 only")
            elif not ways:
                _refused(ask, "needs --token-file")
            elif not local and not use["tls"] and not use["plain"]:
                _refused(ask, "--plain says")
            else:
                token, made = ask()
                assert token == (secret if use["one"] else None), f"{given}: token {token}"
                want = {"host": host, "port": port}
                want |= {"ssl_certfile": "a", "ssl_keyfile": "b"} if use["tls"] else {}
                assert made == want, f"{given}: {made}, not {want}"
                ring = access.keyring_for(options, token)
                assert ring.wanted == (not use["free"]), f"{given}: wanted {ring.wanted}"
                if not use["several"]:
                    account = ring.account(f"Bearer {secret}")
                    assert account.quota.sessions == 5, f"{given}: {account.quota}"
                    assert account.quota.observes, f"{given}: it sees nothing"
        for text, why in {"short": "or more", "s" * 20 + " s": "or more"}.items():
            one.write_text(text)
            _refused(partial(access.read_token, one), why)
        one.write_text(secret)
        one.chmod(0o640)
        if os.name == "posix":
            _refused(partial(access.read_token, one), "others can read")
        _refused(partial(access.read_token, Path(folder) / "none"), "cannot be read")


class _Way:
    """The way to a server that offers."""

    def __init__(self, there: Any) -> None:
        self.there, self.closed = there, False

    def message(self, method: str, path: str) -> Any:
        return self.there.redeem(path.rpartition("/")[2])

    def content(self, method: str, path: str) -> bytes:
        *_, name, offset = path.split("/")
        return bytes(self.there.piece(name, int(offset)))

    def close(self) -> None:
        self.closed = True


def _offers(rng: Rng) -> None:
    """Values that go from one server to another, once each."""
    handing, quotas = _part("handing"), _part("quotas")
    errors, peer = import_module(f"{PACKAGE}.errors"), "https://one:1"
    chunk = import_module(f"{PACKAGE}.frames").CHUNK
    accounts = [quotas.Account(n, quotas.Quota(memory=4 * chunk)) for n in "ab"]
    ways: list[_Way] = []
    one = handing.Handing(3 * chunk, (), lambda peer: None)

    def connect(peer: str) -> _Way:
        ways.append(_Way(one))
        return ways[-1]

    other = handing.Handing(3 * chunk, (peer + "/",), connect)
    held = {"a": 0, "b": 0}
    sizes = [1, 255, 65_536, chunk - 1, chunk, chunk + 1, 2 * chunk + 3]
    secrets: list[tuple[str, bytes]] = []
    for n in rng.permutation(sizes)[:4].tolist():
        account = accounts[int(rng.integers(2))]
        content = rng.bytes(n)
        if held[account.name] + n > 3 * chunk:
            _refused(partial(one.offer, memoryview(content), account), f"{3 * chunk} bytes",
                     errors.LimitError)  # fmt: skip
            continue
        secrets.append((one.offer(memoryview(content), account), content))
        held[account.name] += n
        found = {a.name: a.memory.nbytes for a in accounts}
        assert found == held, f"{found} bytes are counted, not {held}"
    for k in rng.permutation(len(secrets)).tolist():
        secret, content = secrets[k]
        _refused(partial(other.fetch, "https://two:1", secret, len(content)), "and no other")
        _refused(partial(other.fetch, peer, "../" + secret, len(content)), "letters and digits")
        got = other.fetch(peer, secret, len(content))
        assert bytes(got) == content, f"{len(content)} bytes come otherwise"
        _refused(partial(other.fetch, peer, secret, len(content)), "nothing is offered")
    assert len(ways) == bool(secrets), f"{len(ways)} ways to one server"
    last = one.offer(memoryview(b"abc"), accounts[0])
    _refused(partial(other.fetch, peer, last, 4), "where 4 are needed", FormatError)
    one.forget_old()
    assert {a.name: a.memory.nbytes for a in accounts} == {**held, "a": held["a"] + 3}
    one.close()
    other.close()
    left = [a.memory.nbytes for a in accounts]
    assert left == [0, 0], f"{left} bytes are counted of offers that are gone"
    assert all(w.closed for w in ways), "a way stays open"


def _audit(rng: Rng) -> None:
    audit, count = _part("audit"), int(rng.integers(2, 6))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.log"
        before = [b"", b'{"what": "whole"}\n', b'{"what": "a ha'][int(rng.integers(3))]
        path.write_bytes(before)
        log = audit.AuditLog(path)
        wants = []
        for n in range(count):
            nbytes, known = int(rng.integers(0, 1 << 34)), bool(rng.random() < 0.6)
            row = {"token": "anna" if known else None, "peer": f"10.0.0.{n}", "what": f"do{n}",
                   "digest": "00ff" if rng.random() < 0.5 else None, "bytes": nbytes,
                   "result": "ok"}  # fmt: skip
            log.write(row["what"], row["token"], row["peer"], "ok", nbytes=nbytes,
                      digest=row["digest"], session="s1", nothing=0)  # fmt: skip
            wants.append({**row, "session": "s1"})
        log.close()
        lines = path.read_bytes()[len(before) :].lstrip(b"\n").splitlines()
        assert len(lines) == count, f"{len(lines)} lines after {before!r}, not {count}"
        for line, want in zip(lines, wants, strict=True):
            found = json.loads(line)
            made = datetime.fromisoformat(found.pop("time"))
            assert abs((datetime.now(UTC) - made).total_seconds()) < 60, f"made at {made}"
            assert found == want, f"{found} is written, not {want}"
        log = audit.AuditLog(path)
        log.write("one", "anna", "here", "ok")
        path.rename(path.with_suffix(".old"))
        log.write("two", "anna", "here", "ok")
        for _ in range(70):
            log.write("knock", None, "there", "401")
        log.close()
        lines = path.read_bytes().splitlines()
        assert json.loads(lines[0])["what"] == "two", f"{lines[0]!r} after the file was renamed"
        strangers = len(lines) - 1
        assert 50 <= strangers < 70, f"{strangers} of 70 lines about strangers"
    secret = f"s{rng.integers(1 << 30)}"
    assert secret not in audit.alias(secret)
    assert audit.alias(secret) == audit.alias(secret) != audit.alias(secret + "x")


def _sums(rng: Rng) -> None:
    """Checksums of contents of several parts, begun and waited for."""
    sums = import_module(f"{PACKAGE}.checksums")
    for size in (0, 1, 65_535, 65_537, int(rng.integers(1, 9)) * 300_000 + 7):
        content, before = rng.bytes(size), int(rng.integers(0, 2**32))
        want = zlib.crc32(content, before)
        count = int(rng.integers(1, 6))
        ways: dict[str, Callable[[Any, int], int]] = {
            "at once": sums.crc32, "begun": lambda c, b: int(sums.begun(c, b)()),
        }  # fmt: skip
        if size:
            ways[f"in {count} parts"] = partial(sums.by_parts, count=count)
        for way, make in ways.items():
            got = make(content, before)
            assert got == want, f"the checksum of {size} bytes {way} is {got:x}, not {want:x}"


_SUBJECTS: Final[dict[str, Callable[[Rng], None]]] = {
    "files-of-tokens": _files, "options-of-servers": _access, "offered-values": _offers,
    "audit-logs": _audit, "checksums": _sums,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    for turn in range(_TURNS):
        try:
            _SUBJECTS[name](np.random.default_rng([place.seed, 951, len(name), turn]))
        except CalorError as error:
            raise AssertionError(f"{name}: {error}") from error


def operated_servers() -> Iterator[Check]:
    """Yield the checks, if calor-http is installed."""
    if find_spec(PACKAGE) is None:
        return
    for name, run in _SUBJECTS.items():
        yield Check(
            kind="devices",
            subject=name,
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, run),
            looks=True,
        )
