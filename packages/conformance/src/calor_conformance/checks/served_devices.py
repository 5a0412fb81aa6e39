"""Served devices: what a device computes at a distance, and what servers allow, count and forget.

Checks of the suite and drawn programs run on the device behind a server in this process. Drawn
histories of accounts, buckets, ledgers, pieces and queues are compared with plain numbers, and a
server's figures with what its clients did.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from time import sleep
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import ALL
from calor.errors import DeviceError
from calor.local import local

from .base import Check, Place
from .device_subjects import device_subjects
from .routed_programs import run_some

CONTRACT: Final = "a served device computes what the device does, for whom it may, and counts it"
PACKAGE: Final = "calor_http"
_ASKED: Final = 30
_TURNS: Final = 6
Rng = np.random.Generator


def _server(*devices: str, **options: Any) -> Any:
    return import_module("calor_http.server.local").LocalServer(*devices, **options)


def _forget() -> None:
    """Drop the traces of devices of servers that are gone."""
    for device in [d for d in local.traces if d.name.startswith("http://")]:
        del local.traces[device]


def _at_a_distance(place: Place) -> None:
    """Checks of the suite, transfers of each dtype, and errors, on a served device."""
    rng = np.random.default_rng([place.seed, 921])
    try:
        calor.device(place.plain.name)
    except DeviceError:
        # A device that is in no registry has no name by which it could be served.
        return
    with _server(place.plain.name) as server:
        device = calor.device(f"{server.address}/{place.plain.name}")
        info, there = place.plain.info, device.info
        assert there.dtypes == info.dtypes, f"{device.name} has the dtypes {there.dtypes}"
        assert there.limits == info.limits, f"{device.name} has the limits {there.limits}"
        with calor.device(device):
            for dtype in ALL:
                if info.dtypes.get(dtype):
                    shape = tuple(int(n) for n in rng.integers(0, 5, int(rng.integers(0, 4))))
                    given = rng.integers(0, 2, shape).astype(dtype.numpy)
                    back = calor.asarray(given).numpy()
                    same = back.dtype == given.dtype and back.tobytes() == given.tobytes()
                    assert same, f"{dtype.name}{list(shape)}: {back.tolist()}"
            large = rng.random(int(rng.integers(1, 4)) * 400_000 + 7).astype(np.float32)
            back = (calor.asarray(large) * 1).numpy()
            assert back.tobytes() == large.tobytes(), "large contents come back otherwise"
        run_some(Place(device, device, place.seed), rng, _ASKED if place.interpreted else 6)
        _forget()
        import_module(PACKAGE).close(device)
        assert not server.server.clients, f"{server.server.clients} clients after the last closed"


class _Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def _buckets(rng: Rng) -> None:
    """Levels that rise with time, beside those of plain numbers."""
    quotas, clock = import_module("calor_http.server.quotas"), _Clock()
    rate, size = float(rng.uniform(0.5, 4)), float(rng.uniform(1, 8))
    bucket, level = quotas.Bucket(rate, size, clock), size
    for _ in range(20):
        passed = float(rng.choice([0.0, 0.1, 1.0, 5.0]))
        clock.now += passed
        level = min(size, level + passed * rate)
        amount = float(rng.uniform(0, size))
        if rng.random() < 0.5:
            wait = bucket.take(amount)
            fits = level >= amount - 1e-9
            want = 0.0 if fits else (amount - level) / rate
            level -= amount if fits else 0.0
            assert abs(wait - want) < 1e-6, f"a bucket says to wait {wait} s, not {want}"
        else:
            bucket.spend(amount)
            level -= amount
            want = 0.0 if level > 0 else (size / 100 - level) / rate
            assert abs(bucket.wait - want) < 1e-6, f"a bucket waits {bucket.wait} s, not {want}"
        assert abs(bucket.level - level) < 1e-6, f"a level of {bucket.level}, not {level}"


def _refused(call: Callable[[], Any], kind: type[Exception]) -> str:
    """Return what a refusal says, or "" where nothing was refused."""
    try:
        call()
    except kind as error:
        return str(error)
    return ""


def _accounts(rng: Rng) -> None:
    """Sessions, requests and bytes of a token, beside plain counts."""
    quotas, errors = import_module("calor_http.server.quotas"), import_module("calor_http.errors")
    most = {name: int(rng.integers(2, 5)) for name in ("sessions", "pending")}
    quota = quotas.Quota(memory=100, **{n: m for n, m in most.items() if rng.random() < 0.7})
    account, share = quotas.Account("anna", quota), 3
    counts, held = {"sessions": 0, "pending": 0}, dict.fromkeys("ab", 0)
    ways = {"sessions": (account.open, account.close), "pending": (account.enter, account.leave)}
    for _ in range(40):
        name = str(rng.choice(["sessions", "pending", "bytes"]))
        if name == "bytes":
            holder, more = str(rng.choice(["a", "b"])), int(rng.integers(1, 60))
            fits = sum(held.values()) + more <= 100
            call = partial(account.reserve, holder, held[holder], more, None)
            told = _refused(call, errors.MemoryQuotaError)
            assert bool(told) != fits, f"{more} bytes beside {held}: {told or 'taken'}"
            assert fits or "100 B" in told, told
            held[holder] += more if fits else 0
            if rng.random() < 0.3:
                held[holder] = int(rng.integers(0, 30))
                account.memory.settle(holder, held[holder])
            total = account.memory.nbytes
            assert total == sum(held.values()), f"{total} bytes are held, not {held}"
            continue
        begin, end = ways[name]
        if rng.random() < 0.4 and counts[name]:
            end()
            counts[name] -= 1
        else:
            fits = counts[name] < (getattr(quota, name) or share)
            told = _refused(partial(begin, share), errors.QuotaError)
            assert bool(told) != fits, f"{name} beside {counts[name]}: {told or 'taken'}"
            counts[name] += fits
        found = getattr(account, name)
        assert found == counts[name], f"{found} {name} are counted, not {counts[name]}"
    account.spent(0.5)
    account.spent(0.25)
    assert account.device_seconds == 0.75, f"{account.device_seconds} s of device time"


def _pieces(rng: Rng) -> None:
    """Contents in pieces that come twice, and of which some do not follow."""
    blobs = import_module("calor_http.server.blobs")
    errors = import_module("calor_http.errors")
    reserved: list[int] = []
    most = int(rng.integers(60, 120))
    made = blobs.Blobs(most, reserved.append, lambda n: np.empty(n, np.uint8))
    whole, there = rng.bytes(most + 40), 0
    for _ in range(25):
        begin = max(0, there - int(rng.integers(0, 9))) + int(rng.random() < 0.2) * 20
        piece = whole[begin : begin + int(rng.integers(1, 20))]
        end = begin + len(piece)
        if begin > there:
            told = _refused(partial(made.add, 1, begin, piece), calor.errors.ArgumentError)
            assert told, f"a piece at {begin} behind {there} bytes is taken"
        elif end > there and end > most:
            assert _refused(partial(made.add, 1, begin, piece), errors.LimitError), f"{end} bytes"
            there = 0
            assert _refused(partial(made.take, 1), errors.LimitError), "why it failed is forgotten"
        else:
            there = max(there, end)
            assert made.add(1, begin, piece) == there, f"{there} bytes are there"
        assert made.nbytes == there, f"{made.nbytes} bytes are held, not {there}"
    if there:
        assert bytes(made.take(1)) == whole[:there], "pieces are joined otherwise"
    made.offer(2, memoryview(whole))
    a, n = int(rng.integers(0, 50)), int(rng.integers(0, 20))
    assert bytes(made.piece(2, a, n)) == whole[a : a + n], "another piece is given"
    made.forget(2)
    assert not made.nbytes, f"{made.nbytes} bytes are held by nobody"
    sums = import_module("calor_http.checksums")
    content, before = rng.bytes(int(rng.integers(1, 500))), int(rng.integers(0, 2**32))
    for count in (1, 2, 3):
        got = sums.by_parts(content, before, count)
        assert got == zlib.crc32(content, before), f"the checksum of {count} parts is {got:x}"


def _turns(rng: Rng) -> None:
    """Who is next is who used least by weight; nobody waits where nobody else is."""
    queueing, quotas = (import_module(f"calor_http.server.{n}") for n in ("queueing", "quotas"))
    weights = [float(w) for w in rng.choice([1.0, 2.0, 4.0], 3)]
    accounts = [quotas.Account(f"t{n}", quotas.Quota(weight=w)) for n, w in enumerate(weights)]
    queue, order = queueing.FairQueue(), []
    queue.enter(accounts[0])
    threads = []
    rounds = 3
    for number, account in enumerate(accounts):
        for _ in range(rounds):

            def work(number: int = number, account: Any = account) -> None:
                queue.enter(account)
                order.append(number)
                queue.leave(1.0)

            thread = threading.Thread(target=work)
            thread.start()
            threads.append(thread)
    while sum(queue.waiting().values()) < 3 * rounds:
        sleep(0)
    assert queue.crowded, "nobody waits"
    queue.leave(0.0)
    for thread in threads:
        thread.join()
    used, left, want = [0.0] * 3, [rounds] * 3, []
    while any(left):
        number = min((n for n in range(3) if left[n]), key=lambda n: used[n])
        want.append(used[number])
        used[number] += 1.0 / weights[number]
        left[number] -= 1
    spent, got = [0.0] * 3, []
    for number in order:
        got.append(spent[number])
        spent[number] += 1.0 / weights[number]
    assert got == want, f"turns {order} of weights {weights}: virtual times {got}, not {want}"
    assert queue.turns == {"t0": rounds + 1, "t1": rounds, "t2": rounds}, queue.turns
    assert queue.seconds == 3.0 * rounds, f"{queue.seconds} s were counted"


def _counted(place: Place) -> None:
    for turn in range(_TURNS):
        for number, history in enumerate((_buckets, _accounts, _pieces, _turns)):
            history(np.random.default_rng([place.seed, 922, turn, number]))


def _allowed(place: Place) -> None:
    """Tokens, limits and figures of a server with two clients."""
    import httpx

    rng = np.random.default_rng([place.seed, 923])
    tokens, quotas = (import_module(f"calor_http.server.{n}") for n in ("tokens", "quotas"))
    frames = import_module("calor_http.frames")
    limits = import_module("calor_http.server.limits").Limits(
        tensor_bytes=4096, clients=3, handles=20, commands=6
    )
    secrets = {"anna": "the-token-of-anna-1", "bert": "the-token-of-bert-2"}
    given = {"anna": quotas.Quota(observes=True), "bert": quotas.Quota(memory=2048)}
    ring = tokens.Keyring(
        [tokens.Entry(n, (tokens.hash_of(s),), given[n]) for n, s in secrets.items()]
    )
    with (
        _server("numpy", keyring=ring, limits=limits) as server,
        httpx.Client(base_url=server.address, timeout=20) as http,
    ):

        def ask(who: str, method: str, path: str, **options: Any) -> httpx.Response:
            headers = {"Authorization": f"Bearer {secrets.get(who, who)}"}
            return http.request(method, path, headers=headers, **options)

        def run(session: str, number: int, who: str, *commands: Any) -> Any:
            path = f"/v1/sessions/{session}/requests/{number}"
            answer = ask(who, "POST", path, content=frames.pack(list(commands)))
            return answer.status_code, frames.unpack(answer.content, frames.MESSAGE)

        assert http.get("/healthz").status_code == 200, "the server is not there"
        hello = frames.pack({"version": 1})
        answer = ask("nobody at all", "POST", "/v1/sessions", content=hello)
        assert answer.status_code == 401, f"an unknown token has status {answer.status_code}"
        open_ = {}
        for who in secrets:
            answer = ask(who, "POST", "/v1/sessions", content=hello)
            told = frames.unpack(answer.content, frames.MESSAGE)
            open_[who] = told["session"]
            assert told["devices"][0][0] == "numpy:0", told["devices"]
            assert told["lease"] == limits.lease_seconds, told
            assert told["commands"] == limits.commands, told
        values, count = {}, 1
        for number in range(1, 5):
            values[number] = rng.bytes(4 * int(rng.integers(1, 9)))
            up = ["up", number, 0, "float32", [len(values[number]) // 4], values[number]]
            status, made = run(open_["bert"], count, "bert", up, ["read", number, 0, 90 + number])
            assert (status, made[-1]) == (200, values[number]), f"{made} for {up}"
            # The same request once more is answered as the first was.
            again = run(open_["bert"], count, "bert", up, ["read", number, 0, 90 + number])
            assert again == (status, made), f"repeated: {again}, not {made}"
            count += 1
        stolen = run(open_["bert"], count, "anna", ["read", 1, 0, 99])
        assert stolen[0] == 404, f"another's session is open: {stolen}"
        path = f"/v1/sessions/{open_['bert']}/requests/{count}"
        many = frames.pack([["drop", [99]]] * (limits.commands + 1))
        answer = ask("bert", "POST", path, content=many)
        assert answer.status_code >= 400, "more commands than are allowed are taken"
        figures = ask("anna", "GET", "/v1/status").json()
        own = ask("bert", "GET", "/v1/status").json()
        assert ask("bert", "GET", "/metrics").status_code == 403, "anybody sees the metrics"
        text = ask("anna", "GET", "/metrics").text
        assert 'calor_http_requests_total{route="requests",status="200"} 8.0' in text, text
        _figures(figures, own, sum(map(len, values.values())))
        for who, session in open_.items():
            assert ask(who, "DELETE", f"/v1/sessions/{session}").status_code == 200
        assert server.server.clients == 0, f"{server.server.clients} sessions are left"


def _figures(every: dict[str, Any], own: dict[str, Any], held: int) -> None:
    """Compare a server's figures with what its clients did."""
    seen = {row["name"]: row for row in every["tokens"]}
    assert set(seen) == {"anna", "bert"}, f"an observer sees {set(seen)}"
    assert [row["name"] for row in own["tokens"]] == ["bert"], f"bert sees {own['tokens']}"
    bert = seen["bert"]
    want = {"sessions": 1, "memory": 2048, "pending": 0, "waiting": 0}
    found = {name: bert[name] for name in want}
    assert found == want, f"of bert {found} is told, not {want}"
    assert bert["bytes"] >= held, f"{bert['bytes']} bytes are counted, and {held} are held"
    # Four requests that were sent twice, one of too many commands, and the session's own.
    assert bert["requests"] == 10, f"{bert['requests']} requests are counted"
    assert bert["turns"] == 4, f"{bert['turns']} turns are counted"
    there = every["devices"][0]
    assert (there["name"], there["bytes"]) == ("numpy:0", bert["bytes"]), there


_SUBJECTS: Final[dict[str, Callable[[Place], None]]] = {
    "a-served-device": _at_a_distance, "served-accounts": _counted, "served-clients": _allowed,
}  # fmt: skip


def served_devices() -> Iterator[Check]:
    """Yield the checks, if calor-http is installed."""
    yield from device_subjects(PACKAGE, _SUBJECTS, CONTRACT)
