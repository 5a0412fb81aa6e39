"""Deferred failures: the status of a run's ops is read when a result is used.

Requirements: a call that could fail does not wait for a device with memory of its own. An error
reaches every reader of a result that depends on the failed op, every time, and no other reader.
Results computed from such a result inherit the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Final, Protocol

from calor.errors import DeviceError

Errors = Mapping[int, DeviceError]
# A handle, and a byte offset.
Word = tuple[Any, int]


class Run(Protocol):
    """A run with operations that may fail; implemented by plans."""

    @property
    def status(self) -> Mapping[int, int]:
        """The byte offset in the run's block of each fallible task's word."""

    def errors_in(self, words: Any, start: int) -> Errors:
        """Return the errors among the words of the run's block, which begins at byte ``start``."""


class Result(Protocol):
    """The outcome of a run.

    ``fine``: whether it is known to be successful. ``told``: whether a reader has received an error
    of it. ``guard``: the guard that it sets as well, if any.
    """

    told: bool

    @property
    def guard(self) -> object: ...

    @property
    def fine(self) -> bool: ...

    @property
    def errors(self) -> Errors: ...

    def cause(self) -> Errors:
        """Return the errors that set the word."""

    def held(self) -> Result:
        """Return the outcome on which a copy made now depends."""

    def words(self, tasks: frozenset[int]) -> Sequence[Word]:
        """Return words that are set if a task failed; none if it is known, or if none tells."""


class Page(Protocol):
    """Memory with the words of runs."""

    buffer: Any


class Board(Protocol):
    """Reads the words of a page and informs the waiting outcomes."""

    def read(self, page: Any) -> None:
        """Wait for the runs of a page and inform their outcomes."""


class Depending(Protocol):
    """A buffer: ``outcomes`` are the fallible runs on which its contents depend."""

    outcomes: tuple[Part, ...]


class Outcome:
    """The outcome of the fallible ops of one run, by task number.

    ``told``: whether a reader has received one of the errors.
    """

    __slots__ = ("_errors", "_unread", "told")

    guard: Final = None

    def __init__(self, run: Run, board: Board, page: Page, start: int) -> None:
        # The source of the errors, until they are read.
        self._unread: tuple[Run, Board, Page, int] | None = run, board, page, start
        self._errors: Errors = {}
        self.told = False

    @property
    def fine(self) -> bool:
        """Whether the run is known to be successful."""
        return self._unread is None and not self._errors

    @property
    def errors(self) -> Errors:
        """The errors; the first access waits for the run and for all queued before it."""
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

    def cause(self) -> Errors:
        """Return the errors."""
        return self.errors

    def held(self) -> Outcome:
        """Return the outcome itself."""
        return self

    def words(self, tasks: frozenset[int]) -> Sequence[Word]:
        """Return the words of tasks while they are not read."""
        unread = self._unread
        if unread is None:
            return ()
        run, _, page, start = unread
        return [(page.buffer.handle, start + run.status[task]) for task in tasks]


Part = tuple[Result, frozenset[int]]


def verify(buffer: Depending) -> None:
    """Raise the error of an op that a buffer's contents depend on."""
    for outcome, tasks in buffer.outcomes:
        failed = sorted(outcome.errors.keys() & tasks)
        if failed:
            error = outcome.errors[failed[0]]
            outcome.told = True
            # What is raised gathers frames.
            raise copy(error)
    buffer.outcomes = ()


def pending(buffer: Depending) -> bool:
    """Return whether a buffer may depend on a failure; outcomes known to be fine are dropped."""
    buffer.outcomes = tuple(part for part in buffer.outcomes if not part[0].fine)
    return bool(buffer.outcomes)


def inherit(buffer: Depending, sources: Iterable[Depending]) -> None:
    """Let a buffer inherit the outcomes of others."""
    found = [*buffer.outcomes]
    # A state is usable once its error was told, though what was made of it before is not.
    known = [part for source in sources for part in source.outcomes if not part[0].fine]
    found += [(outcome.held(), tasks) for outcome, tasks in known]
    buffer.outcomes = tuple(part for part in dict.fromkeys(found) if not part[0].fine)
