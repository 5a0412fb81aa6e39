"""TMA products with operand A in registers, and with transposed results.

Requirements: for four-byte types the matrix unit reads shared memory only along the K axis, but A
in registers may have had either layout. So if B is dense along the other axis, the product of the
transposes is computed, without a copy.

The assignment of rows to units is free, as long as their sums go to the same rows. Here a unit has
two adjacent rows, and the units of half a plane access every bank of shared memory once.
"""

from __future__ import annotations

from calor_cuda.kernels.matmul.warpgroup_tma_plan import TmaPlan
from calor_kernel import language as kl

# Rows in a line of shared memory, and elements of a box of such lines.
_LINE, _BOX = 32, 1024


@kl.helper
def place_of_rows() -> tuple[kl.Number, kl.Number]:
    """Return the box of a unit's two rows, of its warp group's two, and their offset in it.

    The index of a row in sixteen, and that of the plane, are permuted bit by bit.
    """
    row, plane = kl.lane_position() // 4, kl.unit_index() // 32 % 4
    first = row % 2 * 2 + row // 2 % 2 * 16 + row // 4 * 8 + plane % 2 * 4
    return plane // 2, first


@kl.helper
def rows_in_registers(left: kl.Pointer, at: kl.Index, plan: TmaPlan) -> list[kl.Fragment]:
    """Return a step's fragments of A: boxes of the K axis by 32 rows."""
    shape = plan.shape
    box, first = place_of_rows()
    deep = kl.lane_position() % 4
    # Pieces of four elements of a line are swizzled by the line's index modulo eight.
    line = at + box * _BOX + deep * _LINE
    near = line + (first ^ deep * 4)
    far = line + 4 * _LINE + (first ^ deep * 4 ^ 16)
    made = []
    for p in range(0, plan.depth, shape.k):
        pieces = [left.load(kl.assume_multiple(place + p * _LINE, 2), 2) for place in (near, far)]
        found = kl.fragment(shape, "a")
        found.parts[0] = kl.pack([piece[i] for piece in pieces for i in range(2)])
        made.append(found)
    return made


@kl.helper
def store_turned(sums: kl.Fragment, target: kl.Pointer, start: int, plan: TmaPlan) -> None:
    """Store some columns of sums as lines of the result's transpose, two boxes of 32 by 32."""
    box, first = place_of_rows()
    column = kl.lane_position() % 4 * 2
    for q in range(2):
        line = column + q
        begin = box * _BOX + line * _LINE + (first ^ line * 4)
        for block in range(0, plan.part, 8):
            register = (start + block) // 2 + q
            pair = kl.shuffle(sums.parts[0], (register, register + 2))
            target.store(kl.assume_multiple(begin + block * _LINE, 2), pair.to(plan.result))
