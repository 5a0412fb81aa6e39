"""Rematerialisation: tasks that run once more, so that their results need not wait in memory.

Requirements: the arena of a plan fits a given room; the results keep their bits, since a task that
runs again has the kernels and the operands of its first run, random counters included. What saves
the most bytes for its time at the peak is recomputed first: chains of cheap tasks, rows, then
attention and products. An operand that would be gone is kept, or recomputed as well. Values
recomputed may be dropped and recomputed again, so deep networks come down to few layers at once.

Sources: Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory cost" (2016);
Jain et al., Checkmate (2020); Kirisame et al., "Dynamic tensor rematerialization" (2021), whose
measure, bytes for time, chooses here ahead of time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from calor_kernel.contract.cost import Ceilings, work_seconds
from calor_kernel.contract.work import Work
from calor_kernel.planning.arena import Lives
from calor_kernel.planning.values import Piece, Task, Value

Step = tuple[Task, Work]
# The most tasks that run again for one that does.
_CHAIN: Final = 48
# The share of the known ways that one round follows before it looks at the peak again.
_ROUND: Final = 4
# How many times the tasks of a plan may run in all.
_MOST: Final = 4


@dataclass(slots=True)
class Way:
    """A way to free memory at the peak: tasks that run again before a later reader.

    ``again``: their numbers, in order. ``before``: the number of the reader. ``dropped``: the
    pieces that need not wait. ``read``: the pieces that the tasks read, by the piece that each
    stands for. ``results``: what the tasks make, likewise. ``saved``: bytes at the peak.
    """

    before: int
    dropped: list[Piece]
    again: dict[int, None] = field(default_factory=dict)
    read: dict[Piece, Piece] = field(default_factory=dict)
    results: dict[Piece, None] = field(default_factory=dict)
    saved: int = 0
    seconds: float = 0.0


class Steps:
    """The tasks of a plan with their works, of which some run again.

    ``outputs``: the results of the graph. ``again``: the ops that run once more, in the order in
    which they were chosen.
    """

    def __init__(
        self, steps: Sequence[Step], outputs: Collection[Piece], ceilings: Ceilings
    ) -> None:
        self.steps = list(steps)
        self.outputs = frozenset(outputs)
        self.again: list[str] = []
        self._ceilings = ceilings
        self._most = _MOST * len(steps)
        # The piece that a copy stands for, and all copies of a piece.
        self._first: dict[Piece, Piece] = {}
        self._copies: dict[Piece, list[Piece]] = {}

    def reduce(self, lives: Lives, live: Sequence[int], goal: int, written: Written) -> bool:
        """Let tasks run again, so that less is in use at the peak; False if nothing helps.

        ``lives`` and ``live`` are of the present tasks; ``goal``: the bytes that are few enough.
        ``written``: for each input of the graph that is overwritten, the output in its place.
        """
        if len(self.steps) > self._most:
            return False
        peak = max(range(len(live)), key=live.__getitem__)
        search = Search(self, lives, live, peak, goal, written)
        ways = sorted(search.ways(), key=lambda w: (-w.saved / w.seconds, w.before))
        chosen: list[Way] = []
        read: set[Piece] = set()
        dropped: set[Piece] = set()
        left = live[peak] - goal
        for way in ways:
            if left <= 0 or len(chosen) > len(ways) // _ROUND:
                break
            if read.isdisjoint(way.dropped) and dropped.isdisjoint(way.read.values()):
                chosen.append(way)
                read.update(way.read.values())
                dropped.update(way.dropped)
                left -= way.saved
        self._follow(chosen)
        return bool(chosen)

    def seconds(self, number: int) -> float:
        """Return the estimated time of a task."""
        return work_seconds(self.steps[number][1], self._ceilings) + 1e-9

    def first(self, piece: Piece) -> Piece:
        """Return the piece that a copy stands for."""
        return self._first.get(piece, piece)

    def copies(self, piece: Piece) -> Iterable[Piece]:
        """Return a piece and its copies."""
        one = self.first(piece)
        return (one, *self._copies.get(one, ()))

    def _follow(self, ways: Sequence[Way]) -> None:
        """Insert the tasks that run again, and let later readers read their results."""
        inserted: dict[int, list[Step]] = {}
        renamed: dict[Piece, tuple[int, Piece]] = {}
        for way in ways:
            known = dict(way.read)
            for number in way.again:
                task, work = self.steps[number]
                copy = self._copy(task, known)
                known |= zip(map(self.first, task.outputs), copy.outputs, strict=True)
                inserted.setdefault(way.before, []).append((copy, work))
                self.again.append(task.op)
            renamed |= {p: (way.before, known[self.first(p)]) for p in way.dropped}
        steps: list[Step] = []
        for number, (task, work) in enumerate(self.steps):
            steps += inserted.get(number, ())
            steps.append((_reading(task, number, renamed), work))
        self.steps = steps

    def _copy(self, task: Task, known: Mapping[Piece, Piece]) -> Task:
        """Return a task that runs again, on the pieces that stand for its operands."""
        inputs = tuple(Value(known.get(self.first(v.piece), v.piece), v.view) for v in task.inputs)
        outputs = tuple(replace(piece) for piece in task.outputs)
        for piece, copy in zip(task.outputs, outputs, strict=True):
            one = self._first[copy] = self.first(piece)
            self._copies.setdefault(one, []).append(copy)
        return replace(task, inputs=inputs, outputs=outputs)


def _reading(task: Task, number: int, renamed: Mapping[Piece, tuple[int, Piece]]) -> Task:
    """Return a task that reads copies instead of pieces that are dropped before it."""
    pieces = [renamed.get(v.piece) for v in task.inputs]
    if not any(found is not None and number >= found[0] for found in pieces):
        return task
    inputs = tuple(
        v if found is None or number < found[0] else Value(found[1], v.view)
        for v, found in zip(task.inputs, pieces, strict=True)
    )
    return replace(task, inputs=inputs)


Written = Mapping[int, Piece]


class Search:
    """Looks for the ways to free memory at one point of the present tasks."""

    def __init__(
        self,
        steps: Steps,
        lives: Lives,
        live: Sequence[int],
        peak: int,
        goal: int,
        written: Written,
    ) -> None:
        self.steps = steps
        self.peak = peak
        self.live = live
        self.goal = goal
        self.made: dict[Piece, int] = {}
        self.reads: dict[Piece, list[int]] = {}
        for number, (task, _) in enumerate(steps.steps):
            self.made.update((piece, number) for piece in task.outputs)
            for value in task.inputs:
                if value.piece.kind == "made":
                    self.reads.setdefault(value.piece, []).append(number)
        self.written = {i: self.made[piece] for i, piece in written.items()}
        self.inside = {p for p in self.made if _root(p, lives) in lives.spans}

    def ways(self) -> Iterator[Way]:
        """Yield ways that free something at the peak and need no more elsewhere."""
        for number in range(self.peak):
            task, work = self.steps.steps[number]
            waiting = [piece for piece in task.outputs if self._waits(piece)]
            if not waiting or work.failures:
                continue
            before = min(self._next(piece) for piece in waiting)
            found = [self._way(number, before, waiting, deep) for deep in (False, True)]
            if found[1] is not None and found[0] is not None and found[1].again == found[0].again:
                del found[1]
            for way in found:
                if way is not None and self._helps(way):
                    yield way

    def _next(self, piece: Piece) -> int:
        """Return the first reader after the peak, or -1."""
        reads = self.reads.get(piece, [])
        place = bisect_right(reads, self.peak)
        return reads[place] if place < len(reads) else -1

    def _waits(self, piece: Piece) -> bool:
        """Return whether a piece is in the arena at the peak only for later readers."""
        if piece not in self.inside or piece in self.steps.outputs or not piece.nbytes:
            return False
        reads = self.reads.get(piece, [])
        place = bisect_right(reads, self.peak)
        return place < len(reads) and (place == 0 or reads[place - 1] != self.peak)

    def _way(self, number: int, before: int, waiting: list[Piece], deep: bool) -> Way | None:
        """Return the way that runs a task again; ``deep``: together with those that it reads."""
        way = Way(before, waiting, saved=sum(p.nbytes for p in waiting))
        return way if self._add(way, number, deep) else None

    def _add(self, way: Way, number: int, deep: bool) -> bool:
        """Add a task that runs again, after what it reads; False if it cannot."""
        task, work = self.steps.steps[number]
        if work.failures or len(way.again) >= _CHAIN:
            return False
        for value in task.inputs:
            piece = value.piece
            if piece.kind == "input" and self.written.get(piece.number, way.before) < way.before:
                return False
            if piece.kind == "made" and not self._provide(way, piece, deep):
                return False
        if number not in way.again:
            way.again[number] = None
            way.results.update((self.steps.first(p), None) for p in task.outputs)
            way.seconds += self.steps.seconds(number)
        return True

    def _provide(self, way: Way, piece: Piece, deep: bool) -> bool:
        """Find an operand: one that is in memory, one that is made again, or one that waits."""
        one = self.steps.first(piece)
        if one in way.read or one in way.results:
            return True
        known = [p for p in self.steps.copies(one) if self.made[p] < way.before]
        last = {p: self.reads.get(p, [self.made[p]])[-1] for p in known if p not in way.dropped}
        if not last:
            return False
        there = next((p for p in last if last[p] >= way.before or p in self.steps.outputs), None)
        if there is not None:
            way.read[one] = there
            return True
        longest = max(last, key=last.__getitem__)
        cost = longest.nbytes if last[longest] < self.peak and longest in self.inside else 0
        if deep and cost:
            tried = replace(way, again={**way.again}, read={**way.read}, results={**way.results})
            if self._add(tried, self.made[longest], deep):
                way.again, way.read, way.results = tried.again, tried.read, tried.results
                way.seconds, way.saved = tried.seconds, tried.saved
                return True
        way.read[one] = longest
        way.saved -= cost
        return way.saved > 0

    def _helps(self, way: Way) -> bool:
        """Return whether the tasks that run again leave less in use where they do."""
        if way.saved <= 0:
            return False
        most = max(sum(self.steps.steps[n][1].scratch) for n in way.again)
        dropped = sum(p.nbytes for p in way.dropped)
        there = self.live[way.before - 1] - dropped + sum(p.nbytes for p in way.results) + most
        return there <= max(self.goal, self.live[self.peak] - way.saved)


def _root(piece: Piece, lives: Lives) -> Piece:
    while piece in lives.merged:
        piece = lives.merged[piece]
    return piece


@dataclass(frozen=True, slots=True)
class Fitted:
    """Tasks with their works whose arena has so many bytes, and the ops that run once more."""

    steps: list[Step]
    nbytes: int
    again: tuple[str, ...]


def fit(
    steps: Sequence[Step],
    outputs: Collection[Piece],
    ceilings: Ceilings,
    room: int,
    lives_of: Callable[[Sequence[Step]], Lives],
    arena_of: Callable[[Sequence[Step]], int],
    written: Written,
) -> Fitted:
    """Return tasks whose arena fits the room, or the smallest that was reached.

    ``lives_of`` and ``arena_of`` return when the pieces of tasks are in use, and the bytes of their
    arena. What is reached does not depend on the room, so as much room as that is enough.
    """
    first = made = Fitted(list(steps), arena_of(steps), ())
    if first.nbytes <= room:
        return first
    for goal in (room, 0):
        some = Steps(steps, outputs, ceilings)
        least = None
        while True:
            lives = lives_of(some.steps)
            live = lives.live(len(some.steps) + 1)
            top = max(live)
            if least is None or top < least:
                least = top
                made = Fitted(some.steps, 0, tuple(some.again))
                if top <= goal:
                    made = replace(made, nbytes=arena_of(some.steps))
                    if made.nbytes <= room:
                        return made
                    # Gaps: less must be in use than there is room.
                    goal = top - max(made.nbytes - room, 1)
            if not some.reduce(lives, live, goal, written):
                break
    made = replace(made, nbytes=arena_of(made.steps))
    return min(first, made, key=lambda one: one.nbytes)
