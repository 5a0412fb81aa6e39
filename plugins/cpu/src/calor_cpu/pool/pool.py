"""The process's threads: how many there are, when they start, stop, and survive a fork.

Requirements: workers are Python threads that enter native code once and stay there, so they run on
every system and debuggers know them; they start at the first launch that wants them; a forked
child begins without any; none is inside when the interpreter goes down. Libraries with threads of
their own (NumPy's BLAS) are left as they are: workers sleep between launches, so the two meet only
when both are called at once; set OPENBLAS_NUM_THREADS where that happens.
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
# So many workers are kept off the caller's processor. Of more, one that waits for it costs little,
# and telling them all would cost much.
_NEAR = 15
# A daemon thread inside a plan keeps the interpreter from ending for so long at most.
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
            f"CALOR_CPU_THREADS={text!r} is not a number of threads; set it to 1 or more, "
            f"{PROCESSORS} at most, or unset"
        )
    return int(text)


class Pool:
    """Threads that run plans together; the calling thread is one of them.

    ``threads``: how many, with the caller; None asks :func:`default_threads`. ``compile`` makes an
    object file from LLVM text. ``spin``: nanoseconds that a thread looks for work before it sleeps.
    ``target``: how threads sleep, when not as this system's do. Any number of Python threads may
    run plans at once: one has the workers, the others do their records alone meanwhile.

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
        """The number of threads that a launch is divided among, with the calling one."""
        return int(self._state.threads)

    @property
    def started(self) -> bool:
        """Whether the workers run."""
        return bool(self._state.started)

    def set_threads(self, threads: int) -> None:
        """Change the number of threads; launches that run meanwhile end on the old ones."""
        count = _checked(threads)
        with self._lock:
            self._stop()
            self._state.threads = count

    def start(self) -> None:
        """Start the workers, unless they run. A plan that wants them calls this.

        Where the system gives fewer threads than asked for, these are what there is.
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
        """Send the workers home and wait until they have left; the next launch starts them."""
        with self._lock:
            self._stop()

    def close(self) -> None:
        """End every run at its next record and send the workers home, for good.

        Plans can still be run afterwards, in the calling thread alone. A pool whose workers run
        lives until it is closed.
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
        """Raise what ends a plan that the pool cancelled.

        At the interpreter's end only daemon threads run plans; they end without a word.
        """
        if self._state.hold:
            raise SystemExit
        raise DeviceError("the pool was closed while a plan ran; its results are undefined")

    def _exit(self) -> None:
        """Close for the interpreter's end.

        Daemon threads that run plans later hold the interpreter's lock, so that none is in native
        code while what it uses is taken down.
        """
        self._state.hold = 1
        self.close()

    def _work(self) -> None:
        # A method, so that a pool whose workers run is not collected.
        self.native.worker(self.address)

    def _place(self) -> None:
        """Say which threads the workers are, and where they may run."""
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
        """Begin anew in a forked child: its threads are gone, whatever they held is free."""
        threads, spin = self._state.threads, self._state.spin
        ctypes.memset(self.address, 0, ctypes.sizeof(PoolState))
        self._state.threads, self._state.spin = threads, spin
        self.native.prepare(self.address)
        self._workers.clear()
        self._lock = threading.RLock()


_POOLS: weakref.WeakSet[Pool] = weakref.WeakSet()


def _checked(threads: int) -> int:
    if not 1 <= threads <= PROCESSORS:
        raise ArgumentError(f"a pool has 1 thread or more, {PROCESSORS} at most, not {threads}")
    return threads


def _before_fork() -> None:
    # The interpreter warns of forks beside other threads, and those workers do no harm elsewhere.
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
