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
from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.device.outcomes import inherit, verify
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.loop_words import LoopWords, add_outcomes, words_of
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
        self.program: _Program | None = None

    @staticmethod
    def refusal(engine: Engine, condition: Executable, body: Executable) -> str | None:
        """Return why the host has to run a loop of two executables, or None."""
        if not engine.queue.loops:
            return "the device has no loops of its own"
        launches = 0
        for executable in (condition, body):
            if not isinstance(executable, Plan):
                return "it has control flow of its own"
            plan = executable.settled
            if type(plan) is not Plan:
                return "it is planned for several sizes"
            if plan.draft.host_bytes:
                return "it reads numbers of the host"
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
        words = LoopWords(engine, self.plans)
        try:
            handles = [b.handle for b in (*made, *first, *second, flag)]
            handles += (words.handle, arena)
            for plan, variant in zip(self.plans, variants, strict=True):
                kept = engine.nothing if variant.kept is None else variant.kept
                handles += (plan.constants_handle, kept.handle)
            if engine.tells_late:
                engine.last = self.plans[1].draft
            engine.queue.run(recorded, handles)
            parts = words.outcomes()
        finally:
            pool.give(arena, room, 0)
            words.close()
        for buffer in made:
            add_outcomes(buffer, parts)
            inherit(buffer, given)
        return made

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
        words, arena, constants = flag + 1, flag + 2, flag + 3
        starts = words_of(self.plans)

        def own(number: int) -> list[Place]:
            mine = constants + 2 * number
            return [(mine, 0), (words, starts[number]), (arena, 0), (mine + 1, 0)]

        condition, body = self.plans
        test, read = self._steps(condition, variants[0], {})
        moved = condition.recorder.slots.moved([*carry, *first], own(0), [(flag, 0)])
        test = [moved_step(step, moved) for step in test]
        step, written = self._steps(body, variants[1], {k: k for k in range(count)})
        moved = body.recorder.slots.moved([*carry, *second], own(1), carry)
        step = [moved_step(one, moved) for one in step]
        # Each task that may fail has a word, at a multiple of the alignment.
        align = self.engine.device.info.align
        spaced = starts[-1] // align, align
        recorded = self.engine.queue.record_loop(
            test, [*step, *test], constants + 4, Slot(flag), Slot(words), spaced
        )
        return _Program(recorded, variants, max(read, written))

    def _steps(self, plan: Plan, variant: Variant, targets: Targets) -> tuple[Sequence[Step], int]:
        """Return the steps of a plan for outputs in the memory of inputs, and its arena's bytes."""
        lay = variant.lay or partial(plan.recorder.laid, private=True)
        laid = lay(targets)
        (steps,) = plan.recorder.steps(laid, laid.builds)
        return steps, laid.arena
