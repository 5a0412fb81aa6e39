"""Plans of attention by warp groups in TF32: panels that a warp group transposes.

Requirements: for four-byte types the matrix unit reads shared memory only along the summed axis. So
products that sum over rows need transposed panels, which one warp group makes from those of TMA
while others multiply. The order of a summed axis is free: within eight rows, a transposed panel has
the even ones first, so that a unit's adjacent scores are its operand of the next product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calor.dtypes import float32
from calor_cuda.kernels.attention.warpgroup_tma_plan import Ring, Stages, TmaPlan, Weights
from calor_kernel import language as kl
from calor_kernel.library.gemm.mma import Panel, Sums, add_products

# Elements of a line of shared memory and of its pieces, and rows of a group whose order changes.
_LINE, _PIECE, _EIGHT = 32, 4, 8
# The width of a row: the units of a warp group divide its pieces.
ROOM = 64
# Registers of units: of the producer, of the transposing warp group, and of consumers.
PRODUCER, TURNER = 40, 40
CONSUMER = {1: 240, 2: 216}


@kl.intrinsic(
    "float32 -> float32",
    cuda="([](float x) {{ unsigned y; "
    'asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x)); '
    "return __uint_as_float(y); }}({0}))",
)
def rounded_to_tf32(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return x rounded to TF32, half away from zero."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x1000) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(x), rounded, x)


@dataclass(frozen=True, slots=True)
class Tf32Plan(TmaPlan):
    """A plan: the first warp group issues copies, the second transposes, and others multiply.

    Results replace the own rows of their tile.
    """

    @staticmethod
    def tf32(groups: int, block: int, stages: int, alternating: int, own_tiles: int) -> Tf32Plan:
        """Return the plan of some consumer warp groups."""
        return Tf32Plan(
            float32, 4 * groups, 1, block, ROOM, ROOM, grouped=True, stages=stages,
            alternating=bool(alternating), own_tiles=own_tiles,
        )  # fmt: skip

    @property
    def registers(self) -> tuple[int, int]:
        """The registers of producers and of consumers."""
        return PRODUCER, CONSUMER[self.groups]

    @property
    def units(self) -> int:
        """The units of a cube."""
        return 32 * self.planes + 256

    @property
    def staged(self) -> bool:
        """Whether results have shared memory of their own."""
        return False

    @property
    def turning(self) -> int:
        """The registers of units that transpose blocks."""
        return TURNER

    @kl.helper
    def turn(self, ring: Ring, turned: Stages, stage: kl.Number, parity: kl.Number) -> None:
        """Wait for a stage of a ring and transpose it."""
        ring.full.wait(stage, parity)
        turn_panel(ring, turned, stage, self)

    @property
    def leading(self) -> int:
        """The warp groups before the consumers."""
        return 2

    @kl.helper
    def turned(self, ring: Ring) -> Stages:
        """Return the stages of a ring's transposed panels, free when the ring's stage is filled."""
        memory = kl.shared(self.stages * self.block * ROOM, self.dtype, align=1024)
        full = kl.Mbarriers(self.stages, 4, meet=False)
        return Stages(memory, self.block * ROOM, full, full)

    @kl.helper
    def weights(self, scores: Sums, room: int) -> Weights:
        """Round weights, and return them as operands of the products with turned rows.

        A unit's adjacent columns are in the halves of a step, as the turned rows are.
        """
        round_sums(scores[0][0])
        shape, values = self.shape(room), scores[0][0].parts[0]
        made = []
        for p in kl.range(0, self.block, shape.k):
            found = kl.fragment(shape, "a")
            at = p * 4 // shape.k
            found.parts[0] = kl.shuffle(values, (at, at + 2, at + 1, at + 3))
            made.append([found])
        return made

    @kl.helper
    def multiply(self, sums: Sums, weights: Weights, rows: kl.Pointer, room: int) -> None:
        """Start adding weights times the rows of a transposed panel."""
        panel = Panel(self.dtype, room, self.block, True)
        add_products(sums, weights, panel.matrix(rows, turned=True), self.block)


def round_sums(sums: kl.Fragment) -> None:
    """Round sums to TF32, for the next product."""

    def rounded(x: kl.Number) -> kl.Number | None:
        if x.width == 1:
            return rounded_to_tf32(x)
        return kl.pack([rounded_to_tf32(x[i]) for i in range(x.width)])

    sums.map(rounded)


@kl.helper
def turn_panel(ring: Ring, turned: Stages, stage: kl.Number, plan: Tf32Plan) -> None:
    """Transpose a stage of a ring by a warp group: a unit, pieces of four rows by four elements.

    The eight units of an access are numbered so that reads and writes access every bank once.
    """
    unit, block = kl.unit_index() % 128, plan.block
    source, target = ring.at(stage), turned.at(stage)
    odd, low, high = unit % 2, unit // 2 % 2, unit // 4 % 2
    piece = unit // 8 % 2 + (low ^ unit // 16 % 2) * 2 + (high ^ unit // 32 % 2) * 4
    far = unit // 64
    group = low * 2 + high
    from_line = far * (block * _LINE) + (group * _EIGHT + odd) * _LINE
    to_line = (far * _LINE + piece * _PIECE) * _LINE
    for part in range(block // _LINE):
        rows = []
        for i in range(4):
            at = from_line + (part * _LINE + 2 * i) * _LINE + (piece ^ (odd + 2 * i)) * _PIECE
            rows.append(source.load(kl.assume_multiple(at, _PIECE), _PIECE))
        for e in range(_PIECE):
            line = piece % 2 * _PIECE + e
            at = to_line + part * (ROOM * _LINE) + e * _LINE + ((group * 2 + odd) ^ line) * _PIECE
            made = kl.pack([row[e] for row in rows])
            target.store(kl.assume_multiple(at, _PIECE), made)
    kl.fence("cube", "async")
    kl.barrier("plane")
    if kl.lane_position() == 0:
        turned.full.arrive(stage)
