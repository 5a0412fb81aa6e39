"""What servers tell, and what is left of contents: errors on their way, figures, and memory.

Each kind of error has its status, and comes out as it went in. A server's sums are those of the
bodies that were sent. Contents of sizes around each limit of a way come back as they went, also
after some that were refused or given up, and nothing of them is held when they are gone.
"""

from __future__ import annotations

import gc
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from math import ceil
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np

import calor
from calor import errors
from calor.errors import CalorError, OutOfMemoryError

from .base import Check, Place
from .device_subjects import device_subjects
from .served_devices import PACKAGE, _forget, _server

CONTRACT: Final = "a server tells what happened, and holds nothing that is over"
_TURNS, _REQUESTS = 3, 14
# Sizes at which contents go another way: in a frame, beside it, in pieces, and received in place.
_BORDERS: Final = (1 << 15, 1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22)
_FIELDS: Final = {"op": "add", "index": 3, "axis": 1, "size": 7, "smallest": 2}
Rng = np.random.Generator


def _kinds() -> list[type[CalorError]]:
    """Return all kinds of errors that have a name on the way."""
    found = {**vars(errors), **vars(import_module(f"{PACKAGE}.errors"))}
    return [k for k in found.values() if isinstance(k, type) and issubclass(k, CalorError)]


def _status(kind: type[CalorError], wait: float) -> int:
    """Return the status that answers an error."""
    own = import_module(f"{PACKAGE}.errors")
    if issubclass(kind, own.QuotaError) and wait:
        return 429
    ways = [
        (own.TokenExpiredError, 401), (own.DrainingError, 503), (own.LeaseLostError, 404),
        (own.LimitError, 413), (errors.FormatError, 422),
    ]  # fmt: skip
    return next((status for known, status in ways if issubclass(kind, known)), 400)


def _told(rng: Rng) -> None:
    """Errors as answers, and answers as errors."""
    refusals, own = (import_module(f"{PACKAGE}.{n}") for n in ("server.refusals", "errors"))
    frames = import_module(f"{PACKAGE}.frames")
    for number, kind in enumerate(_kinds()):
        text = f"{kind.__name__} {number}: ½ of {rng.integers(99)}"
        more = {"rule": f"rule-{number}"} if issubclass(kind, errors.ProtocolError) else {}
        made = kind(text, **more)
        details = {n: v for n, v in _FIELDS.items() if hasattr(made, n) and rng.random() < 0.7}
        wait = (
            float(rng.choice([0.0, 0.25, 1.0, 2.5, 61.0])) if hasattr(made, "retry_after") else 0.0
        )
        details |= {"retry_after": wait} if hasattr(made, "retry_after") else {}
        for name, value in details.items():
            setattr(made, name, value)
        status, frame, headers = refusals.refusal(made)
        want = _status(kind, wait)
        assert status == want, (
            f"{kind.__name__} that waits {wait} s has status {status}, not {want}"
        )
        if status in (429, 503):
            after = headers["Retry-After"]
            assert after == str(max(1, ceil(wait))), f"{wait} s are told as {after}"
        else:
            assert "Retry-After" not in headers, f"{kind.__name__} tells to come later"
        back = own.decode_error(frames.unpack(frame, frames.MESSAGE)["error"])
        assert type(back) is kind, f"{kind.__name__} comes out as {type(back).__name__}"
        assert str(back) == str(made), f"{made} comes out as {back}"
        for name, value in {**details, **more}.items():
            got = getattr(back, name)
            assert got == value, f"{name} of {kind.__name__} comes out as {got}, not {value}"
    other = import_module(f"{PACKAGE}.errors").typed(ValueError("a secret"))
    assert type(other) is errors.DeviceError, f"an error of Python is {type(other).__name__}"
    assert "secret" not in str(other), f"a server tells {other}"
    full = own.typed(MemoryError())
    assert isinstance(full, OutOfMemoryError), f"no memory is {type(full).__name__}"
    for damaged in (None, 3, "", {}, {"kind": "Nothing"}, {"kind": "int", "text": 4}):
        assert type(own.decode_error(damaged)) is errors.DeviceError, f"{damaged} is another error"


