"""Left factors of products of boxes that are read from registers, and results that are turned.

Requirements: the matrix unit reads factors of four bytes from shared memory only where they lie
along the summed axis, but a left factor in registers may have lain either way; so a product whose
right factor lies the other way is computed as that of the transposes, and nothing is copied before.

Which rows a unit has is free, as long as its sums are written to them: they are such that two are
neighbours, and that the units of half a plane meet every bank of shared memory once.
"""

from __future__ import annotations

from typing import Any

from calor_kernel.language import (
    assume_multiple,
    fragment,
    helper,
    lane_position,
    pack,
    shuffle,
    unit_index,
)

# Rows in a line of shared memory, and elements of a box of such lines.
_LINE, _BOX = 32, 1024


@helper
def place_of_rows() -> tuple[Any, Any]:
    """Return the box of a unit's two rows, of the two of its warp group, and their place in it.

    The number of a row in sixteen, and that of the plane, are taken apart bit by bit.
    """
    row, plane = lane_position() // 4, unit_index() // 32 % 4
    first = row % 2 * 2 + row // 2 % 2 * 16 + row // 4 * 8 + plane % 2 * 4
    return plane // 2, first


@helper
def rows_in_registers(left: Any, at: Any, plan: Any) -> list[Any]:
    """Return a step's fragments of the left factor: boxes of the summed axis by 32 rows."""
    shape = plan.shape
    box, first = place_of_rows()
    deep = lane_position() % 4
    # Pieces of four elements of a line are swizzled by the line's number in its eight.
    line = at + box * _BOX + deep * _LINE
    near = line + (first ^ deep * 4)
    far = line + 4 * _LINE + (first ^ deep * 4 ^ 16)
    made = []
    for p in range(0, plan.depth, shape.k):
        pieces = [left.load(assume_multiple(place + p * _LINE, 2), 2) for place in (near, far)]
        found = fragment(shape, "a")
        found.parts[0] = pack([piece[i] for piece in pieces for i in range(2)])
        made.append(found)
    return made


@helper
def store_turned(sums: Any, target: Any, start: int, plan: Any) -> None:
    """Store some columns of sums as lines of the result's transpose, two boxes of 32 by 32."""
    box, first = place_of_rows()
    column = lane_position() % 4 * 2
    for q in range(2):
        line = column + q
        begin = box * _BOX + line * _LINE + (first ^ line * 4)
        for block in range(0, plan.part, 8):
            register = (start + block) // 2 + q
            pair = shuffle(sums.parts[0], (register, register + 2))
            target.store(assume_multiple(begin + block * _LINE, 2), pair.to(plan.result))
