"""A graph with control flow as one list of launches, if no step depends on data.

Requirements: the stages of a small recurrent model take ten or twenty microseconds each, and the
host needs as long between them. If all stages are lists with known numbers of steps, the lists are
recorded as one, on one range of memory. Unusual calls run stage by stage: changed weights, a
profile, in-place outputs. This serves devices whose host waits for each run; other devices overlap
with the host's preparation of the next stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from calor_kernel.device.board import Words, words_at
from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.device.protocol import Step
from calor_kernel.planning.arena import Range
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.plan import Plan, State, Variant
from calor_kernel.planning.recording import Place
from calor_kernel.planning.steps import Places, Steps, moved_step

if TYPE_CHECKING:
    from calor_kernel.planning.parts import Place as PartPlace

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


@dataclass(frozen=True, slots=True)
class _Failing:
    """A plan with fallible kernels, and the byte offset of its status words."""

    plan: Plan
    start: int


class Whole:
    """Stages merged into one list; made by :func:`whole_of`."""

    def __init__(self, engine: Engine, builder: _Builder) -> None:
        self.engine = engine
        self.watched, self.stamps = builder.watched, builder.stamps
        self.keepers = builder.keepers
        # Constants and prepared weights, kept alive by references to their owners.
        self.fixed = [b.handle for b in builder.fixed]
        self._held: list[Any] = [builder.fixed, builder.steps]
        self.failing = builder.failing
        self.words_bytes = builder.words
        self.arena = builder.arena
        self.required = builder.arena + sum(builder.outputs)
        self._outputs = [engine.pool.taker(n) for n in builder.outputs]
        slots = builder.count
        self._list = engine.device.queue.record(builder.steps, slots)
        self._words: list[Words] = []
        engine.pool.keepers.add(self)

    def drop(self) -> None:
        """Release prepared weights when memory runs short."""
        self._list, self._held, self.keepers = None, [], []

    def fits(self, inputs: Sequence[Any]) -> bool:
        """Return whether the prepared weights are the same as when this was recorded."""
        return (
            self._list is not None
            and self.engine.profiler is None
            and [inputs[i].stamp for i in self.watched] == self.stamps
            and all(keeper.state is state for keeper, state in self.keepers)
        )

    def run(self, inputs: Sequence[Any]) -> list[KernelBuffer]:
        """Run everything; return the outputs, or raise the typed error of an op."""
        recorded, pool = self._list, self.engine.pool
        pool.reserve(self.required)
        arena, room = pool.raw(self.arena)
        try:
            made = [take() for take in self._outputs]
            words = self._clean() if self.failing else None
            handles = [b.handle for b in inputs]
            handles += (arena, self.engine.nothing.handle if words is None else words.block.handle)
            handles += self.fixed
            handles += [b.handle for b in made]
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
            places = [f.start + at for f in self.failing for at in f.plan.status.values()]
            return words_at(self.engine.pool, self.words_bytes, places)

    def _check(self, words: Words) -> None:
        """Raise an error that a kernel reported; recycle words without errors."""
        if words.clean:
            self._words.append(words)
            return
        part = self.engine.pool.memory.part
        for failing in self.failing:
            plan = failing.plan
            handle = part(words.block.handle, failing.start, plan.block_bytes)
            for error in plan.errors(handle).values():
                error.op = error.op or plan.draft.named
                raise error


class _Builder:
    """Lays out the stages of a graph. Slots: inputs, arena, words, fixed buffers, outputs."""

    def __init__(
        self, engine: Engine, inputs: Sequence[int], outputs: Sequence[int],
        parts: Mapping[int, PartPlace], given: Sequence[Any],
    ) -> None:  # fmt: skip
        self.align = engine.device.info.align
        self.given = dict(zip(inputs, given, strict=True))
        self.places: dict[int, Place] = {v: (i, 0) for i, v in enumerate(inputs)}
        self.sources = {v: i for i, v in enumerate(inputs)}
        for value, part in parts.items():
            self.places[value] = self.places[part.source][0], part.offset
            self.sources[value] = self.sources[part.source]
        self.memory = len(inputs)
        self.words = 0
        self.range = Range()
        self.fixed: list[KernelBuffer] = []
        self.results = {v: n for n, v in enumerate(outputs)}
        self.outputs = [0] * len(outputs)
        self.steps: list[Step] = []
        self.failing: list[_Failing] = []
        self.keepers: list[tuple[Any, State]] = []
        self.watched: list[int] = []
        self.stamps: list[int] = []
        self.sizes: dict[int, int] = {}

    def room(self, nbytes: int) -> int:
        """Return the bytes reserved for a value, padded to the alignment."""
        return -(-max(nbytes, 1) // self.align) * self.align

    def take(self, nbytes: int) -> Place:
        """Return a place in the arena."""
        return self.memory, self.range.take(self.room(nbytes))

    def give(self, place: Place, nbytes: int) -> None:
        """Free a place for reuse."""
        self.range.give(place[1], self.room(nbytes))

    def hold(self, buffer: KernelBuffer | None) -> Place:
        """Return the place of memory that is the same at each call."""
        if buffer is None:
            return self.memory, 0
        self.fixed.append(buffer)
        return self.memory + 1 + len(self.fixed), 0

    def make(self, value: int, nbytes: int) -> Place:
        """Return the place of a stage's result; outputs get their slots after the layout."""
        number = self.results.get(value)
        if number is None:
            place = self.take(nbytes)
            self.sizes[value] = nbytes
        else:
            place = -1 - number, 0
            self.outputs[number] = nbytes
        self.places[value] = place
        return place

    def variant(self, plan: Plan, values: Mapping[int, int]) -> Variant:
        """Return a plan's variant for its watched weights, given by value number."""
        state = None if plan.keeper is None else plan.keeper.state
        if state is None:
            return plan.base
        numbers = [self.sources.get(values.get(i, -1)) for i in state.inputs]
        for number in numbers:
            if number is None:
                raise Refused
            self.watched.append(number)
        self.keepers.append((plan.keeper, state))
        return state.variant

    def plan(self, plan: Plan, stage: Stage) -> None:
        """Lay out a plan."""
        if plan.draft.host_bytes or len(plan.base.recording.lists) != 1:
            raise Refused
        variant = self.variant(plan, dict(enumerate(stage.taken)))
        given = [self.places[v] for v in stage.taken]
        own = self.own(plan, variant)
        made = [self.make(v, n) for v, n in zip(stage.made, plan.output_bytes, strict=True)]
        moved = plan.recorder.slots.moved(given, own, made)
        self.steps += [moved_step(step, moved) for step in variant.recording.steps[0]]
        self.give(own[2], variant.recording.arena)

    def own(self, plan: Plan, variant: Variant) -> tuple[Place, Place, Place, Place]:
        """Return the places of constants, words, arena and kept memory."""
        words = self.memory + 1, self.words
        if plan.status:
            self.failing.append(_Failing(plan, self.words))
            self.words += self.room(plan.block_bytes)
        constants, kept = self.hold(plan.constants), self.hold(variant.kept)
        return constants, words, self.take(variant.recording.arena), kept

    def scan(self, steps: Steps, length: int, stage: Stage) -> None:
        """Lay out all steps of a scan."""
        plan, captures, carries = steps.plan, steps.captures, len(steps.carries)
        held, rest = stage.taken[:captures], stage.taken[captures:]
        first, xs = rest[:carries], rest[carries:]
        values = {carries + len(xs) + i: v for i, v in enumerate(held)}
        variant = self.variant(plan, values)
        own = self.own(plan, variant)
        sizes = [*steps.carries] * 2
        between = [self.take(n) for n in sizes]
        last = [self.make(v, n) for v, n in zip(stage.made, steps.carries, strict=False)]
        rows = [
            self.make(v, n * length)
            for v, n in zip(stage.made[carries:], steps.rows, strict=True)
        ]  # fmt: skip
        read = ([self.places[v] for v in values] for values in (first, xs, held))
        begin, stacks, same = read
        places = Places(begin, between, last, stacks, same, own, rows)
        self.steps += steps.launches(variant.recording, length, places)
        for place, nbytes in zip(between, sizes, strict=True):
            self.give(place, nbytes)
        self.give(own[2], variant.recording.arena)

    def finish(self) -> None:
        """Assign slots to outputs, and check that the watched weights are unchanged."""
        after = self.memory + 2 + len(self.fixed)
        moved: dict[int, Place] = {-1 - n: (after + n, 0) for n in range(len(self.outputs))}
        moved |= {slot: (slot, 0) for slot in range(after)}
        self.steps = [moved_step(step, moved) for step in self.steps]
        self.count = after + len(self.outputs)
        self.arena = max(self.range.end, 1) + self.align
        self.watched = sorted({*self.watched})
        by_place = {i: self.given[v] for v, i in self.sources.items() if v in self.given}
        self.stamps = [by_place[i].stamp for i in self.watched]


def whole_of(
    engine: Engine, inputs: Sequence[int], outputs: Sequence[int],
    parts: Mapping[int, PartPlace], stages: Sequence[Stage], given: Sequence[Any],
) -> Whole | None:  # fmt: skip
    """Return stages as one list, from the inputs of their last run; None if impossible."""
    if engine.tells_late or {*outputs} & {*inputs, *parts} or len({*outputs}) != len(outputs):
        return None
    builder = _Builder(engine, inputs, outputs, parts, given)
    try:
        for stage in stages:
            if isinstance(stage.run, Plan):
                builder.plan(stage.run, stage)
            elif stage.run is not None:
                builder.scan(*stage.run, stage)
            for value in stage.ends:
                if value in builder.sizes:
                    builder.give(builder.places[value], builder.sizes.pop(value))
            if len(builder.steps) > _LAUNCHES or builder.range.end > _BYTES:
                return None
    except Refused:
        return None
    builder.finish()
    return Whole(engine, builder)


def known_plan(executable: Any) -> Plan | None:
    """Return the final plan of an executable if it has a recorder, else None."""
    plan = executable.settled if isinstance(executable, Plan) else None
    return plan if type(plan) is Plan else None
