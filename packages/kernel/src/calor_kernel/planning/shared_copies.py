"""Copies inside the work of tasks as tasks of their own: made once for several, or side by side.

Requirements: a convolution copies an operand so that its channels are dense, and a product turns a
weight. The gradients of a convolution make the same copy of the same operand, so it is made once,
if little is computed between them, or if nothing else reads the operand meanwhile: the copy waits
in its place. Copies of weights that the plan updates depend on nothing else,
so they can be common launches, as can several copies of one task. Copies of other weights stay
where they are, since they may be cached while their operands are unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

from calor.graph.attributes import exact
from calor_kernel.contract.choices import is_size, spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Argument,
    Flags,
    Guard,
    Input,
    Output,
    Scratch,
    Status,
    View,
    Work,
)
from calor_kernel.planning.common_launches import form_of
from calor_kernel.planning.preparations import written
from calor_kernel.planning.values import Draft, Piece, Task, Value

# The op of tasks that are copies of an operand.
OPERAND_COPY: Final = "operand_copy"
# A copy waits for its next reader while at most so many times its bytes are made.
_NEAR: Final = 8
# Smaller cubes are those of devices whose families copy otherwise.
_UNITS: Final = 64
_MEMORY: Final = Input | Output | Scratch | Status | Guard | Flags


@dataclass(frozen=True, slots=True)
class _Copy:
    """A launch of a work that only copies an operand to scratch memory.

    ``task``: the number of the task, ``order``: of the launch, ``scratch``: of the memory, and its
    bytes. ``work``: the launch alone. ``early``: whether the family marks it as a preparation.
    ``only``: whether no other launch of the work reads the operand. ``key``: equal for equal
    copies.
    """

    task: int
    order: int
    source: Value
    scratch: int
    nbytes: int
    work: Work
    early: bool
    only: bool
    key: Any


def shared_copies(
    draft: Draft, works: Sequence[Work], info: DeviceInfo
) -> tuple[Draft, Sequence[Work]]:
    """Return a draft and its works with copies as tasks of their own, where that gains."""
    if info.max_units < _UNITS or any(is_size(p.nbytes) for t in draft.tasks for p in t.outputs):
        return draft, works
    weights, joins = _of_weights(draft, works), info.has("pointers")
    done = [0, *accumulate(sum(p.nbytes for p in task.outputs) for task in draft.tasks)]
    copies = [
        [one for one in _copies(n, task, work) if not _cached(one, weights)]
        for n, (task, work) in enumerate(zip(draft.tasks, works, strict=True))
    ]
    instead = _instead(draft, [one for found in copies for one in found])
    groups: list[list[_Copy]] = []
    latest: dict[Any, list[_Copy]] = {}
    beside: set[int] = set()
    for number, found in enumerate(copies):
        forms = [form_of(one.work, info) if joins else None for one in found]
        for one, form in zip(found, forms, strict=True):
            group = latest.get(one.key)
            near = group and done[number] - done[group[-1].task + 1] <= _NEAR * one.nbytes
            if group is None or not (near or one.key in instead):
                group = latest[one.key] = []
                groups.append(group)
            group.append(one)
            if form is not None and (one.early or forms.count(form) > 1):
                beside.add(id(group))
    taken = [group for group in groups if len(group) > 1 or id(group) in beside]
    return _apart(draft, works, taken) if taken else (draft, works)


def _instead(draft: Draft, copies: Iterable[_Copy]) -> set[Any]:
    """Return the keys of copies that may wait in place of what they copy, which none else reads."""
    uses: dict[Piece, list[int]] = {}
    for number, task in enumerate(draft.tasks):
        for value in task.inputs:
            uses.setdefault(value.piece, []).append(number)
    found: dict[Any, list[_Copy]] = {}
    for one in copies:
        found.setdefault(one.key, []).append(one)
    kept = set(draft.outputs)
    return {
        key
        for key, (one, *others) in found.items()
        if (piece := one.source.piece).kind == "made"
        and piece not in kept
        and one.nbytes <= piece.nbytes
        and all(other.only for other in others)
        and [n for n in uses[piece] if n > one.task] == [other.task for other in others]
    }


def _cached(one: _Copy, weights: Collection[Piece]) -> bool:
    """Return whether a copy may be cached while its operand is unchanged."""
    piece = one.source.piece
    return one.early and piece.kind in ("input", "constant") and piece not in weights


def _of_weights(draft: Draft, works: Sequence[Work]) -> set[Piece]:
    """Return the inputs that a plan may overwrite with a result, and what depends on them alone."""
    pairs, results = list(zip(draft.tasks, works, strict=True)), set(draft.outputs)
    found = {
        task.inputs[operand].piece
        for task, work in pairs
        for operand, result in work.in_place
        if task.inputs[operand].piece.kind == "input" and task.outputs[result] in results
    }
    for task, _ in pairs:
        read = {value.piece for value in task.inputs}
        if read and found.issuperset(read):
            found.update(task.outputs)
    return found


def _copies(number: int, task: Task, work: Work) -> Iterator[_Copy]:
    """Yield the launches of a work that only copy an operand to memory that none else writes."""
    if work.in_place or len(work.launches) < 2:
        return
    writes = [written(work, order) for order in range(len(work.launches))]
    read = Counter(a.number for la in work.launches for a in la.arguments if isinstance(a, Input))
    for order, launch in enumerate(work.launches):
        found = [a for a in launch.arguments if isinstance(a, _MEMORY)]
        if len(writes[order]) != 1 or len(found) != 2 or launch.alone or launch.flops:
            continue
        source, target = sorted(found, key=lambda a: isinstance(a, Scratch))
        others = (w for k, w in enumerate(writes) if k != order)
        if not isinstance(source, Input) or not isinstance(target, Scratch) or target.offset:
            continue
        if any(target.number in w for w in others):
            continue
        piece = task.inputs[source.number].piece
        places: dict[Argument, Argument] = {source: Input(0, source.offset), target: Output(0)}
        arguments = tuple(
            places.get(a, a) if isinstance(a, _MEMORY) else a for a in launch.arguments
        )
        alone = replace(launch, arguments=arguments, prepares=False)
        key = piece, launch.build, exact(launch.build.keywords), launch.cubes, exact(arguments)
        yield _Copy(
            number, order, task.inputs[source.number], target.number, work.scratch[target.number],
            Work((alone,)), launch.prepares, read[source.number] == 1, key,
        )  # fmt: skip


def _apart(
    draft: Draft, works: Sequence[Work], groups: Sequence[Sequence[_Copy]]
) -> tuple[Draft, Sequence[Work]]:
    """Return a draft in which the copies of each group are one task before the first reader."""
    made: dict[int, list[tuple[Task, Work]]] = {}
    read: dict[int, dict[int, tuple[int, Value]]] = {}
    for group in groups:
        first = group[0]
        (launch,) = first.work.launches
        target = next(
            declared
            for a, declared in zip(launch.arguments, launch.build.signature, strict=True)
            if isinstance(a, Output)
        )
        known = spec_of((first.nbytes // target.dtype.itemsize,), target.dtype)
        piece = Piece("made", first.nbytes)
        covers = draft.tasks[first.task].covers or (draft.tasks[first.task].op,)
        task = Task(OPERAND_COPY, (first.work,), (first.source,), (piece,), {}, (known,), covers)
        made.setdefault(first.task, []).append((task, first.work))
        value = Value(piece, View.dense(known))
        for one in group:
            read.setdefault(one.task, {})[one.scratch] = one.order, value
    tasks: list[Task] = []
    chosen: list[Work] = []
    for number, (task, work) in enumerate(zip(draft.tasks, works, strict=True)):
        if number in read:
            task, work = _reading(task, work, read[number])
        for one, own in (*made.get(number, ()), (task, work)):
            tasks.append(one)
            chosen.append(own)
    return replace(draft, tasks=tasks), chosen


def _reading(task: Task, work: Work, copies: Mapping[int, tuple[int, Value]]) -> tuple[Task, Work]:
    """Return a task that reads copies, by the scratch memory that each was, and its work."""
    omitted = {order for order, _ in copies.values()}
    left = [launch for k, launch in enumerate(work.launches) if k not in omitted]
    used = {a.number for la in left for a in la.arguments if isinstance(a, Input)}
    operands = [k for k in range(len(task.inputs)) if k in used]
    inputs = [task.inputs[k] for k in operands] + [value for _, value in copies.values()]
    scratch = [k for k in range(len(work.scratch)) if k not in copies]
    numbers = {k: n for n, k in enumerate(copies, len(operands))}

    def moved(a: Argument) -> Argument:
        if isinstance(a, Input):
            return replace(a, number=operands.index(a.number))
        if isinstance(a, Scratch):
            if a.number in numbers:
                return Input(numbers[a.number], a.offset)
            return replace(a, number=scratch.index(a.number))
        return a

    launches = tuple(replace(la, arguments=tuple(map(moved, la.arguments))) for la in left)
    new = replace(work, launches=launches, scratch=tuple(work.scratch[k] for k in scratch))
    made = replace(task, works=(new,), inputs=tuple(inputs), members=(task,))
    return made, new
