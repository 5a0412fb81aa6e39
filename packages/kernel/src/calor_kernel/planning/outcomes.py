"""Failures that a device tells late: whether a run's ops failed is read when somebody looks.

Requirements: a device with memory of its own is not waited for at each call that could fail; an
error reaches who looks at a result that depends on the failed op, every time, and nobody else; what
is computed of such a result inherits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calor.errors import DeviceError

if TYPE_CHECKING:
    from calor_kernel.planning.board import Board, Page
    from calor_kernel.planning.plan import Plan
    from calor_kernel.planning.values import Piece, Task
    from calor_kernel.runtime.buffers import KernelBuffer

Errors = Mapping[int, DeviceError]


class Outcome:
    """What became of the ops of one run that may fail, by the number of the task.

    ``told``: whether somebody who looked got one of the errors.
    """

    __slots__ = ("_errors", "_unread", "told")

    def __init__(self, plan: Plan, board: Board, page: Page, start: int) -> None:
        # What the errors follow from, until they are read.
        self._unread: tuple[Plan, Board, Page, int] | None = plan, board, page, start
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
        plan, _, _, start = self._unread
        self._errors = plan.errors_in(words, start)
        self._unread = None
        return bool(self._errors)


Part = tuple[Outcome, frozenset[int]]


def verify(buffer: Any) -> None:
    """Raise the error of an op that a buffer's contents depend on."""
    for outcome, tasks in buffer.outcomes:
        failed = sorted(outcome.errors.keys() & tasks)
        if failed:
            error = outcome.errors[failed[0]]
            outcome.told = True
            raise type(error)(*error.args, op=error.op)
    buffer.outcomes = ()


def pending(buffer: Any) -> bool:
    """Return whether a buffer may depend on what failed; what is known to be fine is forgotten."""
    buffer.outcomes = tuple(part for part in buffer.outcomes if not part[0].fine)
    return bool(buffer.outcomes)


def inherit(buffer: Any, sources: Iterable[KernelBuffer]) -> None:
    """Let a buffer depend on what others depend on."""
    found = [*buffer.outcomes, *(part for source in sources for part in source.outcomes)]
    buffer.outcomes = tuple(part for part in dict.fromkeys(found) if not part[0].fine)


def dependences(
    tasks: Sequence[Task], outputs: Sequence[Piece], failing: Iterable[int]
) -> list[tuple[frozenset[int], frozenset[int]]]:
    """Return, for each output, the inputs and the tasks that may fail which it depends on."""
    may_fail = set(failing)
    nothing: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    known: dict[Piece, tuple[frozenset[int], frozenset[int]]] = {}
    for number, task in enumerate(tasks):
        inputs: set[int] = set()
        failures = {number} & may_fail
        for value in task.inputs:
            if value.piece.kind == "input":
                inputs.add(value.piece.number)
            before = known.get(value.piece, nothing)
            inputs |= before[0]
            failures |= before[1]
        known.update(dict.fromkeys(task.outputs, (frozenset(inputs), frozenset(failures))))
    return [known[piece] for piece in outputs]
