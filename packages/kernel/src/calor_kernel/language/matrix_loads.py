"""Collective loads of operands from shared memory by a plane (NVIDIA's ldmatrix).

One instruction loads an operand of 16-bit elements from rows or columns of eight, with one start
address per lane.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from calor_kernel.ir.types import Type
from calor_kernel.language.builder import current
from calor_kernel.language.functions import lane_position, select
from calor_kernel.language.layouts import Layout, Swizzled
from calor_kernel.language.matrices import MatrixShape, Side, lane_places
from calor_kernel.language.memory import Pointer
from calor_kernel.language.values import Number

# A block is 8 rows of 8 elements; the first element of each lane's pair is in row lane / 4.
_EIGHT = 8


def load_blocks(shape: MatrixShape, side: Side, source: Pointer, at: Any) -> Number | None:
    """Return the registers of an operand in shared memory; None if no such load applies."""
    builder = current()
    plain = source.memory.space != "shared" or not isinstance(at, Layout | Swizzled)
    if plain or "load_matrix" not in builder.features:
        return None
    if source.dtype.itemsize != 2 or shape.lanes != 32 or side == "c":
        return None
    found = _blocks(shape, side, at)
    if found is None:
        return None
    starts, transposed = found
    lane = lane_position()
    row, block = lane % _EIGHT, lane // _EIGHT
    first: Any = starts[0]
    for number in range(1, len(starts)):
        first = tuple(
            a if a is b or (isinstance(a, int) and a == b) else select(block == number, b, a)
            for a, b in zip(first, starts[number], strict=True)
        )
    # Rows of the block are columns of the operand if its columns are dense.
    along = 0 if _by_rows(side, transposed) else 1
    place = [first[0], first[1]]
    place[along] = place[along] + row
    index = source._index(at(*place))
    type = Type(source.dtype, 2 * len(starts))
    said = {"count": len(starts), "transposed": transposed}
    return builder.emit("load_matrix", (index,), (type,), said, memory=source.memory)[0]


def _by_rows(side: Side, transposed: bool) -> bool:
    """Return whether the eight elements of a load are along a row of the operand."""
    return (side == "a") != transposed


@lru_cache(maxsize=128)
def _blocks(
    shape: MatrixShape, side: Side, at: Layout | Swizzled
) -> tuple[tuple[tuple[int, int], ...], bool] | None:
    """Return the start of each block in the operand, and whether it is transposed."""
    places = lane_places(shape, side)
    lanes, registers = places.shape[1:]
    if registers % 2 or registers > 8:
        return None
    # The elements of a pair are adjacent along k: columns of a, rows of b.
    along_k, across = (1, 0) if side == "a" else (0, 1)
    lane = np.arange(lanes)
    starts = []
    for pair in range(0, registers, 2):
        start = places[:, 0, pair]
        for element in range(2):
            found = places[:, :, pair + element] - start[:, None]
            expected = np.zeros((2, lanes), np.int64)
            expected[along_k], expected[across] = 2 * (lane % 4) + element, lane // 4
            if (found != expected).any():
                return None
        starts.append((int(start[0]), int(start[1])))
    for transposed in (False, True):
        if all(_dense(start, at, _by_rows(side, transposed)) for start in starts):
            return tuple(starts), transposed
    return None


def _dense(start: tuple[int, int], at: Layout | Swizzled, by_rows: bool) -> bool:
    """Return whether each row, or column, of a block is eight aligned, contiguous elements."""
    rows, columns = np.meshgrid(np.arange(_EIGHT), np.arange(_EIGHT), indexing="ij")
    offsets = at(start[0] + rows, start[1] + columns)
    lines = offsets if by_rows else offsets.T
    aligned = (lines[:, 0] % _EIGHT == 0).all()
    return bool(aligned and (np.diff(lines, axis=1) == 1).all())
