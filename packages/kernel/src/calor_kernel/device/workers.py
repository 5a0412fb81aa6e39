"""Parallel compilation of kernels, in this process and in worker processes.

Requirements: building and compiling holds the interpreter's lock, so threads would not help. A
worker takes a second to start and to load a compiler, so this process compiles meanwhile, and a few
cold kernels are compiled here alone. A worker takes a job only when it is as quick as this process,
which would wait for it otherwise. Workers are started while a large graph is planned, if kernels
of this process were cold before. A program without a main guard must not run twice, so workers are
started directly, not by multiprocessing. A job that a worker cannot do is done here, with the same
result.

Jobs that are likely to come are begun early, by workers alone: these are idle while a graph is
planned. All others come first.

A worker reports that it is ready, reads a preparation and jobs from its standard input and writes
answers to its standard output, each as a length-prefixed pickle. CALOR_COMPILE_WORKERS is the
number of workers beside this process, 0 for none.
"""

from __future__ import annotations

import atexit
import gc
import os
import pickle
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import count
from queue import PriorityQueue
from typing import IO, Final

from calor_kernel.contract.work import Build
from calor_kernel.device.images import ROOMS
from calor_kernel.device.protocol import Toolchain
from calor_kernel.ir.nodes import Block, Kernel

# Fewer cold kernels than this start no workers. A larger batch is usually followed by others, so
# workers that start too late for it serve the next.
FEW: Final = 6
# More processes that start at once delay each other, and this one.
_MOST: Final = 8
_READY: Final = b"ready"
# What a worker takes first: the end of its work, jobs that somebody waits for, others.
_END, _AWAITED, _EARLY = range(3)
# A worker's garbage collection threshold in new objects, about a few kernels.
_OBJECTS: Final = 200_000


