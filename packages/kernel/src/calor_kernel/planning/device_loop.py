"""A while loop as one program of the device, which reads the condition itself.

Requirements: a step costs its launches, and no wait of the host. Carries are the loop's own, so the
body writes them in place. A failed op ends the loop, whose condition may depend on its result; the
error is reported as that of any run. Bodies with control flow, with numbers of the host, or planned
from a template are run by the host, and so is a profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from calor.backends.protocol import Executable
from calor_kernel.device.board import zeroed
from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.device.outcomes import Outcome, inherit, verify
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.plan import Plan, Variant
from calor_kernel.planning.recording import Place, Targets
from calor_kernel.planning.steps import Changing, moved_step

# Beyond so many launches of a step the host prepares the next step in time.
_LAUNCHES: Final = 2048


class _Program(NamedTuple):
    """A recorded loop, the variants that it was recorded for, and the bytes of its arena."""

    recorded: Any
    variants: tuple[Variant, Variant]
    arena: int


class DeviceLoop:
    """Runs a while loop on the device.

    ``captures``: the numbers of values that the condition and the body capture; ``carried``: the
    bytes of each carry.
    """

    def __init__(
        self, condition: Plan, body: Plan, captures: tuple[int, int], carried: Sequence[int]
    ) -> None:
        self.engine = body.engine
        self.plans = condition, body
        self.captures = captures
        self.carried = carried
        align = self.engine.device.info.align
        # The status words of both, the condition's first.
        self.starts = 0, condition.block_bytes
        self.words = condition.block_bytes + body.block_bytes
        self.stride = align if self.words else 0
        self.block = zeroed(self.engine.pool, self.words) if self.words else self.engine.nothing
        self.program: _Program | None = None

    @staticmethod
    def refusal(engine: Engine, condition: Executable, body: Executable) -> str | None:
        """Return why the host has to run a loop of two executables, or None."""
        if not engine.queue.loops:
            return "the device has no loops of its own"
        launches = 0
        for plan in (condition, body):
            if not isinstance(plan, Plan):
                return "it has control flow of its own"
            if type(plan.settled) is not Plan:
                return "it is planned for several sizes"
            if plan.draft.host_bytes:
                return "it reads numbers of the host"
            if plan.status and not engine.tells_late:
                return "an operation of it may fail"
            launches += len(plan.base.recording.steps[0])
        return f"a step has {launches} launches" if launches > _LAUNCHES else None

    @staticmethod
    def of(
        condition: Executable,
        body: Executable,
        captures: tuple[int, int],
        carried: Sequence[int],
    ) -> DeviceLoop:
        """Return the loop of two executables that nothing speaks against."""
        one, two = (p.settled if isinstance(p, Plan) else None for p in (condition, body))
        assert one is not None
        assert two is not None
        return DeviceLoop(one, two, captures, carried)

    def run(
        self, carry: Sequence[Any], first: Sequence[Any], second: Sequence[Any]
    ) -> list[KernelBuffer]:
        """Run the loop; return the last carries, in buffers of their own."""
        given = [*carry, *first, *second]
        for buffer in given:
            # A condition of failed values might hold forever.
            verify(buffer)
        engine, pool = self.engine, self.engine.pool
        recorded, variants, arena_bytes = self._recorded(first, second)
        made = [pool.take(n) for n in self.carried]
        for buffer, start in zip(made, carry, strict=True):
            pool.memory.copy(buffer.handle, 0, start.handle, 0, start.nbytes)
        flag = pool.take(1)
        arena, room = pool.raw(max(arena_bytes, 1))
        try:
            if self.words:
                pool.memory.write(self.block.handle, bytes(self.words))
            handles = [b.handle for b in (*made, *first, *second, flag, self.block)]
            for plan, variant in zip(self.plans, variants, strict=True):
                kept = engine.nothing if variant.kept is None else variant.kept
                handles += (plan.constants_handle, kept.handle)
            if engine.tells_late:
                engine.last = self.plans[1].draft
            engine.queue.run(recorded, [*handles, arena])
        finally:
            pool.give(arena, room, 0)
        parts = [
            (self._outcome(plan, start), frozenset(plan.status))
            for plan, start in zip(self.plans, self.starts, strict=True)
            if plan.status
        ]
        for buffer in made:
            buffer.outcomes = (*buffer.outcomes, *parts)
            inherit(buffer, given)
        return made

    def _outcome(self, plan: Plan, start: int) -> Outcome:
        """Pass the words of a plan on to the board, which reads them when a result is used."""
        board, memory = self.engine.board, self.engine.pool.memory
        page, place, words = board.take(plan.block_bytes, False)
        try:
            memory.copy(words, 0, self.block.handle, start, plan.block_bytes)
        except BaseException:
            board.leave(page)
            raise
        return board.put(page, place, plan)

    def _recorded(self, first: Sequence[Any], second: Sequence[Any]) -> _Program:
        """Return the program for captured values, whose preparations it reads."""
        condition, body = self.plans
        changing = [Changing(self.engine.nothing.handle)] * len(self.carried)
        variants = (
            condition.base
            if condition.keeper is None
            else condition.keeper.variant([*changing, *first]),
            body.base if body.keeper is None else body.keeper.variant([*changing, *second]),
        )
        known = self.program
        if known is None or known.variants != variants:
            known = self.program = self._record(variants)
        return known

    def _record(self, variants: tuple[Variant, Variant]) -> _Program:
        """Record the loop; its slots are in the order of :meth:`run`."""
        count, (one, two) = len(self.carried), self.captures
        carry: list[Place] = [(k, 0) for k in range(count)]
        first = [(count + k, 0) for k in range(one)]
        second = [(count + one + k, 0) for k in range(two)]
        flag = count + one + two
        words, arena = flag + 1, flag + 6

        def own(number: int) -> list[Place]:
            start = self.starts[number]
            return [
                (flag + 2 + 2 * number, 0),
                (words, start),
                (arena, 0),
                (flag + 3 + 2 * number, 0),
            ]

        condition, body = self.plans
        test, read = self._steps(condition, variants[0], {})
        moved = condition.recorder.slots.moved([*carry, *first], own(0), [(flag, 0)])
        test = [moved_step(step, moved) for step in test]
        step, written = self._steps(body, variants[1], {k: k for k in range(count)})
        moved = body.recorder.slots.moved([*carry, *second], own(1), carry)
        step = [moved_step(one, moved) for one in step]
        count_of_words = self.words // self.stride if self.stride else 0
        recorded = self.engine.queue.record_loop(
            test, [*step, *test], arena + 1, Slot(flag), Slot(words), (count_of_words, self.stride)
        )
        return _Program(recorded, variants, max(read, written))

    def _steps(self, plan: Plan, variant: Variant, targets: Targets) -> tuple[Sequence[Step], int]:
        """Return the steps of a plan for outputs in the memory of inputs, and its arena's bytes."""
        lay = variant.lay or partial(plan.recorder.laid, private=True)
        laid = lay(targets)
        (steps,) = plan.recorder.steps(laid, laid.builds)
        return steps, laid.arena