def _errors(place: Place) -> None:
    for turn in range(_TURNS):
        _told(np.random.default_rng([place.seed, 971, turn]))


def _counted(place: Place) -> None:
    """The sums of a server are those of the bodies that came and went."""
    import httpx

    rng = np.random.default_rng([place.seed, 972])
    frames = import_module(f"{PACKAGE}.frames")
    # More than what follows was in use before.
    calor.eval(calor.ones((1 << 19,), device="numpy"))
    with _server("numpy") as server, httpx.Client(base_url=server.address, timeout=20) as http:
        answers: list[httpx.Response] = []

        def ask(method: str, path: str, content: bytes = b"") -> httpx.Response:
            answers.append(http.request(method, path, content=content))
            return answers[-1]

        hello = frames.pack({"version": 1})
        name = frames.unpack(ask("POST", "/v1/sessions", hello).content, frames.MESSAGE)["session"]
        number = 1
        for _ in range(_REQUESTS):
            way, path = int(rng.integers(4)), f"/v1/sessions/{name}/requests/{number}"
            if way == 0:
                ask("POST", "/v1/sessions/nobody/requests/1", frames.pack([["sync", 0]]))
            elif way == 1:
                ask("POST", path, rng.bytes(int(rng.integers(20, 90))))
            else:
                data = rng.bytes(4 * int(rng.integers(1, 2000)))
                up = ["up", number, 0, "float32", [len(data) // 4], data]
                ask("POST", path, frames.pack([up, ["read", number, 0, 900 + number]]))
                number += 1
        told = ask("GET", "/v1/status").json()
        # Who looks at figures is not counted in them.
        before = answers[:-1]
        # Nothing is read of a request for a session that there is not.
        read = [a for a in before if a.status_code != 404]
        want = {
            "requests": len(before), "bytes_in": sum(len(a.request.content) for a in read),
            "bytes_out": sum(len(a.content) for a in before),
        }  # fmt: skip
        got = {n: told[n] for n in want}
        assert got == want, f"a server tells {got}, and {want} came and went"
        device = calor.device("numpy")
        memory, row = device.memory, told["devices"][0]
        assert (row["peak"], row["limit"]) == (memory.peak, memory.limit), f"{row} of {memory}"
        assert 0 < row["in_use"] <= row["peak"], f"{row['in_use']} bytes in use"
        statuses = Counter(str(a.status_code) for a in before)
        text = ask("GET", "/metrics").text
        found: Counter[str] = Counter()
        for code, count in re.findall(
            r'_requests_total{route="\w+",status="(\d+)"} ([\d.]+)', text
        ):
            found[code] += int(float(count))
        assert found == statuses, f"the statuses {dict(found)} are told of {dict(statuses)}"


def _sessions(server: Any) -> int:
    """Return the bytes that the sessions of a server hold, contents on their way included."""
    return sum(s.account.memory.nbytes for s in list(server.server.sessions.values()))


def _read(made: Any, wanted: Any) -> None:
    same = made.numpy().tobytes() == wanted.tobytes()
    assert same, f"{wanted.size} bytes come back otherwise"


def _limited(device: Any, array: Any, limit: int, fits: bool) -> None:
    """Require that contents are taken, or refused, where no more bytes may be in use."""
    calor.set_memory_limit(limit, device)
    try:
        calor.eval(calor.asarray(array))
        taken = True
    except OutOfMemoryError:
        taken = False
    finally:
        calor.set_memory_limit(None, device)
    told = f"{array.nbytes} more bytes within {limit}"
    assert taken == fits, f"{told} are {'taken' if taken else 'refused'}"


def _contents(place: Place) -> None:
    """Contents of sizes around each border, refused and given up ones, and what is left."""
    rng = np.random.default_rng([place.seed, 973])
    with _server("numpy") as server:
        device = calor.device(f"{server.address}/numpy")
        held: list[tuple[Any, Any]] = []
        with calor.device(device):
            for k in rng.permutation(3 * len(_BORDERS)):
                size = _BORDERS[k // 3] + int(k) % 3 - 1
                array = np.frombuffer(rng.bytes(size), np.uint8)
                live, way = sum(a.nbytes for _, a in held), rng.random()
                if way < 0.4:
                    # Beside what is held there, the half of it has no room.
                    _limited(device, array, live + size // 2, fits=False)
                    _limited(device, array, live + size + (1 << 12), fits=True)
                elif way < 0.5:
                    # Given up before anybody reads it.
                    calor.asarray(array)
                held.append((calor.asarray(array), array))
                _read(*held[-1])
                if rng.random() < 0.5:
                    held.pop(int(rng.integers(len(held))))
            most = sum(a.nbytes for _, a in held)
            gc.collect()
            calor.synchronize(device)
            there = _sessions(server)
            assert most <= there <= most + (1 << 16), f"{there} bytes are held for {most}"
            held.clear()
            gc.collect()
            calor.synchronize(device)
            calor.eval(calor.asarray([1.0]))
            calor.synchronize(device)
            left = _sessions(server)
            assert left <= 1 << 12, f"{left} bytes are held by nobody"
        _forget()
        import_module(PACKAGE).close(device)


def _found(rng: Rng, folder: Path) -> None:
    """The token of a client is that of the environment, or of its server's line."""
    found = import_module(f"{PACKAGE}.client.tokens")
    servers = [f"host-{n}.example:{rng.integers(1, 9999)}" for n in range(3)]
    lines, wants = [], {}
    for server in servers:
        if rng.random() < 0.7:
            wants[server] = f"token-{rng.integers(1 << 30)}"
            lines += [f"{' ' * int(rng.integers(2))}{server} {wants[server]} "]
        lines += [str(rng.choice(["", "# nothing", f"{server}", f"{server}0 another"]))]
    path = folder / "calor" / "http-tokens"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines), "utf-8")
    path.chmod(0o600)
    told = {"XDG_CONFIG_HOME": str(folder), "CALOR_HTTP_TOKEN": "", "CALOR_HTTP_TOKENS": ""}
    if rng.random() < 0.5:
        named = path.rename(folder / f"named-{rng.integers(1 << 30)}")
        told["CALOR_HTTP_TOKENS"], path = str(named), named
    with patch.dict(os.environ, told):
        for server in servers:
            got = found.token_for(server)
            assert got == wants.get(server), f"{server} has the token {got} in {lines}"
        with patch.dict(os.environ, {"CALOR_HTTP_TOKEN": " of-all "}):
            got = found.token_for(servers[0])
            assert got == "of-all", f"the environment's token is {got!r}"
        if os.name == "posix":
            path.chmod(0o640)
            refused = False
            try:
                found.token_for(servers[0])
            except errors.DeviceError:
                refused = True
            assert refused, "a file that others can read is taken"
        path.unlink()
        assert found.token_for(servers[0]) is None, "there is a token where there is no file"


def _tokens(place: Place) -> None:
    """Tokens that clients find, and whose session it is when a server is opened again."""
    rng = np.random.default_rng([place.seed, 974])
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(_TURNS):
            _found(rng, Path(folder))
    tokens, quotas = (import_module(f"{PACKAGE}.server.{n}") for n in ("tokens", "quotas"))
    names = [str(n) for n in rng.permutation(["anna", "bert", "cara"])]
    entries = [tokens.Entry(n, (tokens.hash_of(f"the-token-of-{n}"),), quotas.Quota())
               for n in names]  # fmt: skip
    with _server("numpy", keyring=tokens.Keyring(entries)) as server:
        for name in (*names, names[0]):
            with patch.dict(os.environ, {"CALOR_HTTP_TOKEN": f"the-token-of-{name}"}):
                device = calor.device(f"{server.address}/numpy")
                with calor.device(device):
                    calor.eval(calor.ones(3))
                owners = [s.account.name for s in list(server.server.sessions.values())]
                assert owners == [name], f"sessions of {owners} are open, not of {name}"
                _forget()
                import_module(PACKAGE).close(device)


_SUBJECTS: Final[dict[str, Callable[[Place], None]]] = {
    "errors-on-the-way": _errors, "figures-of-servers": _counted,
    "contents-around-borders": _contents, "tokens-of-clients": _tokens,
}  # fmt: skip


def figures_of_servers() -> Iterator[Check]:
    """Yield the checks, if calor-http is installed."""
    yield from device_subjects(PACKAGE, _SUBJECTS, CONTRACT)