@dataclass(frozen=True, slots=True)
class Job:
    """A kernel to compile."""

    build: Build
    toolchain: Toolchain
    features: frozenset[str]


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a worker loads before its first job: a compiler, and modules by name."""

    toolchain: Toolchain
    modules: tuple[str, ...]

    @staticmethod
    def of(toolchain: Toolchain) -> Preparation:
        """Return the preparation for kernels as this process has built."""
        rooms = tuple(f"calor_kernel.{room}." for room in ROOMS)
        known = [*sys.modules]  # Another thread may import meanwhile.
        return Preparation(toolchain, tuple(name for name in known if name.startswith(rooms)))

    def load(self) -> None:
        """Load everything."""
        for name in self.modules:
            import_module(name)
        self.toolchain.prepare()


Answer = tuple[bytes, Kernel]


class Task:
    """A job to be done; ``answer`` None after ``done`` returns it to this process."""

    __slots__ = ("_free", "answer", "done", "job")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.answer: Answer | None = None
        self.done = threading.Event()
        self._free = threading.Lock()

    def take(self) -> bool:
        """Return whether the caller is the first to take the task, and so does it."""
        return self._free.acquire(blocking=False)


def image_of(job: Job) -> Answer:
    """Build and compile a kernel; raises CompileError."""
    kernel = job.build.kernel(job.features)
    return job.toolchain.compile(job.toolchain.source(kernel), kernel.name), kernel


def compile_tasks(tasks: Sequence[Task]) -> list[Answer]:
    """Return the image and kernel of each task; many are shared with workers."""
    return _POOL.run(tasks, _count())


def begin_tasks(tasks: Sequence[Task]) -> None:
    """Let workers that run do tasks while nobody waits for others."""
    _POOL.begin(tasks)


def expect_jobs(toolchain: Toolchain) -> None:
    """Start workers, and load what the toolchain needs there, for jobs that are likely to come."""
    workers = _count()
    if workers:
        _POOL.expect(toolchain, workers)


def _count() -> int:
    """Return the most workers beside this process."""
    named = os.environ.get("CALOR_COMPILE_WORKERS")
    if not sys.executable:
        return 0
    if named is not None:
        return int(named)
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    return min(cores - 1, _MOST)


class _Worker:
    """A compiling process, and the thread that talks to it."""

    def __init__(self, pool: Workers, number: int, preparation: Preparation) -> None:
        self.pool = pool
        self.preparation = preparation
        self._start()
        self.ended = False
        name = f"calor-compile-{number}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        """Send tasks to the process while it answers."""
        while self._is_ready() and self._prepare():
            while (task := self.pool.next()) is not None:
                try:
                    task.answer = self._ask(task.job)
                except (OSError, ValueError, EOFError, pickle.UnpicklingError, AttributeError):
                    break
                finally:
                    task.done.set()
            if self.ended:
                return
            self.close()
            self._start()
        if not self.ended:
            self.pool.leave(self)

    def _prepare(self) -> bool:
        """Let the process load what jobs will need; return whether it lives."""
        try:
            self._ask(self.preparation)
        except (OSError, ValueError, EOFError, pickle.UnpicklingError, AttributeError):
            return False
        return True

    def _ask(self, job: Job | Preparation) -> Answer | None:
        try:
            message = pickle.dumps(job)
        except (pickle.PicklingError, AttributeError, TypeError):
            return None  # A kernel known only to this process.
        _send(self._input, message)
        answer: Answer | None = pickle.loads(_receive(self._output))
        return answer

    def _is_ready(self) -> bool:
        try:
            return _receive(self._output) == _READY
        except (OSError, ValueError, EOFError):
            return False

    def _start(self) -> None:
        import subprocess  # Most programs start no process.

        paths = os.pathsep.join(p for p in sys.path if p)
        # A worker needs no BLAS threads for NumPy.
        environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input, self._output = self.process.stdin, self.process.stdout

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for stream in (self._input, self._output):
            with suppress(OSError):  # The process may have died before.
                stream.close()


class Workers:
    """Worker processes, started on demand and kept."""

    def __init__(self) -> None:
        self.forget()

    def run(self, tasks: Sequence[Task], workers: int) -> list[Answer]:
        """Do tasks here and in at most ``workers`` processes; raises CompileError."""
        with self._lock:
            if len(tasks) >= FEW:
                self._grow(tasks[0].job.toolchain, min(workers, len(tasks) - 1))
            # Kernels of many parameters, which are joined launches, take the longest.
            ordered = sorted(tasks, key=lambda task: -len(task.job.build.signature))
            if self._all:
                self._put(ordered, _AWAITED)
            try:
                for mine in ordered:
                    if mine.take():
                        mine.answer = image_of(mine.job)
                        mine.done.set()
                return [self._answer(task) for task in tasks]
            finally:
                for task in tasks:
                    task.take()  # After an error nobody waits for the other answers.

    def begin(self, tasks: Sequence[Task]) -> None:
        """Let workers do tasks when they have no others."""
        if self._all:
            self._put(tasks, _EARLY)

    def _put(self, tasks: Sequence[Task | None], order: int) -> None:
        """Offer tasks to the workers; one that is offered twice is done once."""
        for task in tasks:
            self.tasks.put((order, next(self._numbers), task))

    def next(self) -> Task | None:
        """Wait for a task that nobody does, and take it; None at the end."""
        while True:
            _, _, task = self.tasks.get()
            if task is None or task.take():
                return task

    def expect(self, toolchain: Toolchain, workers: int) -> None:
        """Start ``workers`` processes that load what a toolchain needs."""
        with self._lock:
            self._grow(toolchain, workers)

    def _grow(self, toolchain: Toolchain, workers: int) -> None:
        """Start processes until there are so many; the caller holds the lock."""
        if len(self._all) < workers and not self._fails:
            preparation = Preparation.of(toolchain)
            while len(self._all) < workers and not self._fails:
                self._all.append(_Worker(self, len(self._all) + 1, preparation))

    def _answer(self, task: Task) -> Answer:
        task.done.wait()
        return image_of(task.job) if task.answer is None else task.answer

    def leave(self, worker: _Worker) -> None:
        """Drop a worker that does not start, and start no others."""
        self._fails = True
        worker.close()
        with suppress(ValueError):
            self._all.remove(worker)

    def close(self) -> None:
        """End all processes."""
        for worker in self._all:
            worker.ended = True
        self._put([None] * len(self._all), _END)
        for worker in list(self._all):
            worker.close()
        self.forget()

    def forget(self) -> None:
        """Forget all processes; in a forked child they belong to the parent."""
        self._lock = threading.Lock()
        self.tasks: PriorityQueue[tuple[int, int, Task | None]] = PriorityQueue()
        self._numbers = count()
        self._all: list[_Worker] = []
        self._fails = False


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
    # A compiler's output must not be taken for an answer.
    os.dup2(2, 1)
    # Existing objects stay alive; collecting them would take as long as compiling.
    gc.freeze()
    gc.set_threshold(_OBJECTS)
    _send(answers, _READY)
    while True:
        try:
            message = _receive(source)
        except EOFError:
            return
        _send(answers, pickle.dumps(_answer(message)))


def _answer(message: bytes) -> tuple[bytes, Kernel] | None:
    """Return an image and the kernel without its body; None if the job cannot be done here."""
    try:
        job = pickle.loads(message)
        if isinstance(job, Preparation):
            job.load()
            return None
        image, kernel = image_of(job)
    except Exception:
        return None  # The caller does the job, and raises its error.
    return image, replace(kernel, body=Block())
