"""The order of tasks: what frees memory runs as soon as it can.

Requirements: a gradient's rules stand in the graph as they are written, the gradient of an operand
before that of a weight, and updates of state behind all. So large values wait: the operand of a
layer for the gradient of its weights while that of the operand is made beside it, and gradients of
weights for a common end. A task that frees more than it makes is moved before others, together with
the small tasks that it waits for. Nothing is moved behind another, so results that are written in
place stay behind the last reader of the old contents and the last task that may fail. The order
stays as it is unless it saves a share of the memory in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from calor_kernel.contract.choices import is_size
from calor_kernel.contract.work import Work
from calor_kernel.planning.arena import lives
from calor_kernel.planning.failing import last_failing
from calor_kernel.planning.values import Draft, Piece

# A task is moved if it frees so many bytes, and waits for at most so many tasks of few bytes each.
_FREED: Final = 64 << 10
_SMALL: Final = 1 << 20
_WAITED: Final = 32
# The share of the bytes in use at the peak that another order saves.
_SHARE: Final = 256


def released_early(draft: Draft, works: Sequence[Work]) -> tuple[Draft, Sequence[Work]]:
    """Return a draft and its works in an order that needs less memory, or those given."""
    tasks = draft.tasks
    if any(is_size(p.nbytes) for task in tasks for p in task.outputs):
        return draft, works
    order = _Search(draft, works).order()
    if order == [*range(len(tasks))]:
        return draft, works
    moved, chosen = [tasks[n] for n in order], [works[n] for n in order]
    other = replace(draft, tasks=moved)
    before, after = (
        max(live_bytes(one, some), default=0) for one, some in ((draft, works), (other, chosen))
    )
    return (draft, works) if before - after <= before // _SHARE else (other, chosen)


def live_bytes(draft: Draft, works: Sequence[Work]) -> list[int]:
    """Return the bytes that are in use at each task if state is written in place."""
    tasks = draft.tasks
    kept = frozenset(draft.outputs)
    written = {
        task.outputs[result]: task.inputs[operand].piece
        for task, work in zip(tasks, works, strict=True)
        for operand, result in reversed(work.in_place)
        if task.outputs[result] in kept and task.inputs[operand].piece.kind == "input"
    }
    return lives(tasks, works, draft.outputs, written).live(len(tasks))


@dataclass(slots=True)
class _Search:
    """A draft, with the queries of tasks that may run.

    ``needs``: for each task, those that run before it and have not yet. ``users``: the inverse, of
    all. ``left``: for each piece, the tasks that are still to read it.
    """

    draft: Draft
    works: Sequence[Work]
    needs: list[set[int]] = field(default_factory=list)
    users: list[list[int]] = field(default_factory=list)
    left: dict[Piece, set[int]] = field(default_factory=dict)
    done: list[int] = field(default_factory=list)

    def order(self) -> list[int]:
        """Return the numbers of the tasks in the order in which they run."""
        self._link()
        kept = frozenset(self.draft.outputs)
        finished: set[int] = set()
        for number in range(len(self.draft.tasks)):
            waiting = [] if number in finished else [[number]]
            while waiting:
                for one in waiting.pop(0):
                    if one in finished:
                        continue
                    finished.add(one)
                    self._run(one)
                    found = (self._with_waited(n) for n in self._next(one) if n not in finished)
                    waiting += [few for few in found if few and self._freed(few, kept) >= _FREED]
        return self.done

    def _link(self) -> None:
        maker: dict[Piece, int] = {}
        readers: dict[Piece, list[int]] = {}
        kept = frozenset(self.draft.outputs)
        fails = last_failing(self.draft.tasks, self.works)
        same: dict[int, list[Piece]] = {}
        failing = -1
        for number, task in enumerate(self.draft.tasks):
            found = {maker[v.piece] for v in task.inputs if v.piece in maker}
            results = [p for p in task.outputs if p in kept]
            if results and fails < number:
                found.add(fails)
            if self.works[number].failures:
                # What checks first decides which of them fails.
                found.add(failing)
                failing = number
            for piece in results:
                # What it may be written over: an operand of its size, else any input of that.
                own = {v.piece for v in task.inputs if v.piece.nbytes == piece.nbytes}
                own = {p for p in own if p.kind == "input"} or set(same.get(piece.nbytes, ()))
                found.update(n for p in own for n in readers.get(p, ()))
            found -= {number, -1}
            self.needs.append(found)
            self.users.append([])
            for other in found:
                self.users[other].append(number)
            for piece in dict.fromkeys(v.piece for v in task.inputs):
                if piece.kind == "input":
                    if piece not in readers:
                        same.setdefault(piece.nbytes, []).append(piece)
                    readers.setdefault(piece, []).append(number)
                elif piece.kind == "made":
                    self.left.setdefault(piece, set()).add(number)
            maker.update(dict.fromkeys(task.outputs, number))

    def _run(self, number: int) -> None:
        self.done.append(number)
        for user in self.users[number]:
            self.needs[user].discard(number)
        for value in self.draft.tasks[number].inputs:
            if value.piece in self.left:
                self.left[value.piece].discard(number)

    def _next(self, number: int) -> Iterator[int]:
        """Yield the tasks that may free memory now that a task has run."""
        yield from self.users[number]
        for value in self.draft.tasks[number].inputs:
            readers = self.left.get(value.piece, ())
            if len(readers) == 1 and value.piece.nbytes >= _FREED:
                yield from readers

    def _with_waited(self, number: int) -> list[int]:
        """Return a task behind the small ones that it waits for; none if another is large."""
        found, todo = {number}, [number]
        while todo:
            for other in self.needs[todo.pop()] - found:
                if len(found) > _WAITED or not self._is_small(other):
                    return []
                found.add(other)
                todo.append(other)
        return sorted(found)

    def _is_small(self, number: int) -> bool:
        made = sum(p.nbytes for p in self.draft.tasks[number].outputs)
        return made + sum(self.works[number].scratch) <= _SMALL

    def _freed(self, numbers: Sequence[int], kept: frozenset[Piece]) -> int:
        """Return the bytes that tasks free beyond those that they make."""
        tasks, own = [self.draft.tasks[n] for n in numbers], set(numbers)
        pieces = {v.piece for task in tasks for v in task.inputs if v.piece in self.left}
        made = {p for task in tasks for p in task.outputs if p not in kept}
        freed = sum(p.nbytes for p in pieces - made if p not in kept and self.left[p] <= own)
        stay = (p for p in made if not self.left.get(p, own) <= own)
        return freed - sum(p.nbytes for p in stay)
