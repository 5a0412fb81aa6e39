"""Works with less scratch memory where it makes the peak of a plan.

Requirements: a way may copy an operand to many times its bytes, as im2col does. Such scratch memory
is in use during one task; if it raises the peak of the whole plan, a family with such ways is asked
for the same way in a room of fewer bytes, which it keeps by working in chunks. A few more launches
are the price, so it is paid for a share of all memory only. The order of tasks and their common
launches are chosen anew, since they depend on what a task needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from calor_kernel.contract.choices import is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import ROOMY, Refusal, Work
from calor_kernel.planning.lowering import Lowerings
from calor_kernel.planning.shared_copies import shared_copies
from calor_kernel.planning.side_by_side import side_by_side
from calor_kernel.planning.task_order import live_bytes, released_early
from calor_kernel.planning.values import Draft, Task

# The share of a plan's memory that less scratch memory has to save, and the part of its own that a
# task keeps at least, so that chunks fill a device.
_SHARE: Final = 32
_LEAST: Final = 8
# How often a plan is arranged anew.
_ROUNDS: Final = 2


def arranged_tasks(
    draft: Draft, works: Sequence[Work], lowerings: Lowerings, deterministic: bool
) -> tuple[Draft, Sequence[Work]]:
    """Return a draft and its works in order, with equal copies once and equal work side by side.

    Works that make the peak by their scratch memory are replaced by some with less.
    """
    made = _arranged(draft, works, lowerings.info)
    if not made[0].tasks or any(is_size(p.nbytes) for task in draft.tasks for p in task.outputs):
        return made
    search = _Search(draft, list(works), lowerings, deterministic)
    for _ in range(_ROUNDS):
        live = live_bytes(*made)
        if not search.shrink(*made, live):
            break
        other = _arranged(draft, search.works, lowerings.info)
        if max(live_bytes(*other)) >= max(live):
            break
        made = other
    return made


def _arranged(
    draft: Draft, works: Sequence[Work], info: DeviceInfo
) -> tuple[Draft, Sequence[Work]]:
    return released_early(*side_by_side(*shared_copies(draft, works, info), info))


@dataclass(slots=True)
class _Search:
    """A draft as it was planned, and its works, of which some are replaced."""

    draft: Draft
    works: list[Work]
    lowerings: Lowerings
    deterministic: bool

    def shrink(self, draft: Draft, works: Sequence[Work], live: Sequence[int]) -> bool:
        """Replace works so that less is in use at the peak; return whether that saves enough.

        ``draft`` and ``works`` are arranged; ``live``: the bytes in use at each of the tasks.
        """
        scratch = [sum(work.scratch) for work in works]
        # What is in use at each task beside its scratch memory.
        beside = [n - own for n, own in zip(live, scratch, strict=True)]
        floor = goal = max(beside, default=0)
        peak, specs = max(live, default=0), draft.graph.specs
        whole = peak + sum(specs[v].nbytes for v in draft.graph.inputs)
        high = [n for n, nbytes in enumerate(live) if nbytes > floor]
        numbers = {id(task): n for n, task in enumerate(self.draft.tasks)}
        members = {n: [numbers.get(id(one)) for one in _members(draft.tasks[n])] for n in high}
        for n in high:
            if (peak - goal) * _SHARE < whole:
                return False
            room = max(floor - beside[n], scratch[n] // _LEAST)
            goal = max(goal, beside[n] + self._scratch(members[n], room, scratch[n]))
        if (peak - goal) * _SHARE < whole:
            return False
        for n in high:
            if live[n] <= goal:
                continue
            for number in members[n]:
                less = self._less(number, (goal - beside[n]) // len(members[n]))
                if number is not None and less is not None:
                    self.works[number] = less
        return True

    def _scratch(self, members: Sequence[int | None], room: int, own: int) -> int:
        """Return the scratch bytes of tasks side by side in a room; ``own``: those of now."""
        found = [self._less(number, room // len(members)) for number in members]
        if any(less is None for less in found):
            return own
        return sum(sum(less.scratch) for less in found if less is not None)

    def _less(self, number: int | None, room: int) -> Work | None:
        """Return the work of a task in a room, None if it has no such with less than now."""
        if number is None:
            return None
        task, work = self.draft.tasks[number], self.works[number]
        if work.way is None or task.op not in ROOMY:
            return None
        views = tuple(value.view for value in task.inputs)
        given = task.attributes, views, task.results, self.deterministic
        found = self.lowerings.ask(task.op, *given, pitches=task.pitches, room=room)
        if isinstance(found, Refusal):
            return None
        less = next((one for one in found if one.way == work.way), None)
        return less if less is not None and sum(less.scratch) < sum(work.scratch) else None


def _members(task: Task) -> list[Task]:
    """Return the tasks of which one is made."""
    if not task.members:
        return [task]
    return [one for member in task.members for one in _members(member)]
