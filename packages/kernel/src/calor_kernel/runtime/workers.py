"""Compiling several kernels at once, in processes of their own.

Requirements: building and compiling holds the interpreter's lock, so threads would not help; a
worker costs half a second to start, so few cold kernels are compiled here; a program without a
guard around its main code must not run twice, so workers are started by themselves and not by
multiprocessing; whatever a worker cannot do is done here, with the same result.

A worker reads jobs from its standard input and writes answers to its standard output, each as a
pickle behind its length. CALOR_COMPILE_WORKERS says how many there are, 0 for none.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import IO, Any, Final

from calor_kernel.ir.nodes import Block, Kernel
from calor_kernel.library.work import Build
from calor_kernel.runtime.device import Toolchain

# Fewer cold kernels than this are compiled here: starting workers takes as long.
FEW: Final = 12
_MOST: Final = 8


@dataclass(frozen=True, slots=True)
class Job:
    """A kernel to compile."""

    build: Build
    toolchain: Toolchain
    features: frozenset[str]


def image_of(job: Job) -> tuple[bytes, Kernel]:
    """Build and compile a kernel; CompileError."""
    kernel = job.build.kernel(job.features)
    return job.toolchain.compile(job.toolchain.source(kernel), kernel.name), kernel


def compile_jobs(jobs: Sequence[Job]) -> list[tuple[bytes, Kernel]]:
    """Return the image and kernel of each job, compiled in workers where there are many."""
    workers = _count(len(jobs))
    if workers < 2:
        return [image_of(job) for job in jobs]
    return _POOL.run(jobs, workers)


def _count(jobs: int) -> int:
    """Return how many workers are worth their start."""
    named = os.environ.get("CALOR_COMPILE_WORKERS")
    if jobs < FEW or not sys.executable:
        return 0
    if named is not None:
        return int(named) if jobs > 1 else 0
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    return min(cores, _MOST)


class _Worker:
    """A process that compiles."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def compile(self, message: bytes) -> Any:
        """Return the answer to a pickled job: image and outline, or None where it cannot."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        _send(self.process.stdin, message)
        return pickle.loads(_receive(self.process.stdout))

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(OSError):  # It may have died before.
            self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        with suppress(OSError):
            self.process.stdout.close()


class Workers:
    """Processes that compile, started when they are needed and kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._all: list[_Worker] = []

    def run(self, jobs: Sequence[Job], workers: int) -> list[tuple[bytes, Kernel]]:
        """Compile jobs in at most so many processes; what one cannot do is done here."""
        with self._lock:
            while len(self._all) < min(workers, len(jobs)):
                worker = _Worker()
                self._all.append(worker)
                self._idle.put(worker)
            with ThreadPoolExecutor(len(self._all)) as threads:
                found = list(threads.map(self._remote, jobs))
        return [
            image_of(job) if answer is None else answer
            for job, answer in zip(jobs, found, strict=True)
        ]

    def _remote(self, job: Job) -> tuple[bytes, Kernel] | None:
        try:
            message = pickle.dumps(job)
        except (pickle.PicklingError, AttributeError, TypeError):
            return None  # A kernel that only this process knows.
        worker = self._idle.get()
        try:
            answer: tuple[bytes, Kernel] | None = worker.compile(message)
        except (OSError, EOFError, pickle.UnpicklingError, AttributeError):
            self._all.remove(worker)
            worker.close()
            worker = _Worker()
            self._all.append(worker)
            answer = None
        self._idle.put(worker)
        return answer

    def close(self) -> None:
        """End all processes."""
        for worker in self._all:
            worker.close()
        self.forget()

    def forget(self) -> None:
        """Know of no process any more; in a forked child they are the parent's."""
        self._lock = threading.Lock()
        self._idle = SimpleQueue()
        self._all = []


_POOL = Workers()
atexit.register(_POOL.close)
os.register_at_fork(after_in_child=_POOL.forget)


def _send(stream: IO[bytes], data: bytes) -> None:
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    head = stream.read(8)
    data = stream.read(int.from_bytes(head, "little"))
    if len(head) < 8 or len(data) < int.from_bytes(head, "little"):
        raise EOFError
    return data


def serve() -> None:
    """Answer jobs until the input ends; the body of a worker."""
    source, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # What a compiler prints must not be taken for an answer.
    os.dup2(2, 1)
    while True:
        try:
            message = _receive(source)
        except EOFError:
            return
        _send(answers, pickle.dumps(_answer(message)))


def _answer(message: bytes) -> tuple[bytes, Kernel] | None:
    """Return an image and the kernel without its body; None where the job cannot be done here."""
    try:
        job = pickle.loads(message)
        image, kernel = image_of(job)
    except Exception:
        return None  # The caller does it, and raises what there is to raise.
    return image, Kernel(
        kernel.name,
        kernel.parameters,
        Block(),
        kernel.cube,
        kernel.plane,
        kernel.memories,
        kernel.attributes,
    )
