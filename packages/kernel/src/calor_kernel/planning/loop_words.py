"""The status words of plans whose launches run many times before the words are read.

Requirements: a word that a step sets stays set until the end of the loop. A device with memory of
its own is not waited for: the words are passed on to the board.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor_kernel.device.outcomes import Outcome, Part
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.plan import Plan


class LoopWords:
    """A block with the words of several plans, for one run; to be closed afterwards.

    ``starts``: the offset of each plan's words; ``nbytes``: of all. ``handle``: the block, zeroed.
    """

    def __init__(self, engine: Engine, plans: Sequence[Plan]) -> None:
        self.engine, self.plans = engine, plans
        self.starts = words_of(plans)
        self.nbytes = self.starts.pop()
        self.handle = engine.nothing.handle
        self._room = 0
        if self.nbytes:
            self.handle, self._room = engine.pool.raw(self.nbytes)
            engine.pool.memory.write(self.handle, bytes(self.nbytes))

    def close(self) -> None:
        """Give the block back."""
        if self._room:
            self.engine.pool.give(self.handle, self._room, 0)

    def outcomes(self) -> list[Part]:
        """Return the outcomes of the queued run; raise its error if the host may wait for it."""
        failing = [pair for pair in zip(self.plans, self.starts, strict=True) if pair[0].status]
        if self.engine.tells_late:
            return [(self._outcome(*pair), frozenset(pair[0].status)) for pair in failing]
        memory = self.engine.pool.memory
        for plan, start in failing:
            handle = memory.part(self.handle, start, plan.block_bytes) if start else self.handle
            for error in plan.errors(handle).values():
                error.op = error.op or plan.draft.named
                raise error
        return []

    def _outcome(self, plan: Plan, start: int) -> Outcome:
        """Pass the words of a plan on to the board, which reads them when a result is used."""
        board, memory = self.engine.board, self.engine.pool.memory
        page, place, words = board.take(plan.block_bytes, False)
        try:
            memory.copy(words, 0, self.handle, start, plan.block_bytes)
        except BaseException:
            board.leave(page)
            raise
        return board.put(page, place, plan)


def words_of(plans: Sequence[Plan]) -> list[int]:
    """Return the offset of the words of each plan in a block of all, and its bytes."""
    starts = [0]
    for plan in plans:
        starts.append(starts[-1] + plan.block_bytes)
    return starts


def add_outcomes(buffer: Any, parts: Sequence[Part]) -> None:
    """Let a result of a loop depend on the outcomes of its plans."""
    buffer.outcomes = (*buffer.outcomes, *parts)
