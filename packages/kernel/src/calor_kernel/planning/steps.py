"""The steps of a scan as one list: the body's list, repeated with other addresses.

Requirements: a step of a small recurrent layer takes a microsecond or two, but a call of its plan
takes ten, so several steps are recorded together and run by one call. Rows are read and written in
place. Carries alternate between two blocks of memory, or are rows of a stack that keeps them, or of
a stacked result that they are the same as; the last step writes to a block of its own. So no step
overwrites its input, except large carries of which it writes a part. A scan may have any number of
steps, different at each size of a program: lists have powers of two as lengths, and belong to the
body's plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any, Final, NamedTuple

from calor_kernel.device.buffers import OPEN, KernelBuffer
from calor_kernel.device.outcomes import inherit
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.planning.loop_words import LoopWords, add_outcomes
from calor_kernel.planning.plan import Plan, Variant
from calor_kernel.planning.recording import Place, Recording

# The maximum number of steps of one list, a power of two, and of launches.
CHUNK: Final = 64
_LAUNCHES: Final = 4096


@dataclass(frozen=True, slots=True)
class Changing:
    """Placeholder for a buffer that changes at each step, for a plan's check of unchanged ones.

    ``handle``: unread memory, for lists with a handle for each input.
    """

    handle: Any
    stamp: int = OPEN


class Places(NamedTuple):
    """The places of the steps' memory.

    In order: initial carries, alternating carries (twice), final carries, stacks of rows that are
    read, captured values, the body's own memory, stacks that are written, and stacks of the carries
    before each step, where those are kept.
    """

    first: Sequence[Place]
    between: Sequence[Place]
    last: Sequence[Place]
    xs: Sequence[Place]
    held: Sequence[Place]
    own: Sequence[Place]
    rows: Sequence[Place]
    kept: Sequence[Place] = ()


@dataclass(slots=True)
class Steps:
    """Runs the steps of one scan together.

    ``carries``: the bytes of each carry; ``slices`` and ``rows``: the bytes per row of each x and
    of each stacked result. ``captures``: the number of inputs that are the same at each step.
    ``stay``: the carries that each step writes over those of the step before. ``kept``: the bytes
    per row of the stacks of carries, empty if they are not kept; a step then reads its carries
    there, and writes them to the next row. ``stacked``: pairs of a carry and the stacked result
    that it is, which the body writes once, as the carry.
    """

    plan: Plan
    carries: Sequence[int]
    slices: Sequence[int]
    rows: Sequence[int]
    captures: int
    reverse: bool
    stay: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    stacked: tuple[tuple[int, int], ...] = ()
    _variant: tuple[Variant, Recording] | None = None
    _lists: dict[int, tuple[Recording, Any]] = field(default_factory=dict)

    @staticmethod
    def take(plan: Plan) -> bool:
        """Return whether a body's launches depend only on addresses."""
        return not plan.draft.host_bytes and len(plan.base.recording.lists) == 1

    @staticmethod
    def of(
        plan: Plan, carries: Sequence[int], slices: Sequence[int], rows: Sequence[int],
        captures: int, reverse: bool, stay: Sequence[int] = (), kept: Sequence[int] = (),
        stacked: Sequence[tuple[int, int]] = (),
    ) -> Steps:  # fmt: skip
        """Return the shared runner of a plan for scans of this form."""
        same = tuple(stay), tuple(kept), tuple(stacked)
        key = (*carries,), (*slices,), (*rows,), captures, reverse, *same
        if key not in plan.together:
            plan.together[key] = Steps(plan, carries, slices, rows, captures, reverse, *same)
        found: Steps = plan.together[key]
        return found

    def run(
        self, carry: Sequence[Any], xs: Sequence[Any], held: Sequence[Any],
        stacks: Sequence[KernelBuffer], length: int, kept: Sequence[KernelBuffer] = (),
    ) -> list[KernelBuffer]:  # fmt: skip
        """Run all steps; return the final carries, in buffers of their own."""
        plan, pool = self.plan, self.plan.pool
        engine, sources = plan.engine, [*carry, *xs, *held]
        nothing = engine.nothing.handle
        changing = [Changing(nothing)] * (len(carry) + len(xs))
        keeper = plan.keeper
        variant = plan.base if keeper is None else keeper.variant([*changing, *held])
        recording = self._recording(variant)
        if engine.tells_late:
            engine.last = plan.draft
        own = {k: self._own(carry[k], self.carries[k]) for k in self.stay}
        carry = [own.get(k, buffer) for k, buffer in enumerate(carry)]
        sizes = [*enumerate(self.carries)]
        between = [] if kept else [own.get(k) or pool.take(n) for _ in range(2) for k, n in sizes]
        handles_between = [b.handle for b in between] or [nothing] * 2 * len(sizes)
        before = [b.handle for b in carry]
        if kept:
            before = self._kept(kept, length - 1 if self.reverse else 0)
            for handle, buffer, n in zip(before, carry, self.carries, strict=True):
                pool.memory.copy(handle, 0, buffer.handle, 0, n)
        arena = pool.raw(recording.arena) if recording.arena else None
        words = LoopWords(engine, [plan])
        same = [b.handle for b in held]
        same += (
            plan.constants_handle,
            words.handle,
            nothing if arena is None else arena[0],
            nothing if variant.kept is None else variant.kept.handle,
        )
        most = min(
            CHUNK, 1 << max(_LAUNCHES // max(len(recording.steps[0]), 1), 1).bit_length() - 1
        )
        try:
            start = 0
            while start < length:
                count = min(most, 1 << (length - start).bit_length() - 1)
                low = length - start - count if self.reverse else start
                start += count
                made: list[KernelBuffer] = []
                if kept and start < length:
                    after = self._kept(kept, low - 1 if self.reverse else low + count)
                else:
                    made = [own.get(k) or pool.take(n) for k, n in sizes]
                    after = [b.handle for b in made]
                handles = [*before, *handles_between, *after]
                handles += self._parts(xs, self.slices, low, count)
                handles += same
                handles += self._parts(stacks, self.rows, low, count)
                handles += self._parts(kept, self.kept, low, count)
                found = self._lists.get(count)
                if found is None or found[0] is not recording:
                    found = self._lists[count] = recording, self._record(recording, count)
                engine.play(found[1], recording.launches[0], handles, count)
                row = low if self.reverse else low + count - 1
                for k, j in self.stacked:
                    after[k] = pool.memory.part(stacks[j].handle, row * self.rows[j], sizes[k][1])
                # What the list read is free only now.
                before, carry = after, made
            parts = words.outcomes()
        finally:
            if arena is not None:
                pool.give(*arena, 0)
            words.close()
        for k, j in self.stacked:
            n, nbytes = self.rows[j], self.carries[k]
            end = 0 if self.reverse else length - 1
            pool.memory.copy(carry[k].handle, 0, stacks[j].handle, end * n, nbytes)
            if kept and length > 1:
                # The carries before each step are the rows but the last, one row on.
                to, at = (0, n) if self.reverse else (n, 0)
                pool.memory.copy(kept[k].handle, to, stacks[j].handle, at, (length - 1) * n)
        for buffer in (*carry, *stacks, *kept):
            add_outcomes(buffer, parts)
            inherit(buffer, sources)
        return [*carry]

    def _kept(self, kept: Sequence[KernelBuffer], row: int) -> list[Any]:
        """Return the handles of a row of each stack of carries."""
        part = self.plan.pool.memory.part
        rows = zip(kept, self.kept, self.carries, strict=True)
        return [part(b.handle, row * n, nbytes) if row else b.handle for b, n, nbytes in rows]

    def _own(self, given: Any, nbytes: int) -> KernelBuffer:
        """Return a copy that steps may overwrite."""
        made = self.plan.pool.take(nbytes)
        self.plan.pool.memory.copy(made.handle, 0, given.handle, 0, nbytes)
        return made

    def _recording(self, variant: Variant) -> Recording:
        """Return the launches of a step, which write some carries in place."""
        if not self.stay:
            return variant.recording
        known = self._variant
        if known is None or known[0] is not variant:
            recorder = self.plan.recorder
            lay = variant.lay or partial(recorder.laid, private=True)
            laid = lay({k: k for k in self.stay})
            steps = recorder.steps(laid, laid.builds)
            known = self._variant = variant, Recording((), steps, laid.launches, laid.arena)
        return known[1]

    def _parts(
        self, buffers: Sequence[Any], sizes: Sequence[int], low: int, count: int
    ) -> list[Any]:
        """Return the handles of consecutive rows of stacks."""
        if not low:
            return [b.handle for b in buffers]
        part = self.plan.pool.memory.part
        return [part(b.handle, low * n, count * n) for b, n in zip(buffers, sizes, strict=True)]

    def _record(self, recording: Recording, count: int) -> Any:
        """Return the list of so many steps, for the handles in the order of :meth:`run`."""
        carries = len(self.carries)
        inputs = len(self.slices), self.captures, 4
        lengths = carries, 2 * carries, carries, *inputs, len(self.rows), len(self.kept)
        ends = [*accumulate(lengths)]
        first, between, last, xs, held, own, rows, kept = (
            [(slot, 0) for slot in range(end - n, end)]
            for n, end in zip(lengths, ends, strict=True)
        )
        places = Places(first, between, last, xs, held, own, rows, kept)
        return self.plan.queue.record(self.launches(recording, count, places), ends[-1])

    def launches(self, recording: Recording, count: int, places: Places) -> list[Step]:
        """Return the launches of so many steps, with memory at the given places."""
        carries, known = len(self.carries), self.plan.recorder.slots
        steps: list[Step] = []
        homes = {j for _, j in self.stacked}
        for number in range(count):
            row = count - 1 - number if self.reverse else number
            to = 1 - number % 2
            read = places.between[to * carries :] if number else places.first
            written = places.last if number == count - 1 else places.between[(1 - to) * carries :]
            if places.kept:
                after = row - 1 if self.reverse else row + 1
                read = _rows(places.kept, self.kept, row) if number else read
                last = number == count - 1
                written = written if last else _rows(places.kept, self.kept, after)
            read, written = [*read[:carries]], [*written[:carries]]
            rows = _rows(places.rows, self.rows, row)
            for k, j in self.stacked:
                slot, at = written[k] = rows[j]
                if number:
                    read[k] = slot, at + (self.rows[j] if self.reverse else -self.rows[j])
            given = [*read, *_rows(places.xs, self.slices, row), *places.held]
            made = [*written, *(place for j, place in enumerate(rows) if j not in homes)]
            moved = known.moved(given, places.own, made)
            steps += [moved_step(step, moved) for step in recording.steps[0]]
        return steps


def _rows(stacks: Sequence[Place], sizes: Sequence[int], row: int) -> list[Place]:
    return [(slot, at + row * n) for (slot, at), n in zip(stacks, sizes, strict=True)]


def moved_step(step: Step, places: Mapping[int, Place]) -> Step:
    """Return a step with its slots moved to other places."""
    arguments: list[Slot | int | float] = []
    for given in step.arguments:
        if isinstance(given, Slot):
            number, offset = places[given.number]
            given = replace(given, number=number, offset=offset + given.offset)
        arguments.append(given)
    return replace(step, arguments=tuple(arguments))
