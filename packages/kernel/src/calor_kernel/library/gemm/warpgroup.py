"""The main loop of warp groups: TMA fills a ring of stages, matrix instructions run beside them.

Requirements: one unit issues the copies and the other warp groups only multiply, so that the matrix
units never wait for addresses; the products of a step are still running when those of the next one
are issued. (Warp specialisation after CUTLASS's kernels for Hopper.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calor_kernel.language import (
    Fragment,
    Mbarriers,
    SharedMatrix,
    Swizzled,
    barrier,
    helper,
    issue_mma,
    lane_position,
    select,
    wait_mma,
)
from calor_kernel.language.matrices import MatrixShape

# A line of shared memory in bytes; eight lines are a block, whose pieces are swizzled.
LINE = 128
# Registers of the units that issue copies, and of those that multiply, by their warp groups.
ASKING = {1: 56, 2: 56, 3: 32}
MULTIPLYING = {1: 240, 2: 224, 3: 160}

LeftFactors = Callable[[Any], Callable[[int], Any]]
"""Of a stage, returns what gives the left factor of the step's products from a term on."""


@dataclass(frozen=True, slots=True)
class Ring:
    """Stages of both operands in shared memory, with the barriers that say who may use one.

    ``left``, ``right``: memory of all stages, of ``sizes`` elements each; a stage has ``depth``
    terms. ``right_at``: where (term, column) of a right tile lie. ``full``: a stage's copies have
    arrived; ``empty``: its products are done. ``cluster``: the cubes that write to each other's
    stages. ``registers``: whether left factors are held in registers.
    """

    left: Any
    right: Any
    sizes: tuple[int, int]
    right_at: Swizzled
    full: Mbarriers
    empty: Mbarriers
    stages: int
    depth: int
    cluster: int = 1
    registers: bool = False

    @helper
    def load(
        self, stage: Any, parity: Any, nbytes: Any, copy: Callable[..., None], *step: Any
    ) -> tuple[Any, Any]:
        """Fill a stage, once it is empty, by copies of ``nbytes`` in all; return the next one.

        ``copy(stage, *step)`` starts the copies of both operands.
        """
        self.empty.wait(stage, parity)
        self.full.expect(stage, nbytes)
        copy(stage, *step)
        self.full.arrive(stage)
        return following(stage, parity, self.stages)

    @helper
    def multiply(
        self,
        sums: Fragment,
        shape: MatrixShape,
        length: Any,
        step: int,
        stage: Any,
        parity: Any,
        left_factors: LeftFactors,
    ) -> tuple[Any, Any]:
        """Add the products of the stages that ``length`` takes; return the stage that follows.

        ``step``: what a stage counts of ``length``, 1 or the terms of a stage.
        """
        before = stage
        for at in range(0, length, step):
            self.full.wait(stage, parity)
            lefts = left_factors(stage)
            rights = SharedMatrix(self.right.at(stage * self.sizes[1]), self.right_at)
            terms = range(0, self.depth, shape.k)
            issue_mma(sums, [(lefts(p), rights.tile((shape.k, shape.n), (p, 0))) for p in terms])
            if self.registers:
                # Factors in registers are read until their products are done.
                wait_mma()
                release(self.empty, stage, True, self.cluster)
            else:
                # The step before is done once only this one is still running.
                wait_mma(pending=1)
                release(self.empty, before, at > 0, self.cluster)
            before = stage
            stage, parity = following(stage, parity, self.stages)
        wait_mma(sums)
        release(self.empty, before, not self.registers, self.cluster)
        return stage, parity


@helper
def following(stage: Any, parity: Any, stages: int) -> tuple[Any, Any]:
    """Return the next stage of a ring, and the parity of its phase."""
    later = stage + 1
    last = later == stages
    return select(last, 0, later), select(last, parity ^ 1, parity)


@helper
def release(empty: Mbarriers, stage: Any, wanted: Any, cluster: int) -> None:
    """Say that a plane has done with a stage, to each cube that writes it."""
    barrier("plane")
    lane = lane_position()
    if wanted & (lane < cluster):
        empty.arrive(stage, rank=lane if cluster > 1 else None)
