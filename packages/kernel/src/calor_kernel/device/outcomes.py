"""Failures that a device tells late: whether a run's ops failed is read when somebody looks.

Requirements: a device with memory of its own is not waited for at each call that could fail; an
error reaches who looks at a result that depends on the failed op, every time, and nobody else; what
is computed of such a result inherits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from calor.errors import DeviceError

Errors = Mapping[int, DeviceError]


class Run(Protocol):
    """What a run with operations that may fail answers: a plan does."""

    def errors_in(self, words: Any, start: int) -> Errors:
        """Return the errors among words, where the run's block begins at a byte of them."""


class Board(Protocol):
    """What reads the words of a page, and tells the outcomes that wait for them."""

    def read(self, page: Any) -> None:
        """Wait for the runs of a page and tell their outcomes."""


class Depending(Protocol):
    """A buffer: ``outcomes`` are the runs that its contents depend on and that may have failed."""

    outcomes: tuple[Part, ...]


class Outcome:
    """What became of the ops of one run that may fail, by the number of the task.

    ``told``: whether somebody who looked got one of the errors.
    """

    __slots__ = ("_errors", "_unread", "told")

    def __init__(self, run: Run, board: Board, page: object, start: int) -> None:
        # What the errors follow from, until they are read.
        self._unread: tuple[Run, Board, object, int] | None = run, board, page, start
        self._errors: Errors = {}
        self.told = False

    @property
    def fine(self) -> bool:
        """Whether it is known that nothing failed."""
        return self._unread is None and not self._errors

    @property
    def errors(self) -> Errors:
        """The errors; the first who asks waits for the run, and for all that were queued."""
        unread = self._unread
        if unread is not None:
            _, board, page, _ = unread
            board.read(page)
        return self._errors

    def tell(self, words: Any) -> bool:
        """Take the errors from the words of a page; return whether there are any."""
        assert self._unread is not None
        run, _, _, start = self._unread
        self._errors = run.errors_in(words, start)
        self._unread = None
        return bool(self._errors)


Part = tuple[Outcome, frozenset[int]]


def verify(buffer: Depending) -> None:
    """Raise the error of an op that a buffer's contents depend on."""
    for outcome, tasks in buffer.outcomes:
        failed = sorted(outcome.errors.keys() & tasks)
        if failed:
            error = outcome.errors[failed[0]]
            outcome.told = True
            raise type(error)(*error.args, op=error.op)
    buffer.outcomes = ()


def pending(buffer: Depending) -> bool:
    """Return whether a buffer may depend on what failed; what is known to be fine is forgotten."""
    buffer.outcomes = tuple(part for part in buffer.outcomes if not part[0].fine)
    return bool(buffer.outcomes)


def inherit(buffer: Depending, sources: Iterable[Depending]) -> None:
    """Let a buffer depend on what others depend on."""
    found = [*buffer.outcomes, *(part for source in sources for part in source.outcomes)]
    buffer.outcomes = tuple(part for part in dict.fromkeys(found) if not part[0].fine)
