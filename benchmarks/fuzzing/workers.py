"""A worker process that measures cases, and is started again after it died or hung."""

import gc
import importlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any

_START_S = 180.0
# What a process says while others measure, and the seconds that it may wait for them.
_WAITS, _GOES_ON = "waits for its turn", "goes on"
# What it says before an answer behind which it answers nothing more.
_ENDS = "ends after the answer"
_TURN_S = 900.0


@dataclass(frozen=True)
class Failure:
    """A case without an answer: the process died, or took too long."""

    message: str


class Worker:
    """A process that answers one case after another; ``timeout``: the seconds of one.

    ``serve`` is what the process runs, with its end of the pipe and ``arguments``. It sends one
    message when it is ready, and then an answer for each question. Before an answer it may say that
    it waits for its turn, which takes none of its seconds, and that it goes on; or that the answer
    is its last, so that the next question meets a new process.
    """

    def __init__(self, serve: Callable[..., None], arguments: tuple[Any, ...], timeout: float):
        self.serve, self.arguments, self.timeout = serve, arguments, timeout
        self.process: Any = None
        self.pipe: Connection | None = None
        self.starts = 0

    def ask(self, question: str) -> Any:
        """Return the answer, or a Failure; the next question starts a new process then."""
        if self.process is None or not self._sent(question):
            # None, or one that died between two cases, which is the fault of neither.
            self.close()
            self._start()
            failure = self._received(_START_S, "starting")
            if isinstance(failure, Failure):
                return failure
            if not self._sent(question):
                return self._failed("the process died before the case")
        return self._received(self.timeout, "the case")

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=self.serve, args=(theirs, *self.arguments), daemon=True
        )
        self.process.start()
        theirs.close()
        self.starts += 1

    def _sent(self, question: str) -> bool:
        """Whether the process takes a question: not if it is over."""
        assert self.pipe is not None
        try:
            self.pipe.send(question)
        except OSError:
            return False
        return True

    def _received(self, seconds: float, what: str) -> Any:
        assert self.pipe is not None
        begin = waited = perf_counter()
        allowed, last = seconds, False
        try:
            while self.pipe.poll(max(allowed - perf_counter() + begin, 0)):
                answer = self.pipe.recv()
                if answer == _WAITS:
                    allowed += _TURN_S
                    waited = perf_counter()
                elif answer == _GOES_ON:
                    allowed += perf_counter() - waited - _TURN_S
                elif answer == _ENDS:
                    last = True
                else:
                    if last:
                        self.close()
                    return answer
        except (EOFError, OSError):
            self.process.join(5)
            return self._failed(f"{what} ended the process, exit code {self.process.exitcode}")
        return self._failed(f"{what} took more than {seconds:.0f} seconds")

    def _failed(self, message: str) -> Failure:
        self.close()
        return Failure(message)


def serve(
    pipe: Connection, device: str, peer: str, threads: int | None, gate: Path | None = None
) -> None:
    """Answer lines of cases with what was measured, as a dictionary, until the pipe closes."""
    if threads is not None:
        from thread_limits import limit_peers

        limit_peers([peer], threads)
    from fuzzing.cases import sample_of
    from fuzzing.measuring import Measured, measure
    from harness.gate import in_turn

    @contextmanager
    def turn() -> Iterator[None]:
        pipe.send(_WAITS)
        with in_turn(gate):
            pipe.send(_GOES_ON)
            yield

    pipe.send("ready")
    while True:
        try:
            line = pipe.recv()
        except EOFError:
            return
        try:
            measured = measure(sample_of(line), device, peer, turn)
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            measured = Measured(problem=text[:400])
            if _broken(error):
                pipe.send(_ENDS)
                pipe.send(asdict(measured))
                pipe.close()
                # Nothing runs in this process any more, and its end may hang as well.
                os._exit(1)
        pipe.send(asdict(measured))
        _free(device)


def _free(device: str) -> None:
    """Return the memory that a case left idle, for the sizes of the next are others."""
    gc.collect()
    if device.partition(":")[0] not in ("cpu", "numpy"):
        importlib.import_module("calor_kernel").trim(device)
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()


def _broken(error: Exception) -> bool:
    """Whether an error means that the process has lost its GPU, or is amid a failed capture."""
    text = f"{type(error).__name__} {error}".lower()
    words = ("devicelost", "illegal memory", "unspecified launch", "device-side assert", "captur")
    return any(word in text for word in (*words, "misaligned address", "illegal instruction"))
