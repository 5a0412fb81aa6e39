"""Forward substitution with a small triangle in shared memory, by one unit for a column.

Requirements: a few rows at a time are in registers, so that no step waits for shared memory or for
other units, and kernels stay short.
"""

from __future__ import annotations

from calor_kernel import language as kl
from calor_kernel.library.linalg.matrices import lanes_of, minus_product

# Rows in registers.
_ROWS = 8


@kl.helper
def substitute(
    values: kl.Pointer,
    first: kl.Index,
    step: int,
    corner: kl.Pointer,
    pitch: int,
    block: int,
    scaled: bool,
) -> None:
    """Solve ``block`` rows of a column, ``step`` elements of ``values`` apart, in place.

    ``corner``: the lower triangle, column by column, ``pitch`` elements apart. Its diagonal has
    inverses if ``scaled``, else it is not read.
    """
    dtype, rows = values.dtype, min(_ROWS, block)
    lanes = lanes_of(dtype)
    held = kl.registers(rows // lanes, dtype, lanes)
    for start in kl.loop_range(0, block, rows):
        for g in range(rows // lanes):
            places = [first + (start + g * lanes + q) * step for q in range(lanes)]
            held[g] = kl.pack([values[at] for at in places])
        for k in kl.loop_range(0, start):
            known = kl.splat(values[first + k * step], lanes)
            for g in range(rows // lanes):
                at = kl.assume_multiple(k * pitch + start + g * lanes, lanes)
                held[g] = minus_product(corner.load(at, lanes), known, held[g])
        found = [held[r // lanes][r % lanes] for r in range(rows)]
        for k in range(rows):
            at = (start + k) * pitch + start
            if scaled:
                found[k] = found[k] * corner[at + k]
            values[first + (start + k) * step] = found[k]
            for r in range(k + 1, rows):
                found[r] = minus_product(corner[at + r], found[k], found[r])
