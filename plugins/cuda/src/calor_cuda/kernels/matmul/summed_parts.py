"""Split-K in one launch whose last cubes add the parts: many parts of few tiles.

Requirements: one cube would read the sums of many parts for too long, so cubes of their own add
them, each a slice of a tile. These come after all others and wait for them alone, and no other cube
waits. So the launch ends in whatever order cubes are scheduled, as in :mod:`.split_k`. Parts are
added in their order, for reproducible bits. The K axis may go on from product to product, as the
pixels of a weight gradient do from image to image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from calor.dtypes import float32
from calor_cuda.kernels.matmul.register_a import place_of_rows
from calor_cuda.kernels.matmul.split_k import Piece, place_of_sums
from calor_cuda.kernels.matmul.warpgroup_tma_plan import TmaPlan
from calor_kernel import language as kl
from calor_kernel.language.loops import DeviceRange

N = TypeVar("N")
# Sums of a unit in one access, and the parts that are read at the same time.
WIDE: Final = 4
AHEAD: Final = 16


@dataclass(frozen=True, slots=True)
class Summed(Generic[N]):
    """Each of the ``tiles`` in ``parts`` of at most ``length`` steps, added in ``slices``.

    ``steps``: of each product, and ``whole`` of all.
    """

    tiles: kl.SizeOf[N]
    parts: kl.SizeOf[N]
    length: kl.SizeOf[N]
    steps: kl.SizeOf[N]
    whole: kl.SizeOf[N]
    slices: kl.SizeOf[N]


class SummedParts:
    """Cube ``cube`` computes a part of a tile, or adds a slice of one, if it is behind all parts.

    ``sums`` is memory for the sums of each part. ``flags`` has a word for each warp group of each
    part, then a word for each warp group of each tile.
    """

    def __init__(
        self,
        cube: kl.Number,
        of: Summed[kl.Number],
        sums: kl.Pointer,
        flags: kl.Pointer,
        plan: TmaPlan,
    ) -> None:
        self.cube, self.of, self.sums, self.flags, self.plan = cube, of, sums, flags, plan
        self.parts = of.tiles * of.parts

    def turns(self) -> DeviceRange:
        """Return the number of a cube's pieces: one, or none if it adds."""
        return kl.loop_range(self.cube, self.parts, self.parts)

    def piece(self, turn: kl.Number) -> Piece:
        """Return the cube's part; its start is a step of all products."""
        tile = kl.quotient(turn, self.of.parts)
        start = (turn - tile * self.of.parts) * self.of.length
        count = kl.min(self.of.length, self.of.whole - start)
        return Piece(tile, start, count * self.plan.depth, False)

    def term(self, step: kl.Number) -> tuple[kl.Number, kl.Number]:
        """Return the product of a step, and its first element of that one's K axis."""
        product = kl.quotient(step, self.of.steps)
        return product, (step - product * self.of.steps) * self.plan.depth


@kl.helper
def add_slice(
    schedule: SummedParts,
    c: kl.Pointer,
    sizes: tuple[kl.Number, kl.Number],
    place: tuple[kl.Number, kl.Index, kl.Index],
    group: kl.Index,
    unit: kl.Index,
) -> None:
    """Add a slice of a warp group's sums over the parts of a tile, and write it to the result.

    ``sizes``: rows and columns of the product; ``place``: the number of the adding cube, and the
    first row and column of its tile.
    """
    plan, of, flags = schedule.plan, schedule.of, schedule.flags
    (m, n), (number, row, column) = sizes, place
    tile = kl.quotient(number, of.slices)
    first = tile * of.parts
    # Each unit waits for one part, since consecutive waits would take as long as the sums.
    for one in range(first + unit, first + of.parts, 128):
        while flags.load(one * plan.groups + group, order="relaxed", scope="device") == 0:
            pass
    kl.fence("device", "acquire")
    kl.barrier("warpgroup")
    quads = plan.columns // 2 // WIDE
    begin = (number - tile * of.slices) * quads
    start, far = kl.fragment(plan.shape, "c").lane_place()
    top, side = row + group * 64 + start, column + far
    box, within = place_of_rows()
    turned = row + group * 64 + box * 32 + within
    step = plan.groups * 64 * plan.columns
    for quad in kl.loop_range(kl.quotient(begin, of.slices), kl.quotient(begin + quads, of.slices)):
        at = place_of_sums(first, group, unit, plan) + quad * (WIDE * 128)
        total = kl.constant(0, schedule.sums.dtype, WIDE)
        for part in kl.loop_range(0, of.parts, AHEAD):
            read = [
                schedule.sums.load(
                    kl.assume_multiple(at + kl.min(part + i, of.parts - 1) * step, WIDE),
                    WIDE,
                    align=WIDE * float32.itemsize,
                )
                for i in range(AHEAD)
            ]
            for i in range(AHEAD):
                there = kl.splat(part + i < of.parts, WIDE)
                total = total + kl.select(there, read[i], kl.constant(0, total.dtype, WIDE))
        for pair in (0, 1):
            if plan.transposed:
                # Two rows of a column of the product are adjacent in its transpose.
                line, along = side + quad * 8 + pair, turned
                inside, at = (along < m) & (line < n), line * m + along
                found = kl.shuffle(total, (pair, pair + 2))
            else:
                line, along = top + 8 * pair, side + quad * 8
                inside, at = (line < m) & (along < n), line * n + along
                found = kl.shuffle(total, (2 * pair, 2 * pair + 1))
            if inside:
                c.store(kl.assume_multiple(at, 2), found.to(c.dtype))
    # All units of the group have seen all flags; the last group of a tile's slices resets them.
    if unit == 0:
        counted = schedule.parts * plan.groups + tile * plan.groups + group
        before = flags.atomic("add", counted, kl.constant(1, flags.dtype))
        if before.to(of.slices.dtype) == of.slices - 1:
            for one in kl.loop_range(first, first + of.parts):
                zero = kl.constant(0, flags.dtype)
                flags.store(one * plan.groups + group, zero, order="relaxed", scope="device")
            flags.store(counted, kl.constant(0, flags.dtype), order="relaxed", scope="device")
