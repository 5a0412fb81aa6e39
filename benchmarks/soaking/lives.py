"""What clients of a crowd do, each in a process of its own: they work, vanish, and misuse.

Requirements: a client knows what it should be told, so that an error of another kind, or none, is
seen; each adds one line to a file of all, unless it vanishes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import calor
import calor_http
from calor_http.errors import (
    MemoryQuotaError,
    QuotaError,
    TokenError,
    TokenExpiredError,
    decode_error,
)
from calor_http.frames import MESSAGE, pack, seal, unpack
from soaking.work import KINDS, MIB, WORK, Told, normal

# The bytes that the token "small" may hold, and the sessions that "two" may have.
SMALL, TWO = 4 * MIB, 2


class Life:
    """One client.

    Parameters
    ----------
    address : str
        The server.
    device : str
        Its device.
    tokens : mapping of str to str
        The tokens by their names.
    known : mapping of str to str
        What work comes to undisturbed: digests by kind and seed.
    seed : int
        What the client draws with.
    """

    def __init__(
        self,
        address: str,
        device: str,
        tokens: Mapping[str, str],
        known: Mapping[str, str],
        seed: int,
    ) -> None:
        self.address = address
        self.rng = random.Random(seed)
        self.told = Told()
        self._device = device
        self._tokens = tokens
        self._known = known

    def device(self, token: str) -> Any:
        """Return the device, opened with a token."""
        os.environ["CALOR_HTTP_TOKEN"] = self._tokens.get(token, token)
        with self.told.waits():
            return calor.device(f"{self.address}/{self._device}")

    def raw(self, token: str) -> httpx.Client:
        """Return a client that sends whatever it wants."""
        headers = {"Authorization": f"Bearer {self._tokens.get(token, token)}"}
        return httpx.Client(base_url=self.address, headers=headers, trust_env=False, timeout=60)

    def session(self, client: httpx.Client) -> str:
        """Begin a session; return its address, or raise what the server says in its place."""
        answer = self.asked(client, "POST", "/v1/sessions", pack({"version": 1}))
        found = unpack(answer.content, MESSAGE)
        if answer.status_code != 200:
            raise decode_error(found["error"])
        return f"/v1/sessions/{found['session']}"

    def asked(self, client: httpx.Client, method: str, path: str, content: bytes) -> httpx.Response:
        """Send a request; its answer is a typed one."""
        with self.told.waits():
            answer = client.request(method, path, content=content)
        if answer.status_code >= 500 and answer.status_code != 503:
            raise RuntimeError(f"status {answer.status_code} for {method} {path}")
        if answer.status_code not in (200, 202):
            told = unpack(answer.content, MESSAGE)["error"]["kind"]
            self.told.errors[told] += 1
        return answer

    # Those who work.
    def works(self, token: str = "", kinds: tuple[str, ...] = KINDS, rounds: int = 2) -> None:
        """Do work, compare its bits, and end the session or leave it to its lease."""
        device = self.device(token or self.rng.choice(("anna", "bert")))
        for _ in range(rounds):
            kind, seed = self.rng.choice(kinds), self.rng.randrange(len(self._known) // len(KINDS))
            found = WORK[kind](self.told, device, seed)
            self.told.done[kind] += 1
            if found != self._known[f"{kind} {seed}"]:
                self.told.wrong.append(f"{kind} {seed}")
        if self.rng.random() < 0.8:
            calor_http.close(device)
        else:
            # The interpreter would end the session in order.
            self.leave()

    def one_by_one(self) -> None:
        """Work by single requests, as through a proxy."""
        os.environ["CALOR_HTTP_STREAM"] = "0"
        self.works()

    def compressed(self) -> None:
        """Work with compressed contents."""
        os.environ["CALOR_HTTP_ZSTD"] = "1"
        self.works(kinds=("upload", "download", "loading"))

    def fresh(self) -> None:
        """Send graphs that nobody has sent before, with constants and sizes of their own."""
        device = self.device("anna")
        for _ in range(3):
            size, factor = self.rng.randrange(1, 5000), self.rng.random()
            given = normal(size, size)
            constant = np.float32(factor) * np.ones(3, np.float32)
            with self.told.waits(), calor.device(device):
                made = calor.jit(lambda x: x * calor.asarray(constant)[0] + x)  # noqa: B023
                found = made(calor.asarray(given)).numpy()
            if not np.allclose(found, given * constant[0] + given, rtol=1e-5, atol=1e-6):
                self.told.wrong.append(f"fresh {size}")
            self.told.done["fresh"] += 1
        calor_http.close(device)

    # Those who vanish.
    def vanishes(self) -> None:
        """Work, and be killed at some moment."""
        signal.setitimer(signal.ITIMER_REAL, 0.02 + self.rng.expovariate(2.0))
        signal.signal(signal.SIGALRM, lambda number, frame: os.kill(os.getpid(), signal.SIGKILL))
        while True:
            self.works(rounds=20)

    def leave(self) -> None:
        """End the process without a word to the server."""
        self.report()
        os._exit(0)

    def cuts(self) -> None:
        """Leave in the midst of a handshake, a message, a body or an answer."""
        with self.raw("anna") as client:
            session = self.session(client)
        host, port = self.address.partition("//")[2].rsplit(":", 1)
        header = f"Authorization: Bearer {self._tokens['anna']}\r\n"
        upgrade = (
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: abcd\r\n\r\n"
        )
        heads = (
            "GET /v1/sess",
            f"POST /v1/sessions HTTP/1.1\r\nHost: a\r\n{header}Content-Length: 100\r\n\r\nabc",
            f"PUT {session}/blobs/7/0 HTTP/1.1\r\nHost: a\r\n{header}Content-Length: 99999\r\n\r\n",
            f"GET {session}/stream HTTP/1.1\r\nHost: a\r\n{header}{upgrade}",
        )
        for head in heads:
            with socket.create_connection((host, int(port)), timeout=20) as way:
                way.sendall(head.encode() + b"\x82\xff\x00\x00" * self.rng.randrange(3))
                time.sleep(self.rng.random() / 5)
        self.told.done["cuts"] += 1

    def abandons(self) -> None:
        """Have a large value offered and fetch a part, offer one to others, and go."""
        with self.raw("anna") as client:
            session = self.session(client)
            up = ["up", 1, 0, "uint8", [MIB], self.rng.randbytes(MIB)]
            commands = [up, ["read", 1, 0, 2], ["offer", 1, 0], ["offer", 1, 0]]
            path = f"{session}/requests/1"
            answer = self.asked(client, "POST", path, pack(commands))
            secret = unpack(answer.content, MESSAGE)[2]
            self.asked(client, "GET", f"{session}/blobs/2/0", b"")
            self.asked(client, "POST", f"/v1/offers/{secret}", b"")
            self.asked(client, "PUT", f"{session}/blobs/9/0", seal(bytes(MIB)))
        self.told.done["abandons"] += 1

    # Those who misuse.
    def strangers(self) -> None:
        """Come without a right token."""
        for token, wanted in (("nobody-knows-this-token", TokenError), ("old", TokenExpiredError)):
            try:
                self.device(token)
            except wanted:
                self.told.done["refused token"] += 1
            else:
                self.told.wrong.append(f"{token} got in")

    def takes_too_much(self) -> None:
        """Hold more than the quota, be told so, free it, and go on."""
        device = self.device("small")
        with calor.device(device), self.told.waits():
            held = [calor.zeros((SMALL // 16,), dtype="float32") for _ in range(3)]
            calor.eval(held)
            try:
                for _ in range(4):
                    held.append(calor.zeros((SMALL // 16,), dtype="float32"))
                    held[-1].numpy()
                self.told.wrong.append("a quota of memory was passed")
            except MemoryQuotaError:
                self.told.done["refused memory"] += 1
            held.clear()
            assert (calor.ones((8,)) + 1).sum().item() == 16.0
        calor_http.close(device)

    def asks_too_often(self) -> None:
        """Send more requests a second, and begin more sessions, than the token may."""
        os.environ["CALOR_HTTP_PATIENCE"] = "0.2"
        with self.raw("two") as client:
            sessions: list[str] = []
            try:
                # Another client may have begun some with this token.
                for _ in range(TWO):
                    sessions.append(self.session(client))
                self.device("two")
                self.told.wrong.append("a quota of sessions was passed")
            except QuotaError:
                self.told.done["refused session"] += 1
            finally:
                for session in sessions:
                    self.asked(client, "DELETE", session, b"")

    def garbage(self) -> None:
        """Send bytes at random to addresses that there are, and that there are not."""
        with self.raw("bert") as client:
            session = self.session(client)
            paths = (
                f"{session}/requests/1", f"{session}/requests/99", f"{session}/blobs/1/0",
                "/v1/sessions", "/v1/sessions/none/requests/1", "/v1/offers/none", "/v1/../x",
            )  # fmt: skip
            for _ in range(12):
                body = self.rng.randbytes(self.rng.randrange(200))
                content = seal(body) if self.rng.random() < 0.5 else body
                method = self.rng.choice(("POST", "PUT", "GET", "DELETE"))
                path = self.rng.choice(paths)
                if method == "DELETE" and path == session:
                    continue
                self.asked(client, method, path, content)
            commands = [["run", 1, [2], [3], []], ["read", 9, 0, 1], ["up", 1, 7, "x", [-1], b""]]
            self.asked(client, "POST", f"{session}/requests/1", pack(commands))
            self.asked(client, "DELETE", session, b"")
        self.told.done["garbage"] += 1

    def report(self) -> None:
        """Add a line about itself to the file of all clients."""
        text = json.dumps({"life": self.name, **self.told.data()}) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(file, text.encode())
        os.close(file)

    name = ""
    path = Path()


# The lives, and how often they are drawn.
LIVES: dict[str, tuple[Callable[[Life], None], int]] = {
    "works": (Life.works, 8),
    "one by one": (Life.one_by_one, 2),
    "compressed": (Life.compressed, 2),
    "fresh": (Life.fresh, 3),
    "vanishes": (Life.vanishes, 4),
    "cuts": (Life.cuts, 2),
    "abandons": (Life.abandons, 2),
    "strangers": (Life.strangers, 1),
    "takes too much": (Life.takes_too_much, 2),
    "asks too often": (Life.asks_too_often, 1),
    "garbage": (Life.garbage, 2),
}


def live(name: str, path: Path, *given: Any) -> None:
    """Live a life in this process, and report it."""
    life = Life(*given)
    life.name, life.path = name, path
    try:
        LIVES[name][0](life)
    except BaseException as error:
        life.told.note(error)
    life.report()
