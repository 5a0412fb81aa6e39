"""Cached preparations: packed weights and tables, kept while their operands are unchanged.

Requirements: repeated calls with the same weights pack them once. A weight that is replaced,
written in place, or exposed to external writes is always detected, by comparing version stamps.
Kept memory is returned when memory runs short. A plan with ever-changing operands, as in training,
keeps nothing, and its checks cost almost nothing.

CALOR_KEEP=0 prepares everything at every call.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any, Final

from calor.interning import remember
from calor_kernel.contract.work import Refusal, Work, flags_of
from calor_kernel.device.buffers import OPEN, KernelBuffer
from calor_kernel.planning.plan import Plan, State, Variant
from calor_kernel.planning.preparations import preparations, written
from calor_kernel.planning.recording import Laid, Recorder, Recording, Targets
from calor_kernel.planning.values import Piece, Task

# After this many failed checks, a plan skips the check for as many calls.
_LOOKS: Final = 32
# Contents that stayed shorter than this, in seconds, need twice the patience the next time.
_LONG_S: Final = 1.0
_MOST_PATIENCE: Final = 64
_STAMPS = count(1)


@dataclass(frozen=True, slots=True)
class Kept:
    """The execution of a plan with some operands known to be unchanged.

    ``preparing`` writes ``nbytes`` of memory once; ``rest`` is run by every call. ``lay``: how it
    is laid out for targets that may change before a failure.
    """

    preparing: Recording
    rest: Recording
    nbytes: int
    lay: Callable[[Targets], Laid]


class Keeper:
    """Watches the operands that a plan prepares, and caches what depends on unchanged ones."""

    def __init__(self, plan: Plan, watched: Sequence[int]) -> None:
        self.plan = plan
        self.watched = tuple(watched)
        # The stamps at the last look, 0 before the first.
        self._last = [0] * len(watched)
        # The number of calls since each watched input changed.
        self._same = [0] * len(watched)
        self._calls = 0
        self._patience = 1
        self._looks = self._pause = 0
        self.state: State | None = None
        self._kept: dict[frozenset[int], Kept | None] = {}
        self._lock = threading.Lock()
        plan.pool.keepers.add(self)

    @staticmethod
    def of(plan: Plan) -> Keeper | None:
        """Return a keeper for a plan's operands; None if the plan prepares none."""
        if os.environ.get("CALOR_KEEP", "1") == "0":
            return None
        found = False
        watched: dict[int, None] = {}
        for task in plan.draft.tasks:
            for work in task.works:
                for operands in preparations(work).values():
                    pieces = [task.inputs[k].piece for k in operands]
                    if all(p.kind in ("input", "constant") for p in pieces):
                        found = True
                        watched.update((p.number, None) for p in pieces if p.kind == "input")
        return Keeper(plan, sorted(watched)) if found else None

    def expect(self, lasting: Collection[int]) -> None:
        """Plan for inputs that are expected to stay the same, which the first call then keeps."""
        self._same = [int(i in lasting) for i in self.watched]
        self._calls = self._patience
        key = frozenset(i for i in self.watched if i in lasting)
        if key or not self.watched:
            remember(self._kept, key, self._plan(key))

    def variant(self, inputs: Sequence[Any]) -> Variant:
        """Return the variant for these inputs."""
        state = self.state
        if state is not None and [inputs[i].stamp for i in state.inputs] == state.stamps:
            return state.variant
        if self._pause:
            self._pause -= 1
            return self.usual
        with self._lock:
            return self._look(inputs)

    # What a template's keeper does in its own way.
    @property
    def usual(self) -> Variant:
        """The variant that keeps nothing."""
        return self.plan.base

    def room(self, kept: Kept) -> bool:
        """Return whether there is memory for what would be kept, beside that of a call."""
        return self.plan.pool.has_room(kept.nbytes, self.plan.base.required)

    def found(self, kept: Kept, memory: KernelBuffer) -> Variant:
        """Return the variant that reads kept memory."""
        return Variant(self.plan, {}, kept.rest, memory, lay=kept.lay)

    def drop(self) -> None:
        """Free the cache; it is rebuilt once it has been missed for long enough."""
        if self.state is None:
            return
        self.state = None
        self._same = [0] * len(self.watched)
        self._calls = 0

    def _look(self, inputs: Sequence[Any]) -> Variant:
        plan, state = self.plan, self.state
        if state is not None:
            short = perf_counter() - state.since < _LONG_S
            self._patience = min(2 * self._patience, _MOST_PATIENCE) if short else 1
            self.state = None
        stamps = [stamped(inputs[i]) for i in self.watched]
        self._same = [
            n + 1 if new == old != OPEN else n if not old and new != OPEN else 0
            for n, new, old in zip(self._same, stamps, self._last, strict=True)
        ]
        self._last = stamps
        self._calls += 1
        stay = [i for i, n in zip(self.watched, self._same, strict=True) if n >= self._patience]
        kept = None
        if stay or (not self.watched and self._calls > self._patience):
            key = frozenset(stay)
            if key not in self._kept:
                remember(self._kept, key, self._plan(key))
            kept = self._kept[key]
        if kept is None or not self.room(kept):
            self._looks += 1
            if self._looks >= _LOOKS:
                self._looks, self._pause = 0, _LOOKS
            return self.usual
        self._looks = 0
        memory = plan.pool.uncounted(kept.nbytes)
        plan.prepare(kept.preparing, inputs, memory)
        found = self.found(kept, memory)
        known = dict(zip(self.watched, stamps, strict=True))
        self.state = State(tuple(stay), [known[i] for i in stay], found, perf_counter())
        return found

    def _plan(self, stay: Collection[int]) -> Kept | None:
        """Return the recordings for unchanged inputs, None if they save nothing."""
        plan = self.plan
        tasks = plan.draft.tasks
        align = plan.engine.device.info.align
        works: list[Work] = []
        pieces: dict[tuple[int, int], Piece] = {}
        done: set[tuple[int, int]] = set()
        end = 0
        for number, (task, usual) in enumerate(zip(tasks, plan.works, strict=True)):
            read = [v.piece for v in task.inputs]
            staying = frozenset(
                k
                for k, piece in enumerate(read)
                if piece.kind == "constant" or (piece.kind == "input" and piece.number in stay)
            )
            work = self._work(task, usual, staying)
            works.append(work)
            for order, operands in preparations(work).items():
                if not operands <= staying:
                    continue
                done.add((number, order))
                for scratch in written(work, order):
                    if (number, scratch) not in pieces:
                        nbytes = work.scratch[scratch]
                        pieces[number, scratch] = Piece("kept", nbytes, end)
                        end += -(-max(nbytes, 1) // align) * align
        if not done:
            return None
        recorder = Recorder(plan.engine, plan.draft, works, plan.status)
        every = {(n, order) for n, work in enumerate(works) for order in range(len(work.launches))}
        preparing = recorder.record(kept=pieces, without=every - done)
        lay = partial(recorder.laid, kept=pieces, without=done, private=True)
        return Kept(preparing, recorder.record(kept=pieces, without=done), end, lay)

    def _work(self, task: Task, usual: Work, staying: frozenset[int]) -> Work:
        """Return the work for a task with some unchanged operands."""
        engine = self.plan.engine
        if (
            task.members
            or not staying
            or task.op not in engine.lowerings
            or not any(p.nbytes for p in task.outputs)
            or engine.deterministic
        ):
            return usual
        views = tuple(v.view for v in task.inputs)
        given = task.attributes, views, task.results
        found = engine.lowerings.ask(task.op, *given, kept=staying, pitches=task.pitches)
        if isinstance(found, Refusal) or list(found) == list(task.works):
            return usual
        # Keep the tuner's choice if it has a form for unchanged operands.
        tuned = usual is not task.works[0] and usual.variant
        alike = [w for w in found if w.variant == usual.variant] if tuned else []
        work = (alike or found)[0]
        fits = flags_of([work]) <= self.plan.flags and work.failures == usual.failures
        return work if fits else usual


def stamped(buffer: Any) -> int:
    """Return the version stamp of a buffer's contents, assigned now if missing."""
    if not buffer.stamp:
        buffer.stamp = next(_STAMPS)
    number: int = buffer.stamp
    return number
