"""Sorting networks over vectors in registers, and compression of a vector's lanes.

Requirements: the operations do not depend on the elements, so there are no branches; any number of
lanes; instructions of some processors only are intrinsics with a reference. Columns of registers
are sorted by odd-even merges, and merged as bitonic sequences (Batcher, "Sorting networks and their
applications", 1968; on vectors as Blacher et al., "Vectorized and performance-portable quicksort",
2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calor.dtypes import DType, uint32, uint64
from calor_kernel import language as kl

Lanes = np.ndarray[Any, Any]
"""The value of an intrinsic's reference: a row of lanes for each unit."""


def _compressed(values: Lanes, mask: Lanes) -> Lanes:
    """Return the lanes of the mask in their order, then zeros."""
    rows = max(len(values), len(mask))
    values = np.broadcast_to(values, (rows, values.shape[1]))
    mask = np.broadcast_to(mask, values.shape)
    order = np.argsort(~mask, axis=1, kind="stable")
    sizes = mask.sum(1)[:, None]
    taken = np.take_along_axis(values, order, 1)
    return np.where(np.arange(values.shape[1]) < sizes, taken, 0).astype(values.dtype)


@kl.intrinsic(
    "uint32x16, boolx16 -> uint32x16",
    llvm="{result} = call <16 x i32> @llvm.experimental.vector.compress.v16i32("
    "<16 x i32> {0}, <16 x i1> {1}, <16 x i32> zeroinitializer)\n"
    "declare <16 x i32> @llvm.experimental.vector.compress.v16i32("
    "<16 x i32>, <16 x i1>, <16 x i32>)",
)
def compress_words(values: Lanes, mask: Lanes) -> Lanes:
    """Return the lanes of the mask in their order, then zeros."""
    return _compressed(values, mask)


@kl.intrinsic(
    "uint64x8, boolx8 -> uint64x8",
    llvm="{result} = call <8 x i64> @llvm.experimental.vector.compress.v8i64("
    "<8 x i64> {0}, <8 x i1> {1}, <8 x i64> zeroinitializer)\n"
    "declare <8 x i64> @llvm.experimental.vector.compress.v8i64("
    "<8 x i64>, <8 x i1>, <8 x i64>)",
)
def compress_pairs(values: Lanes, mask: Lanes) -> Lanes:
    """Return the lanes of the mask in their order, then zeros."""
    return _compressed(values, mask)


@kl.intrinsic(
    "boolx16 -> int64",
    llvm="{result}.b = bitcast <16 x i1> {0} to i16\n"
    "{result}.c = call i16 @llvm.ctpop.i16(i16 {result}.b)\n"
    "{result} = zext i16 {result}.c to i64\n"
    "declare i16 @llvm.ctpop.i16(i16)",
)
def count_words(mask: Lanes) -> Lanes:
    """Return the number of lanes of the mask."""
    count: Lanes = mask.sum(1).astype(np.int64)
    return count


@kl.intrinsic(
    "boolx8 -> int64",
    llvm="{result}.b = bitcast <8 x i1> {0} to i8\n"
    "{result}.c = call i8 @llvm.ctpop.i8(i8 {result}.b)\n"
    "{result} = zext i8 {result}.c to i64\n"
    "declare i8 @llvm.ctpop.i8(i8)",
)
def count_pairs(mask: Lanes) -> Lanes:
    """Return the number of lanes of the mask."""
    count: Lanes = mask.sum(1).astype(np.int64)
    return count


# Lanes of a vector, by the dtype of keys.
LANES: dict[DType, int] = {uint32: 16, uint64: 8}


def compress(values: kl.Number, mask: kl.Number) -> kl.Number:
    """Return the lanes of the mask in their order, then zeros."""
    instruction = compress_words if values.dtype is uint32 else compress_pairs
    packed = instruction(values, mask)
    assert packed is not None
    return packed


def count_lanes(mask: kl.Number) -> kl.Number:
    """Return the number of lanes of the mask."""
    count = (count_words if mask.width == LANES[uint32] else count_pairs)(mask)
    assert count is not None
    return count


@kl.helper
def sort_registers(vectors: Sequence[kl.Number]) -> list[kl.Number]:
    """Return the elements of all vectors, sorted through the vectors.

    There are 2 ** k vectors, at most as many as lanes.
    """
    rows, lanes = len(vectors), vectors[0].width
    v = list(vectors)
    for a, b in pairs_of_network(rows):
        v[a], v[b] = kl.min(v[a], v[b]), kl.max(v[a], v[b])
    # Each lane is a sorted column; each round merges columns in pairs.
    run = 1
    while run < lanes:
        v = compare_exchange(v, 2 * run - 1, run, True)
        distance = run // 2
        while distance > 0:
            v = compare_exchange(v, distance, distance, False)
            distance = distance // 2
        step = rows // 2
        while step > 0:
            for a in range(rows):
                if a & step == 0:
                    b = a + step
                    v[a], v[b] = kl.min(v[a], v[b]), kl.max(v[a], v[b])
            step = step // 2
        run = 2 * run
    return columns_as_rows(v)


@kl.helper
def compare_exchange(
    v: Sequence[kl.Number], turn: int, bit: int, mirrored: bool
) -> list[kl.Number]:
    """Compare each element with that of lane ^ turn, in the same row or the mirrored one.

    The lane without ``bit`` takes the lesser one.
    """
    lanes = v[0].width
    partner = [lane ^ turn for lane in range(lanes)]
    blend = [lane if lane & bit == 0 else lanes + lane for lane in range(lanes)]
    made = []
    for row in range(len(v)):
        other = kl.shuffle(v[len(v) - 1 - row if mirrored else row], partner)
        made.append(kl.shuffle(kl.min(v[row], other), blend, kl.max(v[row], other)))
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


def columns_as_rows(v: Sequence[kl.Number]) -> list[kl.Number]:
    """Return 2 ** k vectors that hold the columns of these one after another."""
    rows, lanes = len(v), v[0].width
    v = list(v)
    bits, lane_bits = rows.bit_length() - 1, lanes.bit_length() - 1
    for i in range(bits):
        # Row bit i is exchanged with a lane bit: this transposes a square of blocks.
        row, lane = 1 << i, 1 << (lane_bits - bits + i)
        first = [j if j & lane == 0 else lanes + (j ^ lane) for j in range(lanes)]
        second = [lanes + j if j & lane else j ^ lane for j in range(lanes)]
        for a in range(rows):
            if a & row == 0:
                b = a | row
                v[a], v[b] = kl.shuffle(v[a], first, v[b]), kl.shuffle(v[a], second, v[b])
    rest = lanes // rows
    if rest > 1:
        order = [(j % rows) * rest + j // rows for j in range(lanes)]
        v = [kl.shuffle(one, order) for one in v]
    return v
