"""Sorting in registers: networks over vectors, and moving the chosen lanes of a vector together.

Requirements: the same operations whatever the elements are, so that nothing waits for a branch;
any number of lanes; what only some processors do in one instruction is an intrinsic with its
meaning. Columns of registers are sorted by odd-even merges, and columns merged as bitonic sequences
(Batcher, "Sorting networks and their applications", 1968; on vectors as Blacher et al., "Vectorized
and performance-portable quicksort", 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calor.dtypes import DType, uint32, uint64
from calor_kernel.language import helper, intrinsic, shuffle


def _compressed(values: Any, mask: Any) -> Any:
    """Return the lanes of the mask in their order, then zeros."""
    rows = max(len(values), len(mask))
    values = np.broadcast_to(values, (rows, values.shape[1]))
    mask = np.broadcast_to(mask, values.shape)
    order = np.argsort(~mask, axis=1, kind="stable")
    sizes = mask.sum(1)[:, None]
    taken = np.take_along_axis(values, order, 1)
    return np.where(np.arange(values.shape[1]) < sizes, taken, 0).astype(values.dtype)


@intrinsic(
    "uint32x16, boolx16 -> uint32x16",
    llvm="{result} = call <16 x i32> @llvm.experimental.vector.compress.v16i32("
    "<16 x i32> {0}, <16 x i1> {1}, <16 x i32> zeroinitializer)\n"
    "declare <16 x i32> @llvm.experimental.vector.compress.v16i32("
    "<16 x i32>, <16 x i1>, <16 x i32>)",
)
def compress_words(values: Any, mask: Any) -> Any:
    """Return the lanes of the mask in their order, then zeros."""
    return _compressed(values, mask)


@intrinsic(
    "uint64x8, boolx8 -> uint64x8",
    llvm="{result} = call <8 x i64> @llvm.experimental.vector.compress.v8i64("
    "<8 x i64> {0}, <8 x i1> {1}, <8 x i64> zeroinitializer)\n"
    "declare <8 x i64> @llvm.experimental.vector.compress.v8i64("
    "<8 x i64>, <8 x i1>, <8 x i64>)",
)
def compress_pairs(values: Any, mask: Any) -> Any:
    """Return the lanes of the mask in their order, then zeros."""
    return _compressed(values, mask)


@intrinsic(
    "boolx16 -> int64",
    llvm="{result}.b = bitcast <16 x i1> {0} to i16\n"
    "{result}.c = call i16 @llvm.ctpop.i16(i16 {result}.b)\n"
    "{result} = zext i16 {result}.c to i64\n"
    "declare i16 @llvm.ctpop.i16(i16)",
)
def count_words(mask: Any) -> Any:
    """Return how many lanes the mask has."""
    return mask.sum(1).astype(np.int64)


@intrinsic(
    "boolx8 -> int64",
    llvm="{result}.b = bitcast <8 x i1> {0} to i8\n"
    "{result}.c = call i8 @llvm.ctpop.i8(i8 {result}.b)\n"
    "{result} = zext i8 {result}.c to i64\n"
    "declare i8 @llvm.ctpop.i8(i8)",
)
def count_pairs(mask: Any) -> Any:
    """Return how many lanes the mask has."""
    return mask.sum(1).astype(np.int64)


# By the dtype of keys: lanes, their moving together, their counting.
LANES: dict[DType, int] = {uint32: 16, uint64: 8}
COMPRESS: dict[DType, Any] = {uint32: compress_words, uint64: compress_pairs}
COUNT: dict[DType, Any] = {uint32: count_words, uint64: count_pairs}


@helper
def sort_registers(vectors: Sequence[Any]) -> list[Any]:
    """Return vectors whose elements, one vector after another, are those of all in order.

    There are 2 ** k vectors, at most as many as lanes.
    """
    rows, lanes = len(vectors), vectors[0].width
    v = list(vectors)
    for a, b in pairs_of_network(rows):
        v[a], v[b] = min(v[a], v[b]), max(v[a], v[b])
    # Lane after lane is a sorted column; twice as many lanes are merged in each round.
    run = 1
    while run < lanes:
        v = across(v, 2 * run - 1, run, True)
        distance = run // 2
        while distance > 0:
            v = across(v, distance, distance, False)
            distance = distance // 2
        step = rows // 2
        while step > 0:
            for a in range(rows):
                if a & step == 0:
                    b = a + step
                    v[a], v[b] = min(v[a], v[b]), max(v[a], v[b])
            step = step // 2
        run = 2 * run
    return columns_as_rows(v)


@helper
def across(v: Sequence[Any], turn: int, bit: int, mirrored: bool) -> list[Any]:
    """Compare each element with that of lane ^ turn, in the same row or the mirrored one.

    The lesser goes to the lane without ``bit``.
    """
    lanes = v[0].width
    partner = [lane ^ turn for lane in range(lanes)]
    blend = [lane if lane & bit == 0 else lanes + lane for lane in range(lanes)]
    made = []
    for row in range(len(v)):
        other = shuffle(v[len(v) - 1 - row if mirrored else row], partner)
        made.append(shuffle(min(v[row], other), blend, max(v[row], other)))
    return made


def pairs_of_network(n: int) -> list[tuple[int, int]]:
    """Return the comparisons of Batcher's odd-even merge sort of n = 2 ** k elements.

    >>> pairs_of_network(4)
    [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)]
    """
    found = []
    p = 1
    while p < n:
        k = p
        while k >= 1:
            for j in range(k % p, n - k, 2 * k):
                for i in range(min(k, n - j - k)):
                    if (i + j) // (2 * p) == (i + j + k) // (2 * p):
                        found.append((i + j, i + j + k))
            k //= 2
        p *= 2
    return found


def columns_as_rows(v: Sequence[Any]) -> list[Any]:
    """Return vectors that hold column after column of these, of which there are 2 ** k."""
    rows, lanes = len(v), v[0].width
    v = list(v)
    bits, lane_bits = rows.bit_length() - 1, lanes.bit_length() - 1
    for i in range(bits):
        # Row bit i changes places with a lane bit: a square of blocks is transposed.
        row, lane = 1 << i, 1 << (lane_bits - bits + i)
        first = [j if j & lane == 0 else lanes + (j ^ lane) for j in range(lanes)]
        second = [lanes + j if j & lane else j ^ lane for j in range(lanes)]
        for a in range(rows):
            if a & row == 0:
                b = a | row
                v[a], v[b] = shuffle(v[a], first, v[b]), shuffle(v[a], second, v[b])
    rest = lanes // rows
    if rest > 1:
        order = [(j % rows) * rest + j // rows for j in range(lanes)]
        v = [shuffle(one, order) for one in v]
    return v
