"""Many clients of a server of devices for a long time, and whether it stays as it was.

A few clients at a time live lives that are drawn; one asks for little all the time, and its waits
are those that a small user has beside the others. Now and then two tokens keep the device busy, of
which one has twice the weight of the other. The server's figures are taken meanwhile.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from typing import Any

import numpy as np

from remote import Measured
from soaking.lives import LIVES, SMALL, TWO, live
from soaking.watching import Pauses, Served, nursery, untyped, wait_until
from soaking.work import KINDS, Undisturbed

LEASE = 8.0
# The seconds for which an offer is held for other servers, and some more.
OFFERED = 90.0
# The seconds of a time in which two tokens keep the device busy, and between two such times.
RUSH, BETWEEN = 6.0, 240.0
SEEDS = 24
# What is promised: growth of memory from the first quarter to the last one as a share, the seconds
# of the longest wait of who asks little, and the share of twice the weight beside once.
GROWTH, SLOWEST, SHARE = 0.10, 5.0, (1.4, 2.8)
NAMES = ("anna", "bert", "small", "two", "old", "steady", "watch")


def tokens_file(folder: Path, tokens: dict[str, str]) -> Path:
    """Write the tokens of a crowd with their quotas; return the file."""
    from calor_http.server.tokens import hash_of

    quotas = {
        "bert": "weight = 2",
        "small": f"memory = {SMALL}",
        "two": f"sessions = {TWO}",
        "old": "expires = 2001-01-01",
        "watch": "observes = true",
        "anna": "sessions = 48",
        "steady": "sessions = 2",
    }
    path = folder / "tokens.toml"
    text = [f'[tokens.{n}]\nsha256 = "{hash_of(t)}"\n{quotas[n]}\n' for n, t in tokens.items()]
    path.write_text("\n".join(text), "utf-8")
    path.chmod(0o600)
    return path


def steady(address: str, device: str, token: str, path: Path, ends: Any) -> None:
    """Ask for little until the end; write how long each answer took."""
    import calor
    import calor_http
    from calor.errors import DeviceLostError

    os.environ["CALOR_HTTP_TOKEN"] = token
    there = calor.device(f"{address}/{device}")
    zeros = np.zeros(100, np.float32)
    with calor.device(there), path.open("w") as file:
        add = calor.jit(lambda x: x + 1)
        while not ends.wait(0.25):
            began = monotonic()
            # Where the machine stood still for longer than a lease, the lease is over.
            with suppress(DeviceLostError):
                assert add(calor.asarray(zeros))[0].item() == 1.0
            file.write(f"{began:.6f} {monotonic():.6f}\n")
    calor_http.close(there)


def busy(address: str, device: str, token: str, seconds: float) -> None:
    """Keep the device busy for a while."""
    import calor
    import calor_http

    os.environ["CALOR_HTTP_TOKEN"] = token
    there = calor.device(f"{address}/{device}")
    with calor.device(there):
        step = calor.jit(lambda x: calor.tanh(x @ x))
        x = calor.asarray(np.eye(640, dtype=np.float32))
        end = monotonic() + seconds
        while monotonic() < end:
            y = x
            for _ in range(16):
                y = step(y)
            y[0, 0].item()
        del x, y
    calor_http.close(there)


class Crowd:
    """A crowd at a server.

    Parameters
    ----------
    device : str
        The device that the server has.
    folder : Path
        Where files are written.
    seed : int
        What lives are drawn with.
    names : collection of str, optional
        The lives that are drawn.
    seeds : int, optional
        How many pieces of work of each kind there are.
    """

    def __init__(
        self,
        device: str,
        folder: Path,
        seed: int,
        names: Collection[str] = tuple(LIVES),
        seeds: int = SEEDS,
    ) -> None:
        self._names = list(names)
        self._device = device
        self._folder = folder
        self._rng = random.Random(seed)
        self.tokens = {name: f"the-token-of-{name}-{seed}" for name in NAMES}
        self.lives = folder / "lives.jsonl"
        self._waits = folder / "waits.txt"
        self.lives.unlink(missing_ok=True)
        undisturbed = Undisturbed(device)
        self._known = {f"{k} {s}": undisturbed.of(k, s) for k in KINDS for s in range(seeds)}
        self._processes = nursery("soaking.crowd", device)
        self.samples: list[list[float]] = []
        self.shares: list[float] = []
        self.lived: Counter[str] = Counter()
        self.server = Served(
            [
                "serve", "--devices", device,
                "--tokens-file", str(tokens_file(folder, self.tokens)),
                "--lease-seconds", str(LEASE), "--audit-log", str(folder / "audit.jsonl"),
                "--header-seconds", "2", "--body-seconds", "5",
            ],
            folder,
        )  # fmt: skip

    def run(self, minutes: float, beside: int, pause: float) -> dict[str, Any]:
        """Let the crowd live for a while, so many at a time; return what was seen."""
        with self.server as server, Pauses() as self._pauses:
            ends = self._processes.Event()
            given = server.address, self._device, self.tokens["steady"], self._waits, ends
            small = self._processes.Process(target=steady, args=given)
            small.start()
            began = last = rushed = monotonic()
            lives: list[Any] = []
            while monotonic() - began < 60 * minutes:
                lives = [life for life in lives if life.is_alive()]
                if len(lives) < beside:
                    lives.append(self.born())
                if monotonic() - last >= min(5.0, 3 * minutes):
                    last = monotonic()
                    self._sample(last - began)
                if monotonic() - rushed >= min(BETWEEN, 20 * minutes):
                    rushed = monotonic()
                    self._rush()
                sleep(pause * self._rng.random())
            for life in lives:
                life.join(120)
            self._sample(monotonic() - began)
            ends.set()
            small.join(60)
            self._drained = wait_until(self._empty, OFFERED + 4 * LEASE)
            sleep(1.0)
            self._sample(monotonic() - began)
            status, metrics = (
                server.status(self.tokens["watch"]),
                server.metrics(self.tokens["watch"]),
            )
            alive = [life for life in (*lives, small) if life.is_alive()]
            for life in alive:
                life.kill()
        return self._seen(status, metrics, len(alive))

    def born(self, name: str | None = None) -> Any:
        """Start a client, by default of a life that is drawn; return its process."""
        if name is None:
            (name,) = self._rng.choices(self._names, [LIVES[n][1] for n in self._names])
        seed = self._rng.randrange(1 << 30)
        given = self.server.address, self._device, self.tokens, self._known, seed
        life = self._processes.Process(target=live, args=(name, self.lives, *given))
        life.start()
        self.lived[name] += 1
        return life

    def _rush(self) -> None:
        """Keep the device busy by two tokens of unlike weights; note how it was shared."""
        before = self._seconds()
        given = self.server.address, self._device
        tokens = [self.tokens[name] for name in ("anna", "bert") for _ in range(3)]
        rush = [self._processes.Process(target=busy, args=(*given, t, RUSH)) for t in tokens]
        for process in rush:
            process.start()
        for process in rush:
            process.join(10 * RUSH)
        after = self._seconds()
        self.shares.append((after["bert"] - before["bert"]) / (after["anna"] - before["anna"]))

    def _seconds(self) -> dict[str, float]:
        found = self.server.status(self.tokens["watch"])["tokens"]
        return {token["name"]: token["device_seconds"] for token in found}

    def _sample(self, seconds: float) -> None:
        known = self.server.figures()
        status = self.server.status(self.tokens["watch"])
        held = sum(token["bytes"] for token in status["tokens"])
        sample = [seconds, known.resident, known.files, known.threads]
        self.samples.append([*sample, len(status["sessions"]), held])

    def _empty(self) -> bool:
        status = self.server.status(self.tokens["watch"])
        return not status["sessions"] and not any(token["bytes"] for token in status["tokens"])

    def _seen(self, status: Any, metrics: str, alive: int) -> dict[str, Any]:
        lines = [json.loads(line) for line in self.lives.read_text("utf-8").splitlines()]
        errors: Counter[str] = Counter()
        done: Counter[str] = Counter()
        wrong: list[str] = []
        for line in lines:
            errors.update(line["errors"])
            done.update(line["done"])
            wrong += line["wrong"]
        times = [list(map(float, line.split())) for line in self._waits.read_text().splitlines()]
        waits = sorted(b - a for a, b in times if not self._pauses.during(a, b))
        return {
            "lived": dict(self.lived),
            "done": dict(done),
            "errors": dict(errors),
            "wrong": wrong,
            "hanging": alive,
            "untyped": untyped(self.server.log(), metrics)
            + sum(count for name, count in errors.items() if name.startswith("untyped")),
            "waits_s": {
                "count": len(waits),
                "p50": waits[len(waits) // 2],
                "p99": waits[len(waits) * 99 // 100],
                "most": waits[-1],
            },
            "stood_still_s": [round(b - a, 1) for a, b in self._pauses.found],
            "shares": self.shares,
            "drained": self._drained,
            "requests": status["requests"],
            "bytes": status["bytes_in"] + status["bytes_out"],
            "sessions_left": len(status["sessions"]),
            "bytes_left": sum(token["bytes"] for token in status["tokens"]),
            "leftovers": self.server.leftovers(),
            "samples": self.samples,
            "columns": ["seconds", "resident", "files", "threads", "sessions", "bytes held"],
        }


def grown(samples: list[list[float]], column: int) -> float:
    """Return by which share a figure of the last quarter is beyond that of the second one."""
    quarter = max(len(samples) // 4, 1)
    early = median(sample[column] for sample in samples[quarter : 2 * quarter] or samples)
    return median(sample[column] for sample in samples[-quarter:]) / early - 1


def crowd(
    found: Measured,
    one: Crowd,
    minutes: float,
    beside: int,
    pause: float,
) -> dict[str, Any]:
    """Let a crowd live; add the bars to what was found."""
    seen = one.run(minutes, beside, pause)
    samples = seen["samples"]
    found.bar("crowd: wrong results", len(seen["wrong"]), 0, least=False)
    found.bar("crowd: errors without a type", seen["untyped"], 0, least=False)
    found.bar("crowd: clients that hang", seen["hanging"], 0, least=False)
    found.bar("crowd: sessions left", seen["sessions_left"], 0, least=False)
    found.bar("crowd: bytes left in sessions", seen["bytes_left"], 0, least=False)
    found.bar("crowd: growth of resident memory", grown(samples, 1), GROWTH, least=False)
    beyond = samples[-1][2] - samples[0][2]
    found.bar("crowd: files open at the end beyond the start", beyond, 2, least=False)
    found.bar(
        "crowd: slowest small call, in seconds", seen["waits_s"]["most"], SLOWEST, least=False
    )
    if seen["shares"]:
        share = median(seen["shares"])
        found.bar("crowd: share of twice the weight", share, SHARE[0], least=True)
        found.bar("crowd: share of twice the weight, at most", share, SHARE[1], least=False)
    return seen
