"""Failures that a device tells late: whether a run's ops failed is read when somebody looks.

Requirements: a device with memory of its own is not waited for at each call that could fail; an
error reaches who looks at a result that depends on the failed op, every time, and nobody else; what
is computed of such a result inherits it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calor.errors import DeviceError

if TYPE_CHECKING:
    from calor_kernel.planning.values import Piece, Task
    from calor_kernel.runtime.buffers import KernelBuffer

Errors = Mapping[int, DeviceError]


class Outcome:
    """What became of the ops of one run that may fail, by the number of the task.

    ``read`` returns the errors; it waits for the run, and is called once. ``told``: whether
    somebody who looked got one of them.
    """

    __slots__ = ("_errors", "_lock", "_read", "told")

    def __init__(self, read: Callable[[], Errors]) -> None:
        self._read: Callable[[], Errors] | None = read
        self._errors: Errors = {}
        self.told = False
        self._lock = threading.Lock()

    @property
    def errors(self) -> Errors:
        """The errors, read from the device the first time."""
        with self._lock:
            if self._read is not None:
                self._errors = self._read()
                self._read = None
            return self._errors


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


def inherit(buffer: Any, sources: Iterable[KernelBuffer]) -> None:
    """Let a buffer depend on what others depend on."""
    found = [*buffer.outcomes, *(part for source in sources for part in source.outcomes)]
    buffer.outcomes = tuple(dict.fromkeys(found))


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
