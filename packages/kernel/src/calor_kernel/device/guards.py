"""Guards of in-place state: a failed run changes no state, and the host does not wait to know.

Requirements: the runs of a plan on the same state share one guard, in one block of memory, so a
recorded list keeps its arguments. A run sets the guard on the device if one of its ops failed, or
if a guard that its operands depend on is set; a set guard stops all launches that write state, also
those of later runs. The host reads the guard when a result of a run is read. The state of a failed
run has its old contents: whoever meets the error first receives it, and the state is usable then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from calor.errors import DeviceError
from calor_kernel.contract.failures import Failures, error_of
from calor_kernel.device.board import Board, zeroed
from calor_kernel.device.outcomes import Errors, Part, Word, verify
from calor_kernel.library.run_guard import ABOVE, ABOVE_WORDS, FIRST, GUARD, PASSED

# Stands for the runs before, among the tasks on which a result depends.
BEFORE: Final = -1
# The most runs with an error that another guard may pass on, before the host reads the guard.
_ABOVE: Final = 256
_ITEM: Final = 4


class Guard:
    """The guard of the runs of one plan on one state, and the outcome of that state.

    ``failures``: the errors and the op of each fallible task. ``place``: the byte offset of the
    guard in its block. ``count``: the queued runs; ``known``: those known to be successful.
    ``set``: whether the run after these is known to have failed.
    """

    def __init__(self, board: Board, failures: Failures, place: int) -> None:
        self.board = board
        self.failures = failures
        self.place = place
        self.block = zeroed(board.pool, place + (FIRST + len(failures)) * _ITEM)
        self.handle = self.block.handle
        self.count = 0
        self.known = 0
        self.set = False
        self.parts: tuple[Part, ...] = ((self, frozenset((*failures, BEFORE))),)
        self.last = Guarded(self, 0)
        self._told = False
        self._words: Any = None
        self._above: dict[int, Sequence[Part]] = {}

    @property
    def guard(self) -> Guard:
        """The guard itself."""
        return self

    @property
    def fine(self) -> bool:
        """Whether the state is known to be usable."""
        return self.known >= self.count or (self.set and self.told)

    @property
    def errors(self) -> Errors:
        """The errors of the last run, unless somebody received them."""
        errors = self.of(self.count)
        return {} if self.told else errors

    @property
    def told(self) -> bool:
        """Whether a reader has received the error, here or where another guard passed it on."""
        if self._told or not self.set or self.failed.keys() - {BEFORE}:
            return self._told
        above = [o for o, _ in self._above.get(self.known + 1, ()) if o.guard is not None]
        return any(outcome.told and outcome.errors for outcome in above)

    @told.setter
    def told(self, told: bool) -> None:
        self._told = told
        for outcome, tasks in self._above.get(self.known + 1, ()):
            if outcome.errors.keys() & tasks:
                outcome.told = told

    def cause(self) -> Errors:
        """Return the error that set the guard, also that of a run behind the last one."""
        return self.of(self.count) or (self.failed if self.set else {})

    def held(self) -> Guarded:
        """Return the outcome of the present contents of the state, for a copy."""
        return self.last

    def words(self, tasks: frozenset[int]) -> Sequence[Word]:
        """Return the word that is set if a run failed; none if that is known."""
        return () if self.set else ((self.handle, self.place),)

    def ran(self, above: Sequence[Part]) -> Guarded:
        """Return the outcome of a run that was queued, which depends on ``above`` as well."""
        if self.known == self.count:
            self.board.note(self)
        self.count += 1
        if above:
            self._above[self.count] = above
            if len(self._above) > _ABOVE:
                self.read()
        self.last = Guarded(self, self.count)
        return self.last

    def of(self, number: int) -> Errors:
        """Return the errors of a run by its number; waits for it if they are not known."""
        if number > self.known and not self.set:
            self.read()
        if number <= self.known:
            return {}
        if number == self.known + 1:
            return self.failed
        # A run behind a failed one.
        error = next(iter(self.failed.values()))
        return dict.fromkeys(self.parts[0][1], error)

    def read(self) -> None:
        """Wait for the queued runs, and take from the guard how many were successful."""
        with self.board.lock:
            if self.set:
                return
            count, words = self.count, np.zeros(FIRST + len(self.failures), np.uint32)
            self.board.pool.memory.copy_out(self.handle, self.place, words)
            # The counter on the device wraps.
            stopped = (count - int(words[PASSED])) & 0xFFFFFFFF if words[GUARD] else 0
            # Another thread's run may be queued and not be counted here yet.
            self.known = count - stopped if stopped < 1 << 31 else count
            self._above = {n: above for n, above in self._above.items() if n > self.known}
            self._words = words[FIRST:]
            self.set = bool(words[GUARD])
            self.board.noted(self, Guarded(self, self.known + 1) if self.set else None)

    @cached_property
    def failed(self) -> Errors:
        """The errors of the first failed run."""
        found: dict[int, DeviceError] = {}
        for (number, (failures, op)), word in zip(self.failures.items(), self._words, strict=True):
            if word:
                found[number] = error_of(failures, int(word), op)
        above = self._above.get(self.known + 1, ())
        errors = [e for outcome, tasks in above for n, e in outcome.errors.items() if n in tasks]
        if not (found or errors):
            errors = [e for outcome, _ in above for e in outcome.cause().values()]
            errors.append(DeviceError("a run before this one failed"))
        if errors:
            found[BEFORE] = errors[0]
        return found


class Guarded:
    """The outcome of one run of a guard."""

    __slots__ = ("guard", "number")

    def __init__(self, guard: Guard, number: int) -> None:
        self.guard = guard
        self.number = number

    @property
    def fine(self) -> bool:
        """Whether the run is known to be successful."""
        return self.guard.known >= self.number

    @property
    def errors(self) -> Errors:
        """The errors; the first access waits for the run."""
        return self.guard.of(self.number)

    @property
    def told(self) -> bool:
        """Whether a reader has received the error."""
        return self.guard.told

    @told.setter
    def told(self, told: bool) -> None:
        self.guard.told = told

    def cause(self) -> Errors:
        """Return the errors, or those of a run behind this one, which may have set the guard."""
        return self.errors or (self.guard.failed if self.guard.set else {})

    def held(self) -> Guarded:
        """Return the outcome itself."""
        return self

    def words(self, tasks: frozenset[int]) -> Sequence[Word]:
        """Return the guard's word if no run followed, which may have set it."""
        return self.guard.words(tasks) if self.number == self.guard.count else ()


