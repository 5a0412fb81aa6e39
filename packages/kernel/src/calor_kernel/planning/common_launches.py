"""Common launches of tasks: which works have one form, and the task that does the work of several.

Requirements: each result is computed as by a launch of its own, bit for bit. Operands that all
launches share are passed once. The other buffers are as many as the arguments of a launch allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from calor.graph.attributes import exact
from calor.interning import remember
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Argument,
    Build,
    Flags,
    Input,
    Launch,
    Output,
    Scratch,
    Status,
    Work,
)
from calor_kernel.ir.passes.beside import Beside
from calor_kernel.planning.values import Draft, Task

# Arguments that a recording may add to those of a launch.
_HIDDEN: Final = 4
# A launch of more bytes hides the start of the next one.
_LARGE: Final = 64 << 20
_MEMORY = Input | Output | Scratch
# By identity: kernels are found so, and comparing builds is slow.
_BUILDS: Final[dict[tuple[int, Beside], tuple[Build, Build]]] = {}


def form_of(work: Work, info: DeviceInfo) -> Any:
    """Return what is equal in works that may be one, None for a work that is left alone."""
    if work.failures or not work.launches:
        return None
    forms = []
    for launch in work.launches:
        if launch.alone or launch.build.beside or launch.nbytes > _LARGE:
            return None
        pattern: list[Any] = []
        memories = 0
        for argument in launch.arguments:
            if isinstance(argument, Status):
                return None
            memories += isinstance(argument, _MEMORY | Flags)
            # Which operand it is may differ, and is that of each work.
            pattern.append(type(argument) if isinstance(argument, _MEMORY) else argument)
        if len(pattern) + memories + _HIDDEN > info.arguments:
            return None
        build, given = launch.build, exact(tuple(pattern))
        said = build, exact(build.keywords), launch.cubes, given, launch.nbytes, launch.flops
        forms.append(said)
    return tuple(forms), work.scratch


class _Member(NamedTuple):
    """A task, its work, the first numbers of its operands, results and scratch, and its place."""

    task: Task
    work: Work
    first: Mapping[type, int]
    place: int

    def own(self, argument: Argument) -> Argument:
        """Return an argument of the task among those of all."""
        if isinstance(argument, _MEMORY):
            return replace(argument, number=argument.number + self.first[type(argument)])
        if isinstance(argument, Flags):
            return replace(argument, offset=argument.offset + self.place * argument.count)
        return argument

    def memory(self, argument: Argument) -> Any:
        """Return what tells the memory of an argument."""
        if isinstance(argument, Input):
            return self.task.inputs[argument.number].piece, argument.offset
        return self.own(argument)


def merged(
    draft: Draft, works: Sequence[Work], groups: Iterable[Sequence[int]], info: DeviceInfo
) -> tuple[Draft, Sequence[Work]]:
    """Return the draft with each group as one task."""
    tasks: list[Task] = []
    chosen: list[Work] = []
    for group in groups:
        if len(group) == 1:
            tasks.append(draft.tasks[group[0]])
            chosen.append(works[group[0]])
            continue
        task, work = _one([draft.tasks[n] for n in group], [works[n] for n in group], info)
        tasks.append(task)
        chosen.append(work)
    return replace(draft, tasks=tasks), chosen


def _one(tasks: Sequence[Task], works: Sequence[Work], info: DeviceInfo) -> tuple[Task, Work]:
    """Return some tasks as one."""
    members: list[_Member] = []
    counts = {Input: 0, Output: 0, Scratch: 0}
    for task, work in zip(tasks, works, strict=True):
        members.append(_Member(task, work, dict(counts), len(members)))
        counts[Input] += len(task.inputs)
        counts[Output] += len(task.outputs)
        counts[Scratch] += len(work.scratch)
    launches = tuple(
        launch
        for order in range(len(works[0].launches))
        for launch in _launches(members, order, info)
    )
    pairs = tuple(
        (i + m.first[Input], o + m.first[Output]) for m in members for i, o in m.work.in_place
    )
    scratch = tuple(n for work in works for n in work.scratch)
    work = replace(works[0], launches=launches, scratch=scratch, in_place=pairs)
    task = Task(
        tasks[0].op,
        (work,),
        tuple(value for one in tasks for value in one.inputs),
        tuple(piece for one in tasks for piece in one.outputs),
        covers=tuple(name for one in tasks for name in one.covers or (one.op,)),
        members=tuple(tasks),
    )
    return task, work


def _launches(members: Sequence[_Member], order: int, info: DeviceInfo) -> Iterator[Launch]:
    """Yield the launches of one order of all members, in as few as their arguments allow."""
    first = members[0].work.launches[order]
    apart = tuple(
        k
        for k, argument in enumerate(first.arguments)
        if isinstance(argument, _MEMORY | Flags)
        and len({m.memory(m.work.launches[order].arguments[k]) for m in members}) > 1
    )
    shared = len(first.arguments) - len(apart) + _HIDDEN
    most = (info.arguments - shared) // max(len(apart), 1)
    pieces = -(-len(members) // most)
    size = -(-len(members) // pieces)
    for start in range(0, len(members), size):
        held = members[start : start + size]
        launches = [m.work.launches[order] for m in held]
        given = [[m.own(a) for a in la.arguments] for m, la in zip(held, launches, strict=True)]
        if len(held) == 1:
            yield replace(launches[0], arguments=tuple(given[0]), copies=None, prepares=False)
            continue
        x, y, z = first.cubes
        # So few kernels are compiled. Cubes beyond the last launch are not started.
        room = min(1 << (len(held) - 1).bit_length(), most) if z == 1 else len(held)
        given += [given[-1]] * (room - len(held))
        beside = Beside(room, apart, z > 1)
        arguments = tuple(
            one
            for k, argument in enumerate(given[0])
            for one in ([g[k] for g in given] if k in apart else [argument])
        )
        yield replace(
            first,
            build=_build(first.build, beside),
            cubes=(x, y, z * len(held)),
            arguments=arguments,
            flops=first.flops * len(held),
            nbytes=first.nbytes * len(held),
            label=f"{first.label} x {len(held)}",
            copies=None,
            prepares=False,
        )


def _build(one: Build, beside: Beside) -> Build:
    """Return the build of launches side by side, the same object each time."""
    known = _BUILDS.get((id(one), beside))
    if known is None:
        made = replace(one, signature=beside.spread(one.signature), beside=beside)
        known = remember(_BUILDS, (id(one), beside), (one, made))
    return known[1]
