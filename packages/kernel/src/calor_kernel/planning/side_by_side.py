"""Independent work as common launches: horizontal fusion of any kernels.

Requirements: each result is computed as by a launch of its own, bit for bit. Tasks of one form that
do not depend on each other are one task, as soon as the operands of all are there. Values that wait
for others, or are there before they are needed, are limited in size. Failures and cached
preparations belong to one op, so tasks that have such are left alone, and so are updates of state,
which come last. Copies of operands wait only while other memory is in use no more than at the
peak. This is done for known sizes; plans of symbolic sizes launch each task by itself.

Long plans have equal work, and each joined kernel is one of few. Where launches are dear, the short
work of short plans is joined too, of any kernels: a gradient is often several launches that take
less time than starts.

CALOR_BESIDE=0 launches everything by itself, to find out what this gains.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Final

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Work
from calor_kernel.planning.arena import lay_out, lives
from calor_kernel.planning.common_launches import (
    fits_mixed,
    form_of,
    independent,
    may_mix,
    merged,
)
from calor_kernel.planning.failing import fail_alike
from calor_kernel.planning.preparations import preparations
from calor_kernel.planning.shared_copies import OPERAND_COPY
from calor_kernel.planning.values import Draft, Piece, Task

# Devices with cubes of fewer units start a launch in less time than they need to find its buffers.
_UNITS: Final = 64
# Shorter plans save less than the compilation of further kernels costs.
_SHORT: Final = 8
# Plans whose unlike work is joined, where launches are dear: each has kernels of its own then.
_FEW: Final = 64
# Launches in one: more buffers take longer to select than a launch takes to start.
_MOST: Final = 64
# Bytes of values that wait for a group, by falling preference. The memory of a plan may grow by a
# part, and at least so many bytes.
_WAITING: Final = (32 << 20, 4 << 20, 2 << 20, 1 << 20, 0)
_GROWTH: Final = 64
_LEAST: Final = 4 << 20
# Bytes that are moved while a launch starts.
_COPIED: Final = 1 << 20
# Bytes of a counter or another number of a state.
_COUNTER: Final = 64
# Groups of a form that a task may join, the latest first.
_OPEN: Final = 4


def side_by_side(
    draft: Draft, works: Sequence[Work], info: DeviceInfo
) -> tuple[Draft, Sequence[Work]]:
    """Return a draft and its works with equal work in common launches."""
    left = info.max_units < _UNITS or not info.has("pointers") or not joins_launches()
    short = len(draft.tasks) < (_FEW if info.launch_ns else _SHORT)
    if left or (short and not info.launch_ns):
        return draft, works
    if not short:
        return _joined(draft, works, info, unlike=False)
    works = [independent(work, info) for work in works]
    mixed = _joined(draft, works, info, unlike=True)
    # Equal works of many launches share each of them, where unlike ones share a few.
    alike = _joined(draft, works, info, unlike=False)
    both = mixed if alike[0] is draft else _joined(*alike, info, unlike=True)
    return min(mixed, both, key=lambda made: sum(len(work.launches) for work in made[1]))


def joins_launches() -> bool:
    """Return whether equal work is launched together, as CALOR_BESIDE says."""
    return os.environ.get("CALOR_BESIDE", "1") != "0"


def _joined(
    draft: Draft, works: Sequence[Work], info: DeviceInfo, *, unlike: bool
) -> tuple[Draft, Sequence[Work]]:
    """Return a draft and its works with equal work, or unlike work, in common launches."""
    before, specs = 0, draft.graph.specs
    whole = sum(specs[v].nbytes for v in draft.graph.inputs) + sum(p.nbytes for p in draft.outputs)
    for waiting in _WAITING:
        groups = _Search(draft, works, info, waiting, unlike).groups()
        if all(len(group) < 2 for group in groups):
            return draft, works
        made = merged(draft, works, groups, info)
        if not before:
            before = lay_out(draft.tasks, works, draft.outputs, info.align).nbytes
        after = lay_out(made[0].tasks, made[1], draft.outputs, info.align).nbytes
        if after <= before + max((before + whole) // _GROWTH, _LEAST):
            return made
    return draft, works


@dataclass(slots=True)
class _Group:
    """Tasks so far, by number, and bits: of theirs, and of those that they depend on.

    ``place``: when the first of them would run. ``ready``: when all operands are there.
    """

    tasks: list[int]
    bits: int
    above: int
    place: int = 0
    ready: int = 0

    @property
    def start(self) -> int:
        """When the tasks run."""
        return max(self.place, self.ready)


@dataclass(slots=True)
class _Search:
    """A draft, with the queries of tasks that may be one."""

    draft: Draft
    works: Sequence[Work]
    info: DeviceInfo
    waiting: int
    # Whether unlike tasks are joined.
    unlike: bool
    of: list[_Group] = field(default_factory=list)
    # The bytes in use at each task, and the most of them.
    live: list[int] = field(default_factory=list)
    peak: int = 0
    last: dict[Piece, int] = field(default_factory=dict)
    first: dict[Piece, int] = field(default_factory=dict)

    def groups(self) -> list[list[int]]:
        """Return the tasks of each group, in an order in which groups can run."""
        maker: dict[Piece, int] = {}
        for number, task in enumerate(self.draft.tasks):
            for value in task.inputs:
                self.last[value.piece] = number
                self.first.setdefault(value.piece, number)
            maker.update(dict.fromkeys(task.outputs, number))
        kept = frozenset(self.draft.outputs)
        # Of results that are written to state, the operands of the update wait in the arena.
        found = lives(self.draft.tasks, self.works, ())
        self.live = found.live(len(self.draft.tasks))
        self.peak = max(self.live, default=0)
        forms: dict[Any, list[_Group]] = {}
        known: dict[int, Any] = {}
        for number, (task, work) in enumerate(zip(self.draft.tasks, self.works, strict=True)):
            makers = {maker[v.piece] for v in task.inputs if v.piece in maker}
            self.of.append(self._alone(number, makers))
            if id(work) not in known:
                known[id(work)] = self._form(work)
            form = known[id(work)]
            final = not self.unlike and len(task.outputs) > 1 and kept.issuperset(task.outputs)
            if final:
                # State is written after all else, which nothing that follows joins.
                forms.clear()
            if form is None or final or not any(p.nbytes for p in task.outputs):
                continue
            if _prepares(task, work) or (_omits(task, work) and not self._cheap(work)):
                continue
            alike = forms.setdefault(form if form is True else (task.op, form), [])
            group = next(
                (one for one in reversed(alike[-_OPEN:]) if self._joins(one, number)), None
            )
            if group is None:
                alike.append(self.of[number])
            else:
                self._join(group, number)
        return self._ordered(maker)

    def _form(self, work: Work) -> Any:
        """Return what is equal in works that may be one, None for a work that is left alone."""
        if self.unlike and may_mix(work, self.info):
            return True
        return form_of(work, self.info)

    def _cheap(self, work: Work) -> bool:
        """Return whether a copy that may be no launch takes less time than the start of one."""
        return self.unlike and all(la.nbytes <= _COPIED for la in work.launches)

    def _mixes(self, group: _Group, number: int) -> bool:
        """Return whether an unlike task may join a group."""
        members = [*group.tasks, number]
        works = [self.works[n] for n in members]
        written = [self._overwritten(n) for n in members]
        fallible = any(work.failures for work in works)
        # State is written in place behind the last task that may fail, and else copied.
        if fallible and any(written):
            return False
        if not fail_alike([self.draft.tasks[n] for n in members], works):
            return False
        for place, n in enumerate(members):
            # What one of them writes in place, the others do not read.
            read = {v.piece for v in self.draft.tasks[n].inputs}
            if any(read & pieces for k, pieces in enumerate(written) if k != place):
                return False
        return fits_mixed(works, self.info)

    def _overwritten(self, number: int) -> set[Piece]:
        """Return the inputs that a task's results may be written to, if they are state.

        A counter often is, and a large value costs a copy if it is.
        """
        task = self.draft.tasks[number]
        pairs = [(task.inputs[i], task.outputs[o]) for i, o in self.works[number].in_place]
        pieces = {v.piece for v, made in pairs if v.whole and v.piece.nbytes == made.nbytes}
        return {
            piece
            for piece in pieces
            if piece.kind == "input" and not _COUNTER < piece.nbytes <= _COPIED
        }

    def _alone(self, number: int, makers: Iterable[int]) -> _Group:
        """Return a task as a group."""
        above, ready = 0, 0
        for other in makers:
            group = self.of[other]
            above |= group.bits | group.above
            ready = max(ready, group.start + 1)
        return _Group([number], 1 << number, above, number, ready)

    def _joins(self, group: _Group, number: int) -> bool:
        """Return whether a task may join a group."""
        own = self.of[number]
        if len(group.tasks) >= min(_MOST, self.info.choices) or own.above & group.bits:
            return False
        if self._cost(group, own) > self.waiting:
            return False
        if self.unlike and not self._mixes(group, number):
            return False
        if self.draft.tasks[number].op != OPERAND_COPY:
            return True
        early = self.live[group.start : number]
        fits = not early or max(early) + self._made(number) <= self.peak
        return own.ready <= group.start and fits

    def _cost(self, group: _Group, own: _Group) -> int:
        """Return the bytes that wait, or are there early, if two groups are one."""
        start = max(group.place, group.ready, own.ready)
        found: dict[Piece, int] = {}
        for number in (*group.tasks, *own.tasks):
            task = self.draft.tasks[number]
            reads = {v.piece: v.piece.nbytes for v in task.inputs if v.piece.kind == "made"}
            made = {p: p.nbytes for p in task.outputs}
            if number > start:
                # Results are there early; operands that are read last are gone early.
                freed = sum(n for p, n in reads.items() if self.last[p] <= number)
                if sum(made.values()) > freed:
                    found |= made
                continue
            found |= {p: n for p, n in reads.items() if self.last[p] < start}
            # What reads the results waits too, with what it reads.
            found |= {p: n for p, n in made.items() if self.first.get(p, start) < start}
        return sum(found.values())

    def _made(self, number: int) -> int:
        """Return the bytes of a task's results."""
        return sum(p.nbytes for p in self.draft.tasks[number].outputs)

    def _join(self, group: _Group, number: int) -> None:
        """Make a task, on which none depends yet, a part of a group."""
        own = self.of[number]
        for place in range(group.start, number):
            self.live[place] += self._made(number)
        group.tasks.append(number)
        before, group.bits = group.bits, group.bits | own.bits
        group.above |= own.above
        group.ready = max(group.ready, own.ready)
        self.of[number] = group
        new = group.bits | group.above
        for other in self.of:
            if other.above & before:
                other.above |= new

    def _ordered(self, maker: Mapping[Piece, int]) -> list[list[int]]:
        """Return the groups in order, each as early as its first task if it is ready."""
        groups = list({id(group): group for group in self.of}.values())
        waits: dict[int, int] = {}
        users: dict[int, list[_Group]] = {}
        for group in groups:
            read = {v.piece for n in group.tasks for v in self.draft.tasks[n].inputs}
            needs = {id(one): one for one in (self.of[maker[p]] for p in read if p in maker)}
            waits[id(group)] = len(needs)
            for one in needs:
                users.setdefault(one, []).append(group)
        by_place = {group.place: group for group in groups}
        ready = [group.place for group in groups if not waits[id(group)]]
        heapify(ready)
        order: list[list[int]] = []
        while ready:
            group = by_place[heappop(ready)]
            order.append(group.tasks)
            for user in users.get(id(group), ()):
                waits[id(user)] -= 1
                if not waits[id(user)]:
                    heappush(ready, user.place)
        assert len(order) == len(groups), "groups of tasks wait for each other"
        return order


def _prepares(task: Task, work: Work) -> bool:
    """Return whether a part of a work may be cached while operands are unchanged."""
    return any(
        all(task.inputs[k].piece.kind in ("input", "constant") for k in operands)
        for operands in preparations(work).values()
    )


def _omits(task: Task, work: Work) -> bool:
    """Return whether a copy may be in place, and then is no launch at all."""
    operands = {operand for operand, _ in work.in_place}
    copied = {launch.copies for launch in work.launches if launch.copies is not None}
    return any(task.inputs[k].whole for k in copied & operands)
