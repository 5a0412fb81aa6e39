"""The warp-group main loop: TMA fills a ring of stages beside asynchronous matrix instructions.

Requirements: one unit issues the copies and the other warp groups only multiply, so the matrix
units never wait for address computations. The products of a step still run when the next step's are
issued. (Warp specialization after CUTLASS's kernels for Hopper.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calor_kernel import language as kl
from calor_kernel.language.matrices import MatrixShape

# Bytes of a line of shared memory; eight lines are a block, and its pieces are swizzled.
LINE = 128
# Registers of units in producer and consumer warp groups, by the number of consumer groups.
ASKING = {1: 56, 2: 56, 3: 32}
MULTIPLYING = {1: 240, 2: 224, 3: 160}
# The same where the planes beside the unit that asks transpose stages; how many these are.
TURNING = {1: (56, 240), 2: (56, 224), 3: (56, 152)}
TURNERS = 3
# Lines of a box of four-byte elements, and elements of its swizzled pieces.
_BOX, _PIECE = 32, 4

LeftFactors = Callable[[kl.Number], Callable[[int], kl.Fragment | kl.SharedMatrix]]
"""Of a stage, returns what gives the left factor of the step's products from a term on."""


@dataclass(frozen=True, slots=True)
class Ring:
    """Stages of both operands in shared memory, with the mbarriers that guard them.

    ``left``, ``right``: memory of all stages, ``sizes`` elements each; a stage has ``depth`` terms.
    ``right_at``: the layout (term, column) of a right tile. ``full``: a stage's copies have
    arrived; ``empty``: its products are done. ``registers``: whether A is read from registers.
    ``turned``: a stage of the right tile has been transposed, None if none is.
    """

    left: kl.Pointer
    right: kl.Pointer
    sizes: tuple[int, int]
    right_at: kl.Swizzled
    full: kl.Mbarriers
    empty: kl.Mbarriers
    stages: int
    depth: int
    registers: bool = False
    turned: kl.Mbarriers | None = None

    @kl.helper
    def load(
        self,
        stage: kl.Number,
        parity: kl.Number,
        nbytes: int,
        copy: Callable[..., None],
        *step: object,
    ) -> tuple[kl.Number, kl.Number]:
        """Fill a stage by copies of ``nbytes`` in all, once it is empty; return the next stage.

        ``copy(stage, *step)`` starts the copies of both operands.
        """
        self.empty.wait(stage, parity)
        self.full.expect(stage, nbytes)
        copy(stage, *step)
        self.full.arrive(stage)
        return following(stage, parity, self.stages)

    @kl.helper
    def multiply(
        self,
        sums: kl.Fragment,
        shape: MatrixShape,
        length: kl.Index,
        step: int,
        stage: kl.Number,
        parity: kl.Number,
        left_factors: LeftFactors,
        issued: Callable[[], None] | None = None,
    ) -> tuple[kl.Number, kl.Number]:
        """Add the products of ``length`` and return the stage that follows.

        ``step``: the share of a stage in ``length``, 1 or the terms of a stage. ``issued`` is
        called when all products are on their way, or done.
        """
        before = stage
        for at in range(0, length, step):
            self.full.wait(stage, parity)
            if self.turned is not None:
                self.turned.wait(stage, parity)
            lefts = left_factors(stage)
            rights = kl.SharedMatrix(self.right.at(stage * self.sizes[1]), self.right_at)
            terms = range(0, self.depth, shape.k)
            kl.issue_mma(sums, [(lefts(p), rights.tile((shape.k, shape.n), (p, 0))) for p in terms])
            if self.registers:
                # Operand registers are read until their products are done.
                kl.wait_mma()
                release(self.empty, stage, True)
            else:
                # With only this step's products pending, the preceding step is done.
                kl.wait_mma(pending=1)
                release(self.empty, before, at > 0)
            before = stage
            stage, parity = following(stage, parity, self.stages)
        if issued is not None:
            issued()
        kl.wait_mma(sums)
        release(self.empty, before, not self.registers)
        return stage, parity

    @kl.helper
    def turn(
        self, stage: kl.Number, parity: kl.Number, columns: int
    ) -> tuple[kl.Number, kl.Number]:
        """Transpose a stage of the right tile by the last planes of the first warp group.

        Return the next stage.
        """
        assert self.turned is not None
        self.full.wait(stage, parity)
        turn_boxes(self.right, stage * self.sizes[1], columns // _BOX)
        kl.fence("cube", "async")
        kl.barrier("plane")
        if kl.lane_position() == 0:
            self.turned.arrive(stage)
        return following(stage, parity, self.stages)


@kl.helper
def turn_boxes(memory: kl.Pointer, at: kl.Number, count: int) -> None:
    """Transpose boxes of 32 by 32 elements of four bytes in place, each by one plane.

    Pieces of four elements of a line are swizzled by the line's index modulo eight. A unit has
    blocks of four by four on the diagonals of a box; those of a diagonal change places with each
    other alone, and the eight units of an access, which have one of each row and column, meet all
    banks.
    """
    row, diagonal = kl.lane_position() % 8, kl.lane_position() // 8
    column = row ^ diagonal
    plane = kl.unit_index() // 32 - 1
    # Lines, pieces and the further diagonal are bits of a place of their own.
    lines, pieces = [i * (_BOX + _PIECE) for i in range(_PIECE)], range(_PIECE)
    of_rows = row * (_PIECE * _BOX) + (column ^ row % 2 * _PIECE) * _PIECE
    of_columns = column * (_PIECE * _BOX) + (row ^ column % 2 * _PIECE) * _PIECE
    for turn in range(-(-count // TURNERS)):
        box = plane + TURNERS * turn
        if (count % TURNERS == 0) or (box < count):
            begin = at + box * (_BOX * _BOX)
            held = []
            for far in (0, _PIECE * _PIECE):
                places = [begin + of_rows ^ (line + far) for line in lines]
                held.append([memory.load(kl.assume_multiple(p, _PIECE), _PIECE) for p in places])
            kl.barrier("plane")
            for half, far in enumerate((0, _PIECE * _PIECE * _BOX)):
                for i in pieces:
                    to = begin + of_columns ^ (lines[i] + far)
                    made = kl.pack([one[i] for one in held[half]])
                    memory.store(kl.assume_multiple(to, _PIECE), made)


@kl.helper
def following(stage: kl.Number, parity: kl.Number, stages: int) -> tuple[kl.Number, kl.Number]:
    """Return the next stage of a ring, and the parity of its phase."""
    later = stage + 1
    last = later == stages
    return kl.select(last, 0, later), kl.select(last, parity ^ 1, parity)


@kl.helper
def passed(
    stage: kl.Number, parity: kl.Number, count: kl.Number, stages: int
) -> tuple[kl.Number, kl.Number]:
    """Return the stage of a ring ``count`` stages later, and the parity of its phase."""
    later = stage + count
    rounds = kl.quotient(later, stages)
    return later - rounds * stages, (parity + rounds) % 2


@kl.helper
def release(empty: kl.Mbarriers, stage: kl.Number, wanted: kl.Mask) -> None:
    """Release a stage for a plane."""
    kl.barrier("plane")
    if wanted & (kl.lane_position() < 1):
        empty.arrive(stage)
