"""Products of tiles in memory, as processors with tile registers compute them.

Requirements: tile registers hold 16 rows of 64 bytes, and a processor has eight. So one operation
multiplies a block of tiles over the whole K axis, with its sums in tile registers, and writes it
to memory; nothing else needs to know the registers. (Intel AMX: Intel, "Intel 64 and IA-32
Architectures Optimization Reference Manual", chapter 20.)
"""

from __future__ import annotations

from typing import Any, Final

from calor.dtypes import DType, bfloat16, float32, int8, int32
from calor_kernel.errors import KernelTypeError
from calor_kernel.language.builder import current
from calor_kernel.language.memory import Pointer

TILE: Final = 16
"""The rows of a tile, and its columns of sums."""
TILE_BYTES: Final = 64
"""The bytes of a tile's row: the terms of a step."""
SUMS: Final = {bfloat16: float32, int8: int32}
"""The dtypes of operands, each with that of its sums."""

PARTS: Final = 3
"""The parts of bfloat16 that have the digits of a float32."""


def terms(dtype: DType) -> int:
    """Return the terms of a sum that a step adds."""
    return TILE_BYTES // int(dtype.itemsize)


def tile_product(
    sums: Pointer,
    a: Pointer,
    a_stride: Any,
    b: Pointer,
    b_stride: Any,
    steps: Any,
    *,
    rows: int = 2,
    columns: int = 2,
    ahead: Pointer | None = None,
    lines: int = 0,
    add: bool = False,
    parts: tuple[Any, Any] | None = None,
) -> None:
    """Write the product of ``16 * rows`` rows of a with ``16 * columns`` columns of b.

    ``a``: rows with the terms adjacent, ``a_stride`` elements apart. ``b``: lines of a group of
    terms (2 of bfloat16, 4 of int8) for each column, ``b_stride`` elements apart; the terms of a
    group are adjacent. ``steps``: of 32 terms of bfloat16 or 64 of int8. ``sums``: dense by rows.
    ``ahead``: a later part of b, of which each step prefetches ``lines`` more lines of the caches.
    ``add``: the product is added to the sums in memory. ``parts``: each operand is the sum of three
    parts, the largest first, so many elements apart in a and b; the products of those whose numbers
    are two in sum or less are added, which have the digits of float32.
    """
    builder = current()
    if a.dtype is not b.dtype or SUMS.get(a.dtype) is not sums.dtype:
        raise KernelTypeError(
            f"tile_product of {a.dtype} and {b.dtype} with sums of {sums.dtype}: it takes two of "
            "bfloat16 with float32, or two of int8 with int32"
        )
    if rows * columns + rows + columns > 8:
        raise KernelTypeError(f"{rows}x{columns} tiles and their operands exceed 8 registers")
    if ahead is not None and ahead.memory is not b.memory:
        raise KernelTypeError("tile_product prefetches lines of b alone")
    operands = (sums, a, b, b if ahead is None else ahead)
    at = [one._index(0) for one in operands]
    index = at[0].type
    a_part, b_part = parts or (0, 0)
    given = [builder.coerce(v, index) for v in (a_stride, b_stride, steps, a_part, b_part)]
    order = (at[0], at[1], given[0], at[2], given[1], given[2], at[3], *given[3:])
    shape = {"rows": rows, "columns": columns, "ahead": 0 if ahead is None else lines}
    shape["parts"] = 1 if parts is None else PARTS
    said = {"source": a.memory, "right": b.memory, **shape, "add": add}
    builder.emit("tile_product", order, (), said, memory=sums.memory)
