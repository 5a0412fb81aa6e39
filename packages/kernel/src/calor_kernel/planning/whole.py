"""A graph with control flow as one list of launches, if no step depends on data.

Requirements: the stages of a small recurrent model take ten or twenty microseconds each, and the
host needs as long between them. If all stages are lists with known numbers of steps, the lists are
recorded as one, on one range of memory. Unusual calls run stage by stage: changed weights, a
profile, in-place outputs. This serves devices whose host waits for each run; other devices overlap
with the host's preparation of the next stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from calor_kernel.device.board import Words, words_at
from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.device.protocol import Step
from calor_kernel.planning.arena import Range
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.parts import Place as PartPlace
from calor_kernel.planning.plan import Plan, State, Variant
from calor_kernel.planning.recording import Place
from calor_kernel.planning.steps import Places, Steps, moved_step

# Beyond so many launches, or bytes between stages, the host's overhead is negligible.
_LAUNCHES: Final = 2048
_BYTES: Final = 4 << 20


class Stage(NamedTuple):
    """A stage of a graph: the numbers of its inputs and results, and the last reads.

    ``run``: a plan, or the steps of a scan with their number, or None for parts of inputs.
    """

    taken: Sequence[int]
    made: Sequence[int]
    ends: Sequence[int]
    run: Plan | tuple[Steps, int] | None


class Refused(Exception):
    """The stages cannot be merged into one list."""


class Whole:
    """Stages merged into one list; Refused if impossible. ``given``: the inputs of their last run.

    Slots: inputs, arena, words, outputs, and constants and prepared weights.
    """

    def __init__(
        self, engine: Engine, inputs: Sequence[int], outputs: Sequence[int],
        parts: Mapping[int, PartPlace], stages: Sequence[Stage], given: Sequence[Any],
    ) -> None:  # fmt: skip
        if engine.tells_late or {*outputs} & {*inputs, *parts} or len({*outputs}) != len(outputs):
            raise Refused
        self.engine = engine
        self._align = engine.device.info.align
        self._places: dict[int, Place] = {v: (i, 0) for i, v in enumerate(inputs)}
        self._sources = {v: i for i, v in enumerate(inputs)}
        for value, part in parts.items():
            source = self._sources[value] = self._sources[part.source]
            self._places[value] = source, part.offset
        self._arena = len(inputs)
        self._range = Range()
        self._results = {v: n for n, v in enumerate(outputs)}
        self._nbytes = [0] * len(outputs)
        self._sizes: dict[int, int] = {}  # of results in the arena
        # Final carries that are rows of a stack, and for each stack what is still read there.
        self._homes: dict[int, int] = {}
        self._living: dict[int, set[int]] = {}
        self._read = {v for stage in stages for v in stage.taken}
        self._fixed: list[KernelBuffer] = []
        self._failing: list[tuple[Plan, int]] = []  # with the byte offset of the status words
        self._words_bytes = 0
        self._words: list[Words] = []
        self._keepers: list[tuple[Any, State]] = []
        self._watched: list[int] = []
        self._steps: list[Step] = []
        for stage in stages:
            self._add(stage)
        self._watched = sorted({*self._watched})
        self._stamps = [given[i].stamp for i in self._watched]
        self._handles = [b.handle for b in self._fixed]
        self._room = max(self._range.end, 1) + self._align
        self._required = self._room + sum(self._nbytes)
        self._takers = [engine.pool.taker(n) for n in self._nbytes]
        slots = self._arena + 2 + len(outputs) + len(self._fixed)
        self._list = engine.device.queue.record(self._steps, slots)
        engine.pool.keepers.add(self)

    def drop(self) -> None:
        """Release prepared weights when memory runs short."""
        self._list, self._fixed, self._steps, self._keepers = None, [], [], []

    def fits(self, inputs: Sequence[Any]) -> bool:
        """Return whether the prepared weights are the same as when this was recorded."""
        return (
            self._list is not None
            and self.engine.profiler is None
            and [inputs[i].stamp for i in self._watched] == self._stamps
            and all(keeper.state is state for keeper, state in self._keepers)
        )

    def run(self, inputs: Sequence[Any]) -> list[KernelBuffer]:
        """Run everything; return the outputs, or raise the typed error of an op."""
        recorded, pool = self._list, self.engine.pool
        pool.reserve(self._required)
        arena, room = pool.raw(self._room)
        try:
            made = [take() for take in self._takers]
            words = self._clean() if self._failing else None
            handles = [b.handle for b in inputs]
            handles += (arena, self.engine.nothing.handle if words is None else words.block.handle)
            handles += [b.handle for b in made]
            handles += self._handles
            self.engine.device.queue.run(recorded, handles)
        finally:
            pool.give(arena, room, 0)
        if words is not None:
            self._check(words)
        return made

    def _clean(self) -> Words:
        """Return zeroed status words, exclusive to a call."""
        try:
            return self._words.pop()
        except IndexError:
            places = [start + at for plan, start in self._failing for at in plan.status.values()]
            return words_at(self.engine.pool, self._words_bytes, places)

    def _check(self, words: Words) -> None:
        """Raise an error that a kernel reported; recycle words without errors."""
        if words.clean:
            self._words.append(words)
            return
        for plan, start in self._failing:
            handle = self.engine.pool.memory.part(words.block.handle, start, plan.block_bytes)
            for error in plan.errors(handle).values():
                error.op = error.op or plan.draft.named
                raise error

    # Layout.
    def _add(self, stage: Stage) -> None:
        if isinstance(stage.run, Plan):
            self._add_plan(stage.run, stage)
        elif stage.run is not None:
            self._add_scan(*stage.run, stage)
        for ended in stage.ends:
            value = self._homes.get(ended, ended)
            living = self._living.get(value, set())
            living.discard(ended)
            if value in self._sizes and not living:
                self._give(self._places[value], self._sizes.pop(value))
        if len(self._steps) > _LAUNCHES or self._range.end > _BYTES:
            raise Refused

    def _add_plan(self, plan: Plan, stage: Stage) -> None:
        if plan.draft.host_bytes or len(plan.base.recording.lists) != 1:
            raise Refused
        variant = self._variant(plan, dict(enumerate(stage.taken)))
        given = [self._places[v] for v in stage.taken]
        own = self._own(plan, variant)
        made = [self._make(v, n) for v, n in zip(stage.made, plan.output_bytes, strict=True)]
        moved = plan.recorder.slots.moved(given, own, made)
        self._steps += [moved_step(step, moved) for step in variant.recording.steps[0]]
        self._give(own[2], variant.recording.arena)

    def _add_scan(self, steps: Steps, length: int, stage: Stage) -> None:
        plan, captures, carries = steps.plan, steps.captures, len(steps.carries)
        held, rest = stage.taken[:captures], stage.taken[captures:]
        xs = rest[carries:]
        values = {carries + len(xs) + i: v for i, v in enumerate(held)}
        variant = self._variant(plan, values)
        own = self._own(plan, variant)
        sizes = [*steps.carries] * 2
        between = [self._take(n) for n in sizes]
        stacked = zip(stage.made[carries:], steps.rows, strict=True)
        rows = [self._make(v, n * length) for v, n in stacked]
        homes = dict(steps.stacked)
        last = [
            self._row(v, stage.made[carries + homes[k]], 0 if steps.reverse else n * (length - 1))
            if k in homes
            else self._make(v, n)
            for k, (v, n) in enumerate(zip(stage.made, steps.carries, strict=False))
        ]
        first, stacks, same = ([self._places[v] for v in vs] for vs in (rest[:carries], xs, held))
        places = Places(first, between, last, stacks, same, own, rows)
        self._steps += steps.launches(variant.recording, length, places)
        for place, nbytes in zip(between, sizes, strict=True):
            self._give(place, nbytes)
        self._give(own[2], variant.recording.arena)

    def _padded(self, nbytes: int) -> int:
        return -(-max(nbytes, 1) // self._align) * self._align

    def _take(self, nbytes: int) -> Place:
        """Return a place in the arena."""
        return self._arena, self._range.take(self._padded(nbytes))

    def _give(self, place: Place, nbytes: int) -> None:
        self._range.give(place[1], self._padded(nbytes))

    def _hold(self, buffer: KernelBuffer | None) -> Place:
        """Return the place of memory that is the same at each call."""
        if buffer is None:
            return self._arena, 0
        self._fixed.append(buffer)
        return self._arena + 1 + len(self._nbytes) + len(self._fixed), 0

    def _make(self, value: int, nbytes: int) -> Place:
        """Return the place of a stage's result."""
        number = self._results.get(value)
        if number is None:
            place = self._take(nbytes)
            self._sizes[value] = nbytes
        else:
            place = self._arena + 2 + number, 0
            self._nbytes[number] = nbytes
        self._places[value] = place
        return place

    def _row(self, value: int, stack: int, offset: int) -> Place:
        """Return the place of a final carry that is a row of a stack, which lives as long."""
        slot, start = self._places[stack]
        place = self._places[value] = slot, start + offset
        self._homes[value] = stack
        self._living.setdefault(stack, {stack} & self._read).update({value} & self._read)
        return place

    def _variant(self, plan: Plan, values: Mapping[int, int]) -> Variant:
        """Return a plan's variant for its watched weights, given by value number."""
        state = None if plan.keeper is None else plan.keeper.state
        if state is None:
            return plan.base
        for i in state.inputs:
            number = self._sources.get(values.get(i, -1))
            if number is None:
                raise Refused
            self._watched.append(number)
        self._keepers.append((plan.keeper, state))
        return state.variant

    def _own(self, plan: Plan, variant: Variant) -> tuple[Place, Place, Place, Place]:
        """Return the places of constants, words, arena and kept memory."""
        words = self._arena + 1, self._words_bytes
        if plan.status:
            self._failing.append((plan, self._words_bytes))
            self._words_bytes += self._padded(plan.block_bytes)
        constants, kept = self._hold(plan.constants), self._hold(variant.kept)
        return constants, words, self._take(variant.recording.arena), kept
