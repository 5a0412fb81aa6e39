"""Servers in processes of their own, and what the system knows of a process.

Requirements: a server that was killed starts again at the same port; whatever it writes to disk is
in one folder, so that what a kill leaves behind is found; figures are read, never asked for.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from remote import resident

# How long a server may take to start, and to end.
STARTING, ENDING = 120.0, 30.0
# How often it is looked whether the machine stands still, in seconds.
_LOOK = 0.5
# What uvicorn writes where a server of HTTP raised something that it has no answer for.
UNTYPED = "Exception in ASGI application"


@dataclass(frozen=True, slots=True)
class Figures:
    """What the system knows of a process: resident bytes, open files, threads."""

    resident: int
    files: int
    threads: int


def figures(pid: int) -> Figures:
    """Return the figures of a process."""
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return Figures(resident(pid), files, len(os.listdir(f"/proc/{pid}/task")))


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait until something holds; return whether it did in time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Pauses:
    """Notes when this machine let its programs stand still, which no server can help.

    Attributes
    ----------
    found : list of tuple
        The beginning and the end of each, by the system's clock.
    """

    def __init__(self) -> None:
        self.found: list[tuple[float, float]] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        before = time.monotonic()
        while not self._ends.wait(_LOOK):
            now = time.monotonic()
            if now - before > 4 * _LOOK:
                self.found.append((before, now))
            before = now

    def during(self, began: float, ended: float) -> bool:
        """Return whether there was one in a time."""
        return any(start < ended and began < end for start, end in self.found)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._thread.join()


class Served:
    """A server in a process of its own.

    Parameters
    ----------
    words : sequence of str
        What follows ``python -m calor_http``, without the port.
    folder : Path
        Where its log, its caches and its temporary files are.
    environment : mapping of str to str, optional
        Variables beside those of this process.
    limit : callable, optional
        Called in the new process before the server begins, such as to set limits of the system.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str] | None = None,
        limit: Callable[[], None] | None = None,
    ) -> None:
        self.temporary = folder / "temporary"
        self.temporary.mkdir(parents=True, exist_ok=True)
        self.cache = folder / "cache"
        self._log = folder / "server.log"
        self._words = list(words)
        self._limit = limit
        self._environment = {
            **os.environ,
            "TMPDIR": str(self.temporary),
            "CALOR_CACHE_DIR": str(self.cache),
            **(environment or {}),
        }
        self._port = 0
        self.address = ""
        self.process: subprocess.Popen[str] | _Waited | None = None

    def start(self, waits: bool = True) -> Self:
        """Start the server; return once it listens, unless nobody waits."""
        assert self.process is None or self.process.poll() is not None, "it runs already"
        command = [sys.executable, "-m", "calor_http", *self._words, "--port", str(self._port)]
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
                preexec_fn=self._limit,
            )
        if waits:
            self.listening()
        return self

    def listening(self) -> None:
        """Wait until the server listens."""
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("serving at "):
            raise RuntimeError(f"{' '.join(self._words)} does not serve: {self.log()[-2000:]}")
        self.address = line.split()[-1]
        self._port = int(self.address.rpartition(":")[2])

    def kill(self) -> None:
        """End the server as the system does when memory runs out: without a word."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the server in order; twice, so that it does not wait for its clients."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            self.process.wait(ENDING)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def figures(self) -> Figures:
        """Return the figures of its process."""
        assert self.process is not None
        return figures(self.process.pid)

    def log(self) -> str:
        """Return what it wrote to its log, of all its starts."""
        return self._log.read_text("utf-8", "replace")

    def status(self, token: str | None = None) -> dict[str, Any]:
        """Return its figures of clients and devices, as its page shows them."""
        found: dict[str, Any] = self._get("/v1/status", token).json()
        return found

    def metrics(self, token: str | None = None) -> str:
        """Return its metrics."""
        found: str = self._get("/metrics", token).text
        return found

    def _get(self, path: str, token: str | None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = httpx.get(self.address + path, headers=headers, trust_env=False, timeout=30)
        answer.raise_for_status()
        return answer

    def leftovers(self) -> list[str]:
        """Return the files that a finished process would not have left."""
        found = [path for path in self.temporary.rglob("*") if path.is_file()]
        return [str(path.name) for path in found]


class Born(Served):
    """A server that is forked from a process which has loaded it, so that it starts at once.

    Parameters
    ----------
    words, folder
        As of `Served`.
    processes
        What `nursery` returned.
    """

    def __init__(self, words: Sequence[str], folder: Path, processes: Any) -> None:
        super().__init__(words, folder)
        self._processes = processes

    def start(self, waits: bool = True) -> Self:
        """Start the server; return once it listens, unless nobody waits."""
        command = [*self._words, "--port", str(self._port)]
        there, here = self._processes.Pipe(duplex=False)
        given = command, self._environment, self._log, here
        process = self._processes.Process(target=_serve, args=given)
        process.start()
        here.close()
        self.process = _Waited(process, there)
        if waits:
            self.listening()
        return self


class _Waited:
    """A process of `multiprocessing` as one of `subprocess` looks."""

    def __init__(self, process: Any, there: Any) -> None:
        self._process = process
        self.pid: int = process.pid
        self.stdout = os.fdopen(os.dup(there.fileno()))
        there.close()

    def poll(self) -> int | None:
        """Return the status of a process that has ended."""
        code: int | None = self._process.exitcode
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process."""
        self._process.kill()

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end of the process."""
        self._process.join(timeout)
        if self._process.is_alive():
            raise subprocess.TimeoutExpired("serve", timeout or 0.0)


def _serve(words: list[str], environment: dict[str, str], log: Path, here: Any) -> None:
    """Serve in this process, which tells its address to the one that started it."""
    from calor_http.__main__ import main

    os.environ.update(environment)
    tempfile.tempdir = None
    with log.open("a") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    sys.stdout = os.fdopen(os.dup(here.fileno()), "w", buffering=1)
    here.close()
    sys.exit(main(words))


def nursery(module: str, device: str) -> Any:
    """Return what starts processes that have loaded a module, a server and its device already."""
    # The process that they are forked from looks for it where Python does.
    here = str(Path(__file__).parents[1])
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *(k for k in known if k and k != here)])
    found = multiprocessing.get_context("forkserver")
    # A module that is not there is passed over.
    package = f"calor_{device.partition(':')[0]}"
    served = ("calor_http.server.serving", "calor_nn", f"{package}.plugin", f"{package}.device")
    found.set_forkserver_preload([module, *served])
    return found


def untyped(text: str, metrics: str = "") -> int:
    """Return how many requests ended in no typed error, by a server's log and metrics."""
    told = [line for line in metrics.splitlines() if 'status="500"' in line]
    return text.count(UNTYPED) + sum(int(float(line.split()[-1])) for line in told)
