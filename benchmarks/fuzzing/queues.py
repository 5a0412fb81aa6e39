"""Calls in the queue of an OpenCL or Vulkan device, timed by the device's clock as a CUDA graph is.

Requirements: the launches of the calls and their buffers are collected once. All calls write to the
same memory, as in a graph: results of their own would fill the caches of a GPU earlier. A sample
queues them all before the device begins the first, so the host's time for a launch hides nothing
and is no part of it. In a pass of wgpu that is so; OpenCL's queue gets other work first. The times
of a sample's begin and end take the device microseconds, so short calls are repeated in a sample.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from fuzzing.families._common import library
from fuzzing.graphs import Call, NotCaptured, engine_of

# A list of launches as a queue recorded it, with its buffers.
Launches = tuple[Any, tuple[Any, ...]]
# The first side of the product that keeps an OpenCL device busy, and its seconds; how often it is
# repeated at most, as a power of 2. Many launches of short work would fill the driver's queue.
_SIDE, _BUSY, _DOUBLED = 64, 2e-3, 8
# Launches that are queued for a sample at most, if calls are repeated: more make the host wait.
_QUEUED = 512


class Timer(Protocol):
    """Times lists of launches on a device."""

    def __call__(self, lists: Sequence[Launches], /) -> float:
        """Return the device's seconds from the first launch to the end of the last."""


class QueueRunner:
    """Lists of launches in a device's queue."""

    on_host = False

    def __init__(self, timer: Timer, lists: Sequence[Launches], units: int, kept: Any) -> None:
        self.timer, self.lists, self.units = timer, lists, units
        self.launches = sum(len(recorded.steps) for recorded, _ in lists)
        # Whose memory the calls write to.
        self.kept = kept
        self.close: Callable[[], Any] = self._drop

    def _drop(self) -> None:
        self.kept, self.lists = None, ()

    def seconds(self, runs: int) -> float:
        """Return the device's seconds of some runs."""
        most, found = max(1, _QUEUED // self.launches), 0.0
        for done in range(0, runs, most):
            found += self.timer(list(self.lists) * min(most, runs - done))
        return found


def calor_queue(device: str, calls: Sequence[Call], copies: int) -> QueueRunner:
    """Return a runner of this many bound calls in a device's queue, in turns.

    Raises
    ------
    NotCaptured
        If the device is of another kind, or a call does more than launch kernels.
    """
    engine = engine_of(device)
    kind = device.partition(":")[0]
    if kind not in TIMERS:
        raise NotCaptured(f"the launches of {device} have no clock here")
    # A plan that serves several sizes makes way for one of its own where launches are looked at.
    with library("calor_kernel").profile(device):
        for call in calls:
            call()
    kept, lists = None, []
    for call in calls:
        # What a call makes is dropped before the next one, which then writes to the same memory.
        kept = None
        with collected(engine) as found:
            kept = call()
        lists.append(found)
    if not all(lists):
        raise NotCaptured("a call launches nothing")
    every = [one for number in range(copies) for one in lists[number % len(lists)]]
    return QueueRunner(TIMERS[kind](device, engine), every, copies, kept)


@contextmanager
def collected(engine: Any) -> Iterator[list[Launches]]:
    """Collect the lists that run, with their buffers; refuse what only the host does."""
    queue, memory = engine.device.queue, engine.device.memory
    found: list[Launches] = []

    def run(recorded: Any, handles: Sequence[Any]) -> list[float]:
        queue.run(recorded, handles)
        found.append((recorded, tuple(handles)))
        return []

    def refused(name: str, *given: Any, **options: Any) -> Any:
        asker = sys._getframe(1)
        place = f"{Path(asker.f_code.co_filename).name}:{asker.f_lineno}"
        raise NotCaptured(f"a call writes numbers of the host, or copies: {name} at {place}")

    engine.profiler, queue.seconds = lambda *times: None, run
    for name in ("write", "copy_in", "copy"):
        setattr(memory, name, partial(refused, name))
    try:
        yield found
    finally:
        engine.profiler = None
        del queue.seconds, memory.write, memory.copy_in, memory.copy


class OpenCLTimer:
    """Times launches by two events of a queue, which first gets other work."""

    def __init__(self, device: str, engine: Any) -> None:
        self.bindings = library("calor_opencl._bindings")
        cl = self.bindings.cl
        self.queue = engine.device.queue
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        self.own = cl.CommandQueue(self.queue.context, properties=profiling)
        self.event, self.complete = cl.Event, cl.command_execution_status.COMPLETE
        self.work, self.times = self._busy(device, engine), 1

    def __call__(self, lists: Sequence[Launches]) -> float:
        """Return the device's seconds from the first launch to the end of the last."""
        self.queue.synchronize()
        for _ in range(_DOUBLED):
            _, busy = self._queue(self.work * self.times)
            first, last = self._queue(lists)
            # Whether the device was at other work when the host had queued the last launch. The
            # times of an event cannot tell: those of the host are of another clock.
            waited = busy.command_execution_status != self.complete
            self.own.finish()
            # NVIDIA's driver was seen to have no times of a few events.
            with suppress(self.bindings.cl.RuntimeError):
                if waited:
                    return float(last.profile.end - first.profile.start) * 1e-9
            self.times *= 2
        raise NotCaptured("the host takes longer for launches than the device for other work")

    def _queue(self, lists: Sequence[Launches]) -> tuple[Any, Any]:
        """Queue lists, and return the events of the first and of the last launch."""
        ctypes = self.bindings.ctypes
        cells = (ctypes.c_size_t * 2)()
        place, size = ctypes.addressof(cells), ctypes.sizeof(ctypes.c_size_t)
        end = len(lists) - 1
        for number, (recorded, handles) in enumerate(lists):
            ready = [one for one in recorded.on(handles).all if not one.empty]
            events: list[int | None] = [None] * len(ready)
            if number == end:
                events[-1] = place + size
            if number == 0:
                # A single launch is the first and the last; its one event tells both.
                events[0] = events[0] or place
            self.bindings.enqueue(
                one.on(self.own.int_ptr, event) for one, event in zip(ready, events, strict=True)
            )
        found = [self.event.from_int_ptr(cell, False) for cell in cells if cell]
        self.own.flush()
        return found[0], found[-1]

    def _finished(self, lists: Sequence[Launches]) -> float:
        begin = perf_counter()
        self._queue(lists)
        self.own.finish()
        return perf_counter() - begin

    def _busy(self, device: str, engine: Any) -> list[Launches]:
        """Return the launches of a product that takes the device a while."""
        calor, side, took = library("calor"), _SIDE, 0.0
        while took < _BUSY:
            with calor.device(device), calor.no_grad():
                x = calor.ones((side, side))
                bound = calor.jit(lambda x: x @ x).bind(x)
                with library("calor_kernel").profile(device):
                    self.made = [bound() for _ in range(3)]
                self.queue.synchronize()
                with collected(engine) as found:
                    self.made = [bound()]
            # The least of a few: a host that is late would leave the device with short work.
            took, side = min(self._finished(found) for _ in range(5)), 2 * side
        return found


def _wgpu_timer(device: str, engine: Any) -> Timer:
    bindings = library("calor_wgpu._bindings")
    stream = engine.device.queue.stream

    def seconds(lists: Sequence[Launches]) -> float:
        def encode(commands: Any) -> None:
            for recorded, handles in lists:
                recorded.encode(commands, handles)

        with stream.lock:
            return float(bindings.timed(stream, encode))

    return seconds


TIMERS: dict[str, Callable[[str, Any], Timer]] = {"opencl": OpenCLTimer, "wgpu": _wgpu_timer}
