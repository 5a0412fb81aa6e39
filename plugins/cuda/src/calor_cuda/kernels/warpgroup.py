"""The warp-group main loop: TMA fills a ring of stages beside asynchronous matrix instructions.

Requirements: one unit issues the copies and the other warp groups only multiply, so the matrix
units never wait for address computations. The products of a step still run when the next step's are
issued. (Warp specialization after CUTLASS's kernels for Hopper.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calor_kernel.language import (
    Fragment,
    Index,
    Mask,
    Mbarriers,
    Number,
    Pointer,
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

# Bytes of a line of shared memory; eight lines are a block, and its pieces are swizzled.
LINE = 128
# Registers of units in producer and consumer warp groups, by the number of consumer groups.
ASKING = {1: 56, 2: 56, 3: 32}
MULTIPLYING = {1: 240, 2: 224, 3: 160}

LeftFactors = Callable[[Number], Callable[[int], Fragment | SharedMatrix]]
"""Of a stage, returns what gives the left factor of the step's products from a term on."""


@dataclass(frozen=True, slots=True)
class Ring:
    """Stages of both operands in shared memory, with the mbarriers that guard them.

    ``left``, ``right``: memory of all stages, ``sizes`` elements each; a stage has ``depth`` terms.
    ``right_at``: the layout (term, column) of a right tile. ``full``: a stage's copies have
    arrived; ``empty``: its products are done. ``registers``: whether A is read from registers.
    """

    left: Pointer
    right: Pointer
    sizes: tuple[int, int]
    right_at: Swizzled
    full: Mbarriers
    empty: Mbarriers
    stages: int
    depth: int
    registers: bool = False

    @helper
    def load(
        self, stage: Number, parity: Number, nbytes: int, copy: Callable[..., None], *step: object
    ) -> tuple[Number, Number]:
        """Fill a stage by copies of ``nbytes`` in all, once it is empty; return the next stage.

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
        length: Index,
        step: int,
        stage: Number,
        parity: Number,
        left_factors: LeftFactors,
    ) -> tuple[Number, Number]:
        """Add the products of ``length`` and return the stage that follows.

        ``step``: the share of a stage in ``length``, 1 or the terms of a stage.
        """
        before = stage
        for at in range(0, length, step):
            self.full.wait(stage, parity)
            lefts = left_factors(stage)
            rights = SharedMatrix(self.right.at(stage * self.sizes[1]), self.right_at)
            terms = range(0, self.depth, shape.k)
            issue_mma(sums, [(lefts(p), rights.tile((shape.k, shape.n), (p, 0))) for p in terms])
            if self.registers:
                # Operand registers are read until their products are done.
                wait_mma()
                release(self.empty, stage, True)
            else:
                # With only this step's products pending, the preceding step is done.
                wait_mma(pending=1)
                release(self.empty, before, at > 0)
            before = stage
            stage, parity = following(stage, parity, self.stages)
        wait_mma(sums)
        release(self.empty, before, not self.registers)
        return stage, parity


@helper
def following(stage: Number, parity: Number, stages: int) -> tuple[Number, Number]:
    """Return the next stage of a ring, and the parity of its phase."""
    later = stage + 1
    last = later == stages
    return select(last, 0, later), select(last, parity ^ 1, parity)


@helper
def release(empty: Mbarriers, stage: Number, wanted: Mask) -> None:
    """Release a stage for a plane."""
    barrier("plane")
    if wanted & (lane_position() < 1):
        empty.arrive(stage)
