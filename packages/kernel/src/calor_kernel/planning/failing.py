"""The tasks of a plan that decide whether it fails.

Requirements: results in place are written after the last possible failure. The gradient of an
embedding checks the indices that the embedding has checked before, and so cannot fail alone. Tasks
in one launch have one word for their failures.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel.contract.work import Work
from calor_kernel.planning.values import Piece, Task, Value


def last_failing(tasks: Sequence[Task], works: Sequence[Work]) -> int:
    """Return the last task that may fail though none before it does, or -1."""
    before = checked_before(tasks, works)
    alone = (n for n, work in enumerate(works) if work.failures and n not in before)
    return max(alone, default=-1)


def checked_before(tasks: Sequence[Task], works: Sequence[Work]) -> dict[int, int]:
    """Return the tasks that check what an earlier task has checked, with the first such task.

    Behind a guard, it is the first task that tells of a failure of them all.
    """
    if not any(work.failures for work in works):
        return {}
    copies: dict[Piece, Value] = {}
    first: dict[object, int] = {}
    found: dict[int, int] = {}
    for number, (task, work) in enumerate(zip(tasks, works, strict=True)):
        for one in task.members or (task,):
            if one.op == "copy" and len(one.inputs) == 1:
                (source,) = one.inputs
                copies[one.outputs[0]] = _source(source, copies)
        if not work.failures:
            continue
        fallible = [one for one in task.members if one.works[0].failures]
        keys = {_checked(one, work, copies) for one in fallible or (task,)}
        before = {first.setdefault(key, number) for key in keys if key is not None}
        if None not in keys and number not in before:
            found[number] = min(before)
    return found


def fail_alike(tasks: Sequence[Task], works: Sequence[Work]) -> bool:
    """Return whether one word tells the failures of tasks in one launch as words of each would.

    So it does if one of them may fail, or if several check the same indices and tell the same. Two
    gathers of other indices do not: a failure of one would be one of the other.
    """
    fallible = [(task, work) for task, work in zip(tasks, works, strict=True) if work.failures]
    if len(fallible) < 2:
        return True
    checked = {_checked(task, work, {}) for task, work in fallible}
    alike = len({work.failures for _, work in fallible}) == 1
    return alike and len(checked) == 1 and None not in checked


def _source(value: Value, copies: dict[Piece, Value]) -> Value:
    """Return what a value was copied from, if it is all of it."""
    return copies.get(value.piece, value) if value.whole else value


def _checked(task: Task, work: Work, copies: dict[Piece, Value]) -> object:
    """Return what a task checks, equal for equal checks; None if that is not known."""
    limits = tuple((one.kind, one.message, one.size) for one in work.failures)
    indices = [_source(v, copies) for v in task.inputs if v.view.dtype.is_integer]
    if len(limits) != 1 or limits[0][2] is None or len(indices) != 1:
        return None
    ((piece, view),) = ((v.piece, v.view) for v in indices)
    steps = [(n, step) for n, step in zip(view.shape, view.strides, strict=True) if n != 1]
    steps.sort(key=lambda pair: -pair[1])
    return piece, view.dtype, view.offset, tuple(steps), limits
