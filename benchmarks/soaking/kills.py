"""Kills at random moments: of servers of devices, of servers of models, and of clients.

A kill is SIGKILL, as by a system that is out of memory. The client of a killed server goes on by
itself from what it stored; what a killed client had on the server is freed with its lease.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx

from remote import Measured
from soaking.crowd import grown
from soaking.watching import Born, Served, figures, nursery, untyped, wait_until
from soaking.work import KINDS, Told, Undisturbed, do, normal

# How long a client waits for a server that is away, and how long it may wait in all: a request may
# find the server away, and the session that begins then as well.
PATIENCE = 4.0
LIMIT = 2 * PATIENCE + 5.0
LEASE = 3.0
SEEDS = 40
# What a process may hold beyond its beginning: files, and a share of resident memory.
FILES, GROWTH = 3, 0.15


def client(
    address: str, device: str, seed: int, path: Path, ends: Any, at: Any, vanishes: bool
) -> None:
    """Do work that is drawn until the end; write how it went.

    Parameters
    ----------
    address, device : str
        The server, and its device.
    seed : int
        What the work is drawn with.
    path : Path
        The file of the figures.
    ends : Event
        Set at the end.
    at : Value
        Where the kind of the work is written while it is done; 0 before any.
    vanishes : bool
        Whether the client ends without a word.
    """
    import os

    import calor
    import calor_http

    os.environ["CALOR_HTTP_PATIENCE"] = str(PATIENCE)
    rng = random.Random(seed)
    told, undisturbed = Told(), Undisturbed(device)
    there = calor.device(f"{address}/{device}")
    samples = []
    while not ends.is_set():
        kind = rng.choice(KINDS)
        at.value = 1 + KINDS.index(kind)
        try:
            do(told, there, kind, rng.randrange(SEEDS), undisturbed)
        except Exception as error:
            told.note(error)
        known = figures(os.getpid())
        samples.append([sum(told.done.values()), known.resident, known.files, known.threads])
    path.write_text(json.dumps({**told.data(), "samples": samples}), "utf-8")
    if not vanishes:
        calor_http.close(there)


class Kills:
    """Kills of one kind.

    Parameters
    ----------
    device : str
        The device that servers have.
    folder : Path
        Where files are written.
    seed : int
        What moments are drawn with.
    """

    def __init__(self, device: str, folder: Path, seed: int) -> None:
        self._device = device
        self._folder = folder
        self._rng = random.Random(seed)
        self._processes = nursery("soaking.kills", device)
        # What was going on at the moments of the kills.
        self.moments: Counter[str] = Counter()

    def _client(self, server: Served, name: str, seed: int) -> tuple[Any, Any, Any, Path]:
        ends, at = self._processes.Event(), self._processes.Value("i", 0)
        path = self._folder / f"{name}.json"
        given = server.address, self._device, seed, path, ends, at, False
        process = self._processes.Process(target=client, args=given)
        process.start()
        return process, ends, at, path

    def _note(self, at: Any) -> None:
        self.moments[KINDS[at.value - 1] if at.value else "beginning"] += 1

    def of_servers(self, kills: int) -> dict[str, Any]:
        """Kill a server again and again, while two clients work on it."""
        words = ["serve", "--devices", self._device, "--no-token", "--lease-seconds", str(LEASE)]
        server = Born(words, self._folder, self._processes)
        starts = []
        with server:
            clients = [self._client(server, f"client{n}", 10 * n + 1) for n in range(2)]
            wait_until(lambda: all(at.value for _, _, at, _ in clients), 120)
            for _ in range(kills):
                sleep(self._rng.expovariate(1.5))
                for _, _, at, _ in clients:
                    self._note(at)
                server.kill()
                # Now and then it stays away for longer than a client waits.
                if self._rng.random() < 0.05:
                    sleep(1.5 * PATIENCE)
                began = monotonic()
                server.start()
                starts.append(monotonic() - began)
            sleep(1.0)
            for _, ends, _, _ in clients:
                ends.set()
            for process, _, _, _ in clients:
                process.join(20 * LIMIT)
            hanging = sum(process.is_alive() for process, _, _, _ in clients)
            for process, _, _, _ in clients:
                process.kill()
            left = self._left(server)
            texts = untyped(server.log(), server.metrics())
        told = [json.loads(p.read_text()) for _, _, _, p in clients if p.is_file()]
        return {
            "kills": kills,
            "moments": dict(self.moments),
            "clients": told,
            "hanging": hanging,
            "untyped": texts,
            "start_s": sum(starts) / max(len(starts), 1),
            **left,
        }

    def _left(self, server: Served) -> dict[str, Any]:
        """Return what is left of clients that are gone, after their leases."""

        def empty() -> bool:
            status = server.status()
            return not status["sessions"] and not any(t["bytes"] for t in status["tokens"])

        wait_until(empty, 4 * LEASE + 30)
        status = server.status()
        return {
            "sessions_left": len(status["sessions"]),
            "bytes_left": sum(token["bytes"] for token in status["tokens"]),
            "leftovers": server.leftovers(),
            "cache_parts": len([*server.cache.rglob(".*")]),
        }

    def of_clients(self, kills: int) -> dict[str, Any]:
        """Kill clients of a server, while another one works on."""
        words = ["serve", "--devices", self._device, "--no-token", "--lease-seconds", str(LEASE)]
        samples = []
        with Born(words, self._folder, self._processes) as server:
            stays = self._client(server, "stays", 1)
            wait_until(lambda: bool(stays[2].value), 120)
            # Where another session begins, the address of who stays is kept apart.
            for number in range(kills):
                victim = self._client(server, "victim", 1000 + number)
                wait_until(lambda: bool(victim[2].value), 60)  # noqa: B023
                sleep(self._rng.expovariate(2.0))
                self._note(victim[2])
                victim[0].kill()
                victim[0].join()
                known = server.figures()
                samples.append([number, known.resident, known.files, known.threads])
            stays[1].set()
            stays[0].join(20 * LIMIT)
            hanging = int(stays[0].is_alive())
            stays[0].kill()
            left = self._left(server)
            sleep(1.0)
            last = server.figures()
            texts = untyped(server.log(), server.metrics())
        return {
            "kills": kills,
            "moments": dict(self.moments),
            "clients": [json.loads(stays[3].read_text())],
            "hanging": hanging,
            "untyped": texts,
            "samples": samples,
            "resident": [samples[0][1], last.resident],
            "files": [samples[0][2], last.files],
            "threads": [samples[0][3], last.threads],
            **left,
        }

    def of_model_servers(self, kills: int) -> dict[str, Any]:
        """Kill a server of models while it loads them, and while it answers."""
        model = self._model()
        words = ["model", str(model), "--versions", "all", "--device", self._device]
        server = Served(words, self._folder)
        x = normal(5, 3, 16)
        item = {"name": "input0", "shape": [3, 16], "datatype": "FP32", "data": x.tolist()}
        told, answers, statuses = Told(), Counter[str](), Counter[int]()

        def ask(seconds: float) -> None:
            end = monotonic() + seconds
            with httpx.Client(base_url=server.address, trust_env=False, timeout=LIMIT) as client:
                while monotonic() < end:
                    for version in "12":
                        path = f"/v2/models/layers/versions/{version}/infer"
                        with told.waits(), suppress(httpx.TransportError):
                            answer = client.post(path, json={"inputs": [item]})
                            statuses[answer.status_code] += 1
                            if answer.status_code == 200:
                                answers[f"{version} {answer.json()['outputs'][0]['data']}"] += 1
                    sleep(0.02)

        with server:
            wait_until(lambda: self._ready(server), 120)
            ask(1.0)
            undisturbed = set(answers)
            for _ in range(kills):
                server.kill()
                loads = self._rng.random() < 0.5
                server.start(waits=not loads)
                if loads:
                    # Somewhere between the first import and the last model.
                    sleep(self._rng.random() * 4.0)
                    self.moments["loading"] += 1
                else:
                    ask(self._rng.random() * 2.0)
                    self.moments["answering"] += 1
            server.kill()
            server.start()
            ready = wait_until(lambda: self._ready(server), 120)
            ask(1.0)
            texts = untyped(server.log())
        return {
            "kills": kills,
            "moments": dict(self.moments),
            "ready": ready,
            "answers": sum(answers.values()),
            "different": len(set(answers) - undisturbed),
            "statuses": {str(status): count for status, count in statuses.items()},
            "slowest_s": told.slowest,
            "untyped": texts,
            "leftovers": server.leftovers(),
            "cache_parts": len([*server.cache.rglob(".*")]),
        }

    def _ready(self, server: Served) -> bool:
        with suppress(httpx.TransportError):
            answer = httpx.get(f"{server.address}/v2/health/ready", trust_env=False, timeout=30)
            ready: bool = answer.status_code == 200
            return ready
        return False

    def _model(self) -> Path:
        import calor
        from calor import nn
        from calor.graph.file import save
        from calor_http.model.freezing import frozen

        folder = self._folder / "layers"
        for version in (1, 2):
            calor.random.seed(version)
            layers = nn.Sequential(nn.Linear(16, 512), nn.Tanh(), nn.Linear(512, 8)).eval()
            path = folder / str(version) / "model.calor"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(save(frozen(layers, calor.ones((3, 16)))))
        return folder


def kills(
    found: Measured, folder: Path, device: str, seed: int, count: int, models: int
) -> dict[str, Any]:
    """Kill servers and clients; add the bars to what was found."""
    made: dict[str, Any] = {}
    for name, number in (("servers", count), ("clients", count), ("model_servers", models)):
        place = folder / name
        place.mkdir(exist_ok=True)
        one = Kills(device, place, seed)
        seen = made[name] = getattr(one, f"of_{name}")(number)
        told = f"kills of {name.replace('_', ' ')}"
        clients = seen.get("clients", ())
        wrong = seen.get("different", 0) + sum(len(c["wrong"]) for c in clients)
        found.bar(f"{told}: wrong results", wrong, 0, least=False)
        bare = seen["untyped"] + sum(
            count
            for c in clients
            for error, count in c["errors"].items()
            if error.startswith("untyped")
        )
        found.bar(f"{told}: errors without a type", bare, 0, least=False)
        found.bar(f"{told}: files left", len(seen["leftovers"]), 0, least=False)
        slowest = max([seen.get("slowest_s", 0.0), *(c["slowest_s"] for c in clients)])
        found.bar(f"{told}: the longest wait, in seconds", slowest, LIMIT, least=False)
        if not clients:
            continue
        found.bar(f"{told}: clients that hang", seen["hanging"], 0, least=False)
        found.bar(f"{told}: sessions left", seen["sessions_left"], 0, least=False)
        found.bar(f"{told}: bytes left in sessions", seen["bytes_left"], 0, least=False)
        if "files" in seen:
            beyond = seen["files"][1] - seen["files"][0]
            found.bar(f"{told}: files open beyond the start", beyond, FILES, least=False)
            growth = grown(seen["samples"], 1)
            found.bar(f"{told}: growth of resident memory", growth, GROWTH, least=False)
    return made
