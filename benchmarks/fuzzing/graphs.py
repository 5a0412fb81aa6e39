"""CUDA graphs of calls: of torch by its own capture, of calor by a capture of its stream.

Both graphs hold the same number of calls, one after another, of the same sets of operands. The
results of a call are dropped before the next, so that both libraries write where they wrote
before.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fuzzing.clocks import GraphRunner, RuntimeEvents, TorchEvents
from fuzzing.families._common import library

Call = Callable[[], Any]


class NotCaptured(Exception):
    """Calls cannot be captured; the message says why."""


def torch_graph(calls: Sequence[Call], copies: int) -> GraphRunner:
    """Return a runner of a graph with this many calls of torch, in turns."""
    torch = library("torch")
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for number in range(copies):
            calls[number % len(calls)]()
    torch.cuda.synchronize()
    return GraphRunner(graph.replay, TorchEvents(torch), copies, graph.reset)


def calor_graph(device: str, calls: Sequence[Call], copies: int) -> GraphRunner:
    """Return a runner of a graph with this many bound calls on a CUDA device, in turns.

    Raises
    ------
    NotCaptured
        If a call does more than launch kernels, or the driver refuses.
    """
    engine = engine_of(device)
    memory, on = engine.device.memory, engine.device.queue.on
    runtime, stream = on.runtime, on.stream
    with _kernels_only():
        for _ in range(3):
            for call in calls:
                call()
        engine.synchronize()
        # A relaxed capture: allocations elsewhere in the process are nobody's concern.
        runtime.streamBeginCapture(stream, runtime.streamCaptureModeRelaxed)
        problem: Exception | None = None
        try:
            with _refusing(memory):
                for number in range(copies):
                    calls[number % len(calls)]()
        except Exception as error:
            problem = error
        try:
            graph = runtime.streamEndCapture(stream)
        except Exception as error:
            raise NotCaptured(f"{type(error).__name__}: {error}") from problem
        if problem is not None:
            runtime.graphDestroy(graph)
            raise NotCaptured(f"{type(problem).__name__}: {problem}") from problem
    executable = runtime.graphInstantiate(graph)

    def close() -> None:
        engine.synchronize()
        runtime.graphExecDestroy(executable)
        runtime.graphDestroy(graph)

    return GraphRunner(
        lambda: runtime.graphLaunch(executable, stream),
        RuntimeEvents(runtime, stream),
        copies,
        close,
    )


def engine_of(device: str) -> Any:
    """Return the engine of a device."""
    with library("calor").device(device) as found:
        return library("calor_kernel.runtime.backend").engine_of(found, "it has no graphs")


@contextmanager
def _kernels_only() -> Iterator[None]:
    """Have plans launch kernels one by one, which a capture takes, instead of graphs."""
    launches = library("calor_cuda.launches")
    before = launches.LEAST
    launches.LEAST = 1 << 30
    try:
        yield
    finally:
        launches.LEAST = before


@contextmanager
def _refusing(memory: Any) -> Iterator[None]:
    """Refuse what a graph must not hold: what the host writes once, and memory of its own."""

    def refused(*given: Any) -> Any:
        raise NotCaptured("a call writes numbers of the host, or allocates")

    memory.write = memory.alloc = refused
    try:
        yield
    finally:
        del memory.write, memory.alloc
