"""Common launches of tasks: which works may be one, and the task that does the work of several.

Requirements: each result is computed as by a launch of its own, bit for bit. Operands that all
launches share are passed once. The other buffers are as many as the arguments of a launch allow.
Copies by one kernel have one form whatever their sizes, since those of weights are many and small.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod
from operator import gt
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
    Mixed,
    Output,
    Scratch,
    Status,
    Work,
)
from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.passes.beside import CUBES, Beside
from calor_kernel.ir.passes.mixed import can_idle, shared_bytes
from calor_kernel.planning.values import Draft, Task

# Arguments that a recording may add to those of a launch.
_HIDDEN: Final = 4
# A launch of more bytes hides the start of the next one.
_LARGE: Final = 64 << 20
_MEMORY = Input | Output | Scratch
# Unlike launches in one: each is short, so the next would begin when it ends, and they need little.
_SHORT_BYTES: Final = 64 << 20
_SHORT_FLOPS: Final = 1 << 26
_SHORT_SHARED: Final = 16 << 10
# Operations of a kernel that is soon compiled, and of all kernels of a launch, whose compilation
# takes as long as theirs after each other.
_SHORT_TEXT: Final = 600
_TEXT: Final = 6000
# Families of long kernels, and the operations of a short launch of theirs.
_LONG: Final = frozenset(
    ("attention", "conv", "fft", "gemm", "linalg", "matmul", "recurrence", "sort")
)
_LONG_FLOPS: Final = 1 << 28
# Units of a cube for each one that has work: the others take registers until the cube ends.
_IDLE: Final = 4
# By identity: kernels are found so, and comparing builds is slow.
_BUILDS: Final[dict[tuple[int, Beside], tuple[Build, Build]]] = {}
_KERNELS: Final[dict[tuple[int, frozenset[str]], tuple[Build, Kernel]]] = {}
_MIXED: Final[dict[tuple[int, ...], tuple[tuple[Build, ...], Build]]] = {}


def form_of(work: Work, info: DeviceInfo) -> Any:
    """Return what is equal in works that may be one, None for a work that is left alone."""
    if work.failures or not work.launches:
        return None
    forms, any_size = [], only_copies(work)
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
            free = any_size or isinstance(argument, _MEMORY)
            pattern.append(type(argument) if free else argument)
        if len(pattern) + memories + _HIDDEN > info.arguments:
            return None
        build, given = launch.build, exact(tuple(pattern))
        sizes = () if any_size else (launch.cubes, launch.nbytes, launch.flops)
        forms.append((build, exact(build.keywords), given, *sizes))
    return tuple(forms), work.scratch


def may_mix(work: Work, info: DeviceInfo) -> bool:
    """Return whether the launches of a work are short, and may be one with unlike ones."""
    return bool(work.launches) and all(_is_short(la, info) for la in work.launches)


def _is_short(launch: Launch, info: DeviceInfo) -> bool:
    build, given = launch.build, launch.arguments
    return (
        not (launch.alone or build.beside or build.mixed)
        and launch.nbytes <= _SHORT_BYTES
        and launch.flops <= (_LONG_FLOPS if _is_long(build) else _SHORT_FLOPS)
        and len(given) * 2 + _HIDDEN <= info.arguments
    )


def independent(work: Work, info: DeviceInfo) -> Work:
    """Return a work whose adjacent launches that do not wait for each other are one launch.

    The gradients of an attention's queries and keys are two, of the same operands.
    """
    groups: list[list[Launch]] = []
    for launch in work.launches:
        last = groups[-1] if groups else []
        every = [*last, launch]
        if (
            last
            and all(_is_short(la, info) for la in every)
            and not any(_waits(launch, other) for other in last)
            and _fit(every, info)
        ):
            last.append(launch)
        else:
            groups.append([launch])
    if len(groups) == len(work.launches):
        return work
    made = tuple(g[0] if len(g) == 1 else _one_of(g, [la.arguments for la in g]) for g in groups)
    return replace(work, launches=made)


def _waits(launch: Launch, before: Launch) -> bool:
    """Return whether a launch may use what one before it writes, or the other way round."""
    uses, held = _uses(launch), _uses(before)
    return any(uses[m] or held[m] for m in uses.keys() & held.keys())


def _uses(launch: Launch) -> dict[object, bool]:
    """Return the memory of a launch, and whether it may write there."""
    found: dict[object, bool] = {}
    for argument, declared in zip(launch.arguments, launch.build.signature, strict=False):
        memory: object = (type(argument), getattr(argument, "number", None))
        if isinstance(argument, _MEMORY | Flags):
            found[memory] = found.get(memory, False) or getattr(declared, "writable", True)
    return found


def _is_long(build: Build) -> bool:
    """Return whether a kernel is of a family whose kernels are long, and their launches too."""
    return not _LONG.isdisjoint(build.function.function.__module__.split("."))


def fits_mixed(works: Sequence[Work], info: DeviceInfo) -> bool:
    """Return whether the launches of works that may mix fit one launch, in each of their orders."""
    orders = range(max(len(work.launches) for work in works))
    return all(_fit([w.launches[k] for w in works if k < len(w.launches)], info) for k in orders)


def _fit(every: Sequence[Launch], info: DeviceInfo) -> bool:
    """Return whether short launches fit one."""
    if sum(len(la.arguments) + 3 for la in every) + _HIDDEN > info.arguments:
        return False
    # A kernel that needs no planes may have units in lock step.
    planes = {la.build.plane for la in every}
    if len(planes - {1}) > 1:
        return False
    kernels = [_kernel(la.build, info) for la in every]
    texts = [_length(kernel) for kernel in kernels]
    mosts = [_TEXT if _is_long(la.build) else _SHORT_TEXT for la in every]
    if len(every) > 1 and (sum(texts) > _TEXT or any(map(gt, texts, mosts))):
        return False
    # Cores have fewer cubes at a time if one of them needs more than the others.
    most = max(_SHORT_SHARED, *(kernel.shared_bytes * 5 // 4 for kernel in kernels))
    units = max(kernel.units for kernel in kernels)
    if units > info.max_cube[0] or shared_bytes(kernels) > most:
        return False
    return all(_fits_cube(kernel, units, max(planes), info) for kernel in kernels)


def _fits_cube(kernel: Kernel, units: int, plane: int, info: DeviceInfo) -> bool:
    """Return whether a cube of so many units may do the work of one of a kernel."""
    if kernel.units == units or can_idle(kernel):
        return True
    whole = kernel.units % plane == 0
    return info.has("early_exit") and whole and units <= _IDLE * kernel.units


def _length(kernel: Kernel) -> int:
    """Return the operations of a kernel in a branch, as it is beside others of other kernels.

    Of one that chooses memory it is above all limits, for WGSL would have its body for each choice,
    and of one whose cubes all run at the same time.
    """
    names = [operation.name for operation in kernel.body.walk()]
    apart = "select_memory" in names or kernel.attributes.get("together")
    return sys.maxsize if apart else len(names)


def _kernel(build: Build, info: DeviceInfo) -> Kernel:
    """Return the kernel of a build, made once."""
    known = _KERNELS.get((id(build), info.features))
    if known is None:
        made = build.kernel(info.features)
        known = remember(_KERNELS, (id(build), info.features), (build, made))
    return known[1]


def only_copies(work: Work) -> bool:
    """Return whether a work is one launch that only moves data from its operands to its results."""
    if len(work.launches) != 1 or work.scratch:
        return False
    (launch,) = work.launches
    plain = all(isinstance(a, Input | Output | int | float) for a in launch.arguments)
    return plain and not launch.flops and not launch.alone


class _Member(NamedTuple):
    """A task, its work, and the first numbers of its operands, results, scratch and words."""

    task: Task
    work: Work
    first: Mapping[type, int]

    def own(self, argument: Argument) -> Argument:
        """Return an argument of the task among those of all."""
        if isinstance(argument, _MEMORY):
            return replace(argument, number=argument.number + self.first[type(argument)])
        if isinstance(argument, Flags):
            return replace(argument, offset=argument.offset + self.first[Flags])
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
    counts = {Input: 0, Output: 0, Scratch: 0, Flags: 0}
    for task, work in zip(tasks, works, strict=True):
        members.append(_Member(task, work, dict(counts)))
        counts[Input] += len(task.inputs)
        counts[Output] += len(task.outputs)
        counts[Scratch] += len(work.scratch)
        words = (a for la in work.launches for a in la.arguments if isinstance(a, Flags))
        counts[Flags] += max((a.offset + a.count for a in words), default=0)
    forms = {form_of(work, info) for work in works}
    alike = len(forms) == 1 and None not in forms
    orders = range(max(len(work.launches) for work in works))
    launches = tuple(
        launch
        for order in orders
        for launch in (_launches(members, order, info) if alike else _unlike(members, order))
    )
    pairs = tuple(
        (i + m.first[Input], o + m.first[Output]) for m in members for i, o in m.work.in_place
    )
    scratch = tuple(n for work in works for n in work.scratch)
    # One of them may fail, or several that check the same and tell the same.
    ops = [(t.op, w.failures) for t, w in zip(tasks, works, strict=True) if w.failures]
    op, failures = ops[0] if ops else (tasks[0].op, ())
    work = replace(works[0], launches=launches, scratch=scratch, in_place=pairs, failures=failures)
    task = Task(
        op,
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
    every = [m.work.launches[order] for m in members]
    apart = tuple(
        k
        for k, argument in enumerate(first.arguments)
        if len({_told(m, la.arguments[k]) for m, la in zip(members, every, strict=True)}) > 1
    )
    along = any(la.cubes != first.cubes for la in every) or any(
        not isinstance(first.arguments[k], _MEMORY | Flags) for k in apart
    )
    # Hidden parameters of launches along x: where each ends, and its cubes along two axes.
    deep = any(la.cubes[1:] != (1, 1) for la in every) if along else first.cubes[2] > 1
    hidden = (3 if deep else 1) if along else 0
    shared = len(first.arguments) - len(apart) + _HIDDEN
    most = max((info.arguments - shared) // max(len(apart) + hidden, 1), 1)
    most = min(most, info.choices)
    pieces = -(-len(members) // most)
    size = -(-len(members) // pieces)
    for start in range(0, len(members), size):
        held, launches = members[start : start + size], every[start : start + size]
        given = [[m.own(a) for a in la.arguments] for m, la in zip(held, launches, strict=True)]
        if len(held) == 1:
            yield replace(launches[0], arguments=tuple(given[0]), copies=None, prepares=False)
            continue
        # So few kernels are compiled. Cubes beyond the last launch are not started.
        room = min(1 << (len(held) - 1).bit_length(), most) if along or not deep else len(held)
        beside = Beside(room, apart, deep, along)
        cubes = [la.cubes for la in launches] + [launches[-1].cubes] * (room - len(held))
        given += [given[-1]] * (room - len(held))
        arguments = [
            one
            for k, argument in enumerate(given[0])
            for one in ([g[k] for g in given] if k in apart else [argument])
        ]
        x, y, z = first.cubes
        grid = x, y, z * len(held)
        if along:
            ends = [*accumulate(prod(la.cubes) for la in launches)]
            grid = ends[-1], 1, 1
            arguments += ends + [ends[-1]] * (room - len(held))
            arguments += [one[axis] for axis in range(hidden - 1) for one in cubes]
        yield replace(
            first,
            build=_build(first.build, beside),
            cubes=grid,
            arguments=tuple(arguments),
            flops=sum(la.flops for la in launches),
            nbytes=sum(la.nbytes for la in launches),
            label=f"{first.label} x {len(held)}",
            copies=None,
            prepares=False,
        )


def _unlike(members: Sequence[_Member], order: int) -> Iterator[Launch]:
    """Yield the launch of one order of all members that have one."""
    having = [m for m in members if order < len(m.work.launches)]
    every = [m.work.launches[order] for m in having]
    given = [[m.own(a) for a in la.arguments] for m, la in zip(having, every, strict=True)]
    if len(every) == 1:
        yield replace(every[0], arguments=tuple(given[0]), copies=None, prepares=False)
    else:
        yield _one_of(every, given)


def _one_of(every: Sequence[Launch], given: Sequence[Sequence[Argument]]) -> Launch:
    """Return unlike launches, with these arguments, as one."""
    deep = tuple(la.cubes[1:] != (1, 1) for la in every)
    ends = [*accumulate(prod(la.cubes) for la in every)]
    arguments = [one for some in given for one in some]
    for end, la, several in zip(ends, every, deep, strict=True):
        arguments += [end, *la.cubes[:2]] if several else [end]
    return Launch(
        _mixed([la.build for la in every], deep),
        (ends[-1], 1, 1),
        tuple(arguments),
        sum(la.flops for la in every),
        sum(la.nbytes for la in every),
        " + ".join(la.label for la in every),
    )


def _mixed(builds: Sequence[Build], deep: tuple[bool, ...]) -> Build:
    """Return the build of unlike launches in one, the same object each time."""
    key = (*map(id, builds), *deep)
    known = _MIXED.get(key)
    if known is None:
        first, hidden = builds[0], sum(3 if several else 1 for several in deep)
        made = Build(
            first.function,
            (*(one for b in builds for one in b.signature), *(CUBES for _ in range(hidden))),
            (("mixed", tuple(b.keywords for b in builds)),),
            (max(prod(b.cube) for b in builds), 1, 1),
            max(b.plane for b in builds),
            first.index,
            mixed=Mixed(tuple(builds), deep),
        )
        known = remember(_MIXED, key, (tuple(builds), made))
    return known[1]


def _told(member: _Member, argument: Argument) -> Any:
    """Return what tells an argument of a member: its memory, or an exact number."""
    known = isinstance(argument, _MEMORY | Flags)
    return member.memory(argument) if known else exact((argument,))


def _build(one: Build, beside: Beside) -> Build:
    """Return the build of launches side by side, the same object each time."""
    known = _BUILDS.get((id(one), beside))
    if known is None:
        signature = (*beside.spread(one.signature), *(CUBES for _ in range(beside.hidden)))
        made = replace(one, signature=signature, beside=beside)
        known = remember(_BUILDS, (id(one), beside), (one, made))
    return known[1]
