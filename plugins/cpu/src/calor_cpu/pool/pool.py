"""The process's threads: their number, start, end, and behaviour after a fork.

Requirements: workers are Python threads that enter native code once and stay there, so they work on
every system and debuggers know them. They start at the first launch that needs them. A forked child
starts without workers. None is inside when the interpreter shuts down. Libraries with their own
threads (NumPy's BLAS) stay unchanged: workers sleep between launches, so both compete only if both
are called at once; set OPENBLAS_NUM_THREADS then.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
import weakref
from typing import NoReturn

from calor.errors import ArgumentError, DeviceError
from calor_cpu.pool.native import Compile, Native, compile_plainly, load
from calor_cpu.pool.structures import LINE, PROCESSORS, PoolState
from calor_cpu.pool.system import System

_SPIN_NS = 20_000
# Number of workers that are kept off the caller's processor. With more workers, one that waits for
# it costs little, and a change of affinity for all would cost much.
_NEAR = 15
# Longest time in seconds for which a daemon thread inside a plan delays the interpreter's end.
_PATIENCE_S = 5.0


def default_threads() -> int:
    """Return CALOR_CPU_THREADS, or the number of processors that this process may use."""
    text = os.environ.get("CALOR_CPU_THREADS")
    if not text:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if not text.isdecimal() or not 1 <= int(text) <= PROCESSORS:
        raise ArgumentError(
            f"CALOR_CPU_THREADS={text!r} is not a number of threads; set it to a number from 1 to "
            f"{PROCESSORS}, or unset it"
        )
    return int(text)


class Pool:
    """Threads that run plans together; the calling thread is one of them.

    ``threads`` is their number with the caller; None is :func:`default_threads`. ``compile`` makes
    an object file from LLVM text. ``spin`` is the time in nanoseconds for which a thread polls
    before it sleeps. ``target`` selects another system's way to sleep. Any number of Python threads
    may run plans at once: one has the workers, the others run their records alone.

    >>> pool = Pool(2)
    >>> pool.threads
    2
    >>> pool.close()
    """

    def __init__(
        self,
        threads: int | None = None,
        *,
        compile: Compile = compile_plainly,
        spin: int = _SPIN_NS,
        target: System | None = None,
    ) -> None:
        count = _checked(default_threads() if threads is None else threads)
        self.native: Native = load(compile, target)
        memory = ctypes.create_string_buffer(ctypes.sizeof(PoolState) + LINE)
        start = ctypes.addressof(memory)
        self.address = start + -start % LINE
        self._memory = memory
        self._state = PoolState.from_address(self.address)
        self._state.threads = count
        self._state.spin = spin
        self._workers: list[threading.Thread] = []
        self._lock = threading.RLock()
        self._closed = False
        self.native.prepare(self.address)
        _POOLS.add(self)

    @property
    def threads(self) -> int:
        """The number of threads that share a launch, including the calling one."""
        return int(self._state.threads)

    @property
    def started(self) -> bool:
        """Whether the workers run."""
        return bool(self._state.started)

    def set_threads(self, threads: int) -> None:
        """Change the number of threads; running launches finish on the old ones."""
        count = _checked(threads)
        with self._lock:
            self._stop()
            self._state.threads = count

    def start(self) -> None:
        """Start the workers if they do not run. A plan that needs them calls this.

        If the system provides fewer threads than requested, the pool works with these.
        """
        with self._lock:
            if self.started:
                return
            if self._closed:
                self._state.threads = 1
                return
            self._state.stop = 0
            for number in range(1, self.threads):
                worker = threading.Thread(
                    target=self._work,
                    name=f"calor-cpu-{number}",
                    daemon=True,
                )
                try:
                    worker.start()
                except RuntimeError:
                    self._state.threads = number
                    break
                self._workers.append(worker)
            self._place()
            self._state.started = 1 if self._workers else 0

    def stop(self) -> None:
        """Stop the workers and wait for them; the next launch starts them again."""
        with self._lock:
            self._stop()

    def close(self) -> None:
        """End every run at its next record and stop the workers for good.

        Plans still run afterwards, in the calling thread only. A pool with running workers lives
        until it is closed.
        """
        self._closed = True
        self._state.cancel = 1
        end = time.monotonic() + _PATIENCE_S
        while self._state.running and time.monotonic() < end:
            time.sleep(0.001)
        with self._lock:
            self._stop()
            self._state.threads = 1
        self._state.cancel = 0

    def cancelled(self) -> NoReturn:
        """Raise the error of a plan that the pool cancelled.

        At the interpreter's end only daemon threads run plans; they end silently.
        """
        if self._state.hold:
            raise SystemExit
        raise DeviceError("the pool was closed while a plan ran; its results are undefined")

    def _exit(self) -> None:
        """Close at the interpreter's end.

        Daemon threads that run plans later hold the interpreter's lock, so none is in native code
        during the shutdown.
        """
        self._state.hold = 1
        self.close()

    def _work(self) -> None:
        # A bound method, so that a pool with running workers is not collected.
        self.native.worker(self.address)

    def _place(self) -> None:
        """Set the workers' thread ids and their processors."""
        if not hasattr(os, "sched_getaffinity"):
            return
        known = (worker.native_id for worker in self._workers[:_NEAR])
        ids = [number for number in known if number is not None]
        self._ids = (ctypes.c_int32 * max(len(ids), 1))(*ids)
        for word in range(PROCESSORS // 64):
            self._state.allowed[word] = 0
        for number in os.sched_getaffinity(0):
            if number < PROCESSORS:
                self._state.allowed[number // 64] |= 1 << number % 64
        self._state.home = 0
        self._state.ids = ctypes.addressof(self._ids)
        self._state.near = len(ids)

    def _stop(self) -> None:
        if not self._workers:
            return
        self._state.started = 0
        self._state.near = 0
        self.native.halt(self.address)
        for worker in self._workers:
            worker.join()
        self._workers.clear()

    def _forked(self) -> None:
        """Reset in a forked child: its threads are gone, and their locks are free."""
        threads, spin = self._state.threads, self._state.spin
        ctypes.memset(self.address, 0, ctypes.sizeof(PoolState))
        self._state.threads, self._state.spin = threads, spin
        self.native.prepare(self.address)
        self._workers.clear()
        self._lock = threading.RLock()


_POOLS: weakref.WeakSet[Pool] = weakref.WeakSet()


def _checked(threads: int) -> int:
    if not 1 <= threads <= PROCESSORS:
        raise ArgumentError(f"threads is {threads}; pass a number from 1 to {PROCESSORS}")
    return threads


def _before_fork() -> None:
    # The interpreter warns about forks while other threads run; these workers do no harm.
    for pool in tuple(_POOLS):
        pool.stop()


def _after_fork() -> None:
    for pool in tuple(_POOLS):
        pool._forked()


def _at_exit() -> None:
    for pool in tuple(_POOLS):
        pool._exit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
atexit.register(_at_exit)
