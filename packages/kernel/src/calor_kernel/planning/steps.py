"""The steps of a scan as one list: the body's list, repeated with other addresses.

Requirements: a step of a small recurrent layer takes a microsecond or two, but a call of its plan
takes ten, so several steps are recorded together and run by one call. Rows are read and written in
place. Carries alternate between two blocks of memory, or are rows of a stack that keeps them; the
last step writes to a block of its own. So no step overwrites its input. A scan may have any number
of steps, different at each size of a program: lists have powers of two as lengths, and belong to
the body's plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, NamedTuple

from calor_kernel.device.buffers import OPEN, KernelBuffer
from calor_kernel.device.outcomes import inherit
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.planning.plan import Plan
from calor_kernel.planning.recording import Place, Recording

# The maximum number of steps of one list; a power of two.
CHUNK: Final = 64


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
    read, captured values, the body's own memory, stacks that are written, stacks that keep each
    step's carries.
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
    ``keep``: whether the carries before each step are rows of stacks.
    """

    plan: Plan
    carries: Sequence[int]
    slices: Sequence[int]
    rows: Sequence[int]
    captures: int
    reverse: bool
    keep: bool = False
    _lists: dict[int, tuple[Recording, Any]] = field(default_factory=dict)

    @staticmethod
    def take(plan: Plan) -> bool:
        """Return whether a body's launches depend only on addresses."""
        lists = plan.base.recording.lists
        return not plan.block_bytes and not plan.status and len(lists) == 1

    @staticmethod
    def of(
        plan: Plan, carries: Sequence[int], slices: Sequence[int], rows: Sequence[int],
        captures: int, reverse: bool, keep: bool = False,
    ) -> Steps:  # fmt: skip
        """Return the shared runner of a plan for scans of this form."""
        key = (*carries,), (*slices,), (*rows,), captures, reverse, keep
        if key not in plan.together:
            plan.together[key] = Steps(plan, carries, slices, rows, captures, reverse, keep)
        found: Steps = plan.together[key]
        return found

    def run(
        self, carry: Sequence[Any], xs: Sequence[Any], held: Sequence[Any],
        stacks: Sequence[KernelBuffer], length: int, kept: Sequence[KernelBuffer] = (),
    ) -> list[KernelBuffer]:  # fmt: skip
        """Run all steps; return the final carries, in buffers of their own."""
        plan, pool = self.plan, self.plan.pool
        nothing = plan.engine.nothing.handle
        changing = [Changing(nothing)] * (len(carry) + len(xs))
        keeper = plan.keeper
        variant = plan.base if keeper is None else keeper.variant([*changing, *held])
        if plan.engine.tells_late:
            plan.engine.last = plan.draft
        sources = [*carry, *xs, *held]
        between = [] if self.keep else [pool.take(n) for _ in range(2) for n in self.carries]
        arena = None if variant.arena is None else pool.raw(variant.recording.arena)
        same = [b.handle for b in held]
        same += (
            plan.constants_handle,
            nothing,
            nothing if arena is None else arena[0],
            nothing if variant.kept is None else variant.kept.handle,
        )
        try:
            start = 0
            while start < length:
                count = min(CHUNK, 1 << (length - start).bit_length() - 1)
                low = length - start - count if self.reverse else start
                made = [pool.take(n) for n in self.carries]
                first = low + count - 1 if self.reverse else low
                for stack, value, n in zip(kept, carry, self.carries, strict=False):
                    pool.memory.copy(stack.handle, first * n, value.handle, 0, n)
                handles = [b.handle for b in (*carry, *between, *made)]
                handles += self._parts(xs, self.slices, low, count)
                handles += same
                handles += self._parts(stacks, self.rows, low, count)
                handles += self._parts(kept, self.carries if self.keep else (), low, count)
                recording = variant.recording
                found = self._lists.get(count)
                if found is None or found[0] is not recording:
                    found = self._lists[count] = recording, self._record(recording, count)
                plan.engine.play(found[1], recording.launches[0], handles, count)
                carry = made
                start += count
        finally:
            if arena is not None:
                pool.give(*arena, 0)
        for buffer in (*carry, *stacks, *kept):
            inherit(buffer, sources)
        return [*carry]

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
        between, kept = (0, carries) if self.keep else (2 * carries, 0)
        lengths = (
            *(carries, between, carries, len(self.slices)),
            *(self.captures, 4, len(self.rows), kept),
        )
        ends = [*accumulate(lengths)]
        places = Places(
            *(
                [(slot, 0) for slot in range(end - n, end)]
                for n, end in zip(lengths, ends, strict=True)
            )
        )
        return self.plan.queue.record(self.launches(recording, count, places), ends[-1])

    def launches(self, recording: Recording, count: int, places: Places) -> list[Step]:
        """Return the launches of so many steps, with memory at the given places."""
        carries, known = len(self.carries), self.plan.recorder.slots
        steps: list[Step] = []
        for number in range(count):
            row = count - 1 - number if self.reverse else number
            read = self._carried(places, number, count) if number or self.keep else places.first
            end = number == count - 1
            written = places.last if end else self._carried(places, number + 1, count)
            given = [*read[:carries], *_rows(places.xs, self.slices, row), *places.held]
            made = [*written[:carries], *_rows(places.rows, self.rows, row)]
            moved = known.moved(given, places.own, made)
            steps += [moved_step(step, moved) for step in recording.steps[0]]
        return steps

    def _carried(self, places: Places, number: int, count: int) -> Sequence[Place]:
        """Return the places of the carries before a step."""
        if self.keep:
            row = count - 1 - number if self.reverse else number
            return _rows(places.kept, self.carries, row)
        return places.between[(1 - number % 2) * len(self.carries) :]


def _rows(stacks: Sequence[Place], sizes: Sequence[int], row: int) -> list[Place]:
    return [(slot, at + row * n) for (slot, at), n in zip(stacks, sizes, strict=True)]


def moved_step(step: Step, places: Mapping[int, Place]) -> Step:
    """Return a step with its slots moved to other places."""
    arguments: list[Slot | int | float] = []
    for given in step.arguments:
        if isinstance(given, Slot):
            number, offset = places[given.number]
            given = Slot(number, offset + given.offset)
        arguments.append(given)
    return Step(step.function, step.cubes, tuple(arguments), step.flops, step.nbytes)