class Above:
    """The words that a run depends on beside its own, while it is queued.

    ``words``: where they are. ``parts``: the outcomes that they belong to.
    """

    __slots__ = ("parts", "words")

    def __init__(self, guard: Guard, doubtful: Iterable[Any]) -> None:
        """Take the words of doubtful operands; raise the error of one that is known to fail."""
        found: dict[Part, None] = {}
        # By identity, because a handle need not be hashable.
        shown: dict[tuple[int, int], Word] = {}
        for buffer in doubtful:
            for outcome, tasks in buffer.outcomes:
                if outcome.fine or outcome.guard is guard:
                    continue
                part = outcome.held(), tasks
                if part in found:
                    continue
                words = {(id(word[0]), word[1]): word for word in outcome.words(tasks)}
                if not words or len(shown | words) > ABOVE_WORDS:
                    verify(buffer)
                    break
                found[part] = None
                shown |= words
        self.words = shown.values()
        self.parts = tuple(found)

    def show(self, guard: Guard) -> None:
        """Copy the words to where the guard reads them; a set word there has set the guard."""
        copy = guard.board.pool.memory.copy
        for number, (handle, place) in enumerate(self.words):
            copy(guard.handle, guard.place + (ABOVE + number) * _ITEM, handle, place, _ITEM)
