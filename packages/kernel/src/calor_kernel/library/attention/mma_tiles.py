"""Parts of attention by matrix instructions: copies of rows, the online softmax, masks.

Requirements: a plane, or a warp group of four, owns whole rows of scores. So maxima, sums and
weights stay in its registers, and weights are the next product's operand in place. For planes, rows
of a tile are padded by one access, so that the eight rows of one load begin in different banks, and
offsets within a row are known at build time. For warp groups, rows are in the swizzled lines that
their instruction reads. (Dao, "FlashAttention-2", 2023.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.language.declared import WRITES
from calor_kernel.library.attention.mma_plan import MmaPlan
from calor_kernel.library.attention.operands import (
    KernelOperands,
    Rows,
    ScoreForm,
    Upstream,
    finite,
    visible,
)
from calor_kernel.library.gemm.mma import Sums
from calor_kernel.library.math import log

M = TypeVar("M")
N = TypeVar("N")
# Elements of a line of shared memory for warp-group products.
LINE = 64
# The base-2 logarithm of e: devices compute powers of 2 fast.
LOG2_E = math.log2(math.e)


@kl.intrinsic(
    "float32 -> float32",
    cuda="([](float x) {{ float y; "
    'asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }}({0}))',
    opencl="exp2({0})",  # native_exp2 has as few bits as a driver likes.
    metal="fast::exp2({0})",
    hip="__builtin_amdgcn_exp2f({0})",
    wgsl="exp2({0})",
)
def power_of_two(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return 2**x within some units of 2**-22, below the precision of half-type weights."""
    return np.exp2(x)


@kl.helper
def take_rows(
    rows: Rows, pipe: kl.Pipeline, number: int, first: kl.Index, size: int, room: int, plan: MmaPlan
) -> None:
    """Start copying ``size`` rows from ``first`` on to a tile, with 0 beyond the last row."""
    to = plan.panel(size, room).at()
    across = min(room // plan.copied, plan.units)
    down = plan.units // across
    line, begin = kl.unit_index() // across, kl.unit_index() % across * plan.copied
    for turn in range(-(-size // down)):
        row = line + turn * down
        for start in range(0, room, across * plan.copied):
            place = begin + start
            inside = (first + row < rows.count) & (place < rows.width)
            of = rows.at + (first + row) * rows.row_step + place
            if (size % down == 0) or (row < size):
                pipe.copy(number, to(row, place), rows.memory, of, plan.copied, inside)


@kl.helper
def take_own_rows(sources: Sequence[Rows], first: kl.Index, plan: MmaPlan) -> kl.Pipeline:
    """Start copying the cube's rows from ``first`` on, of each of the sources."""
    rooms = plan.rooms[: len(sources)]
    own = kl.Pipeline(
        1, *(plan.panel(plan.rows, room).tile for room in rooms), how=kl.way_of_units()
    )
    own.acquire()
    for number, (rows, room) in enumerate(zip(sources, rooms, strict=True)):
        take_rows(rows, own, number, first, plan.rows, room, plan)
    own.commit()
    return own


def weigh(scores: kl.Fragment, factor: kl.Number | float, shifts: kl.Band) -> None:
    """Set scores to 2**(score * factor + shift), with a shift for each row or column."""

    def weight(x: kl.Number, shift: kl.Number) -> kl.Number | None:
        x = kl.fma(x, kl.splat(factor, x.width), shift)
        if x.width == 1:
            return power_of_two(x)
        return kl.pack([power_of_two(x[i]) for i in range(x.width)])

    scores.map_band(weight, shifts)


def score_gradients(slopes: kl.Fragment, weights: kl.Fragment, along: kl.Band) -> None:
    """Turn products with the upstream gradient into gradients of the scores, by their weights."""
    slopes.map_band(lambda x, d: x - d, along)
    slopes.map(lambda x, p: p * x, weights)


@kl.helper
def online_softmax(
    scores: Sequence[kl.Fragment],
    largest: kl.Band,
    powers: kl.Band,
    factor: kl.Number | float,
    axis: int,
) -> kl.Band:
    """Set scores of some rows to weights; return the correction factors of earlier sums.

    Maxima and sums of the rows are updated; powers of 2 are of differences from the maximum so far.
    A unit's sums are of its own elements.
    """
    best = scores[0].copy()
    for other in scores[1:]:
        best.map(lambda x, y: kl.max(x, y), other)
    top = best.reduce("max", axis).map(lambda x, y: kl.max(x, y), largest)
    shift = top.copy().map(lambda x: finite(x) * -factor)
    correction = largest.copy().map(lambda x, s: power_of_two(x * factor + s), shift)
    largest.map(lambda _, x: x, top)
    for tile in scores:
        weigh(tile, factor, shift)
    total = scores[0].copy()
    for other in scores[1:]:
        total.map(lambda x, y: x + y, other)
    powers.map(lambda x, f, y: x * f + y, correction, total.reduce("add", axis, own=True))
    return correction


@kl.helper
def finish(
    sums: Sequence[kl.Fragment], largest: kl.Band, powers: kl.Band, total: kl.Pointer,
    row_at: kl.Number, first: kl.Number, g: KernelOperands, form: ScoreForm, plan: MmaPlan,
) -> None:  # fmt: skip
    """Divide some rows' sums by the sums of their weights, and store the log-sum-exp."""
    powers.combine("add", sums[0])
    inverse = powers.copy().map(lambda x: 1.0 / kl.select(x > 0.0, x, 1.0))
    for tile in sums:
        tile.map_band(lambda x, f: x * f, inverse)
    down, right = plan.places(sums[0])
    for k in range(len(powers.keys)):
        place = first + down + powers.keys[k]
        if (right == 0) and (place < g.queries):
            scale = 1.0 if form.adjusted else g.scale
            made = finite(largest.items[k]) * scale + log(powers.items[k])
            total[row_at + place] = made


@dataclass(frozen=True, slots=True)
class KeyParts(Generic[M, N]):
    """What cubes that share the keys of a tile of queries write, each for its part of ``count``.

    ``sums``: the weighted values of each row and part; ``numbers``: the maximum of its scores, and
    the sum of its weights.
    """

    sums: Annotated[M, WRITES]
    numbers: Annotated[M, WRITES]
    count: kl.SizeOf[N]


@kl.helper
def keep_numbers(
    sums: Sequence[kl.Fragment], largest: kl.Band, powers: kl.Band,
    parts: KeyParts[kl.Pointer, kl.Number], part: kl.Number, row_at: kl.Number, first: kl.Number,
    g: KernelOperands, form: ScoreForm, plan: MmaPlan,
) -> None:  # fmt: skip
    """Store the maximum of some rows' scores in a part of the keys, and the sum of weights."""
    powers.combine("add", sums[0])
    down, right = plan.places(sums[0])
    for k in range(len(powers.keys)):
        place = first + down + powers.keys[k]
        if (right == 0) and (place < g.queries):
            at = ((row_at + place) * parts.count + part) * 2
            parts.numbers[at] = largest.items[k] * (1.0 if form.adjusted else g.scale)
            parts.numbers[at + 1] = powers.items[k]


@kl.helper
def load_row_numbers(
    shift: kl.Band, along: kl.Band, up: Upstream[kl.Pointer], row_at: kl.Number,
    place: Sequence[kl.Index], queries: kl.Number,
) -> None:  # fmt: skip
    """Load the log-sum-exp, as a shift, and delta of each row; ``place``: terms of the first."""
    first, row, offset, down = place
    for k in range(len(shift.keys)):
        at = first + row + offset + down + shift.keys[k]
        there = at < queries
        shift.items[k] = finite(up.total.load(row_at + at, mask=there)) * -LOG2_E
        along.items[k] = up.delta.load(row_at + at, mask=there)


def exponent(g: KernelOperands, form: ScoreForm) -> kl.Number | float:
    """Return the scale of the exponents, so that powers of 2 are weights.

    Scores are products times the scale; adjusted scores have been scaled already.
    """
    return LOG2_E if form.adjusted else g.scale * LOG2_E


def scale_sums(sums: Sums, scale: kl.Number) -> None:
    """Multiply the sums by a scale."""
    for tiles in sums:
        for tile in tiles:
            tile.map(lambda x: x * scale)


def drop_rounded(sums: Sums, dtype: DType) -> None:
    """Set the sums to what rounding them to a dtype drops."""
    for tiles in sums:
        for tile in tiles:
            tile.map(lambda x: x - x.to(dtype).to(x.dtype))


@dataclass(frozen=True, slots=True)
class ScoreMask:
    """Masks and biases of the scores of a batch and head.

    ``by_keys``: whether rows of the scores are keys, and columns queries.
    """

    g: KernelOperands
    form: ScoreForm
    n: kl.Number
    head: kl.Number
    by_keys: bool = False

    @kl.helper
    def reach(self, first: kl.Number, row: kl.Number) -> kl.Number:
        """Return the first key hidden from the first query of a plane or warp group."""
        return kl.min(self.g.keys, first + row + 1) if self.form.causal else self.g.keys

    @kl.helper
    def adjust_before(
        self, scores: Sums, row: kl.Number, begin: kl.Index, reach: kl.Number, plan: MmaPlan
    ) -> None:
        """Adjust scores of keys from ``begin`` on, unless all are before ``reach`` and visible."""
        if self.form.adjusted or begin + plan.block > reach:
            self.adjust(scores, row, begin, plan)

    @kl.helper
    def adjust_by_keys(
        self, scores: Sums, row: kl.Number, base: kl.Number, clear: kl.Mask, plan: MmaPlan
    ) -> None:
        """Adjust scores of keys from ``row`` on with queries from ``base`` on, unless ``clear``."""
        if self.form.adjusted or (self.form.causal and not clear):
            self.adjust(scores, row, base, plan)

    @kl.helper
    def adjust(self, scores: Sums, row: kl.Number, column: kl.Index, plan: MmaPlan) -> None:
        """Add biases to the scores of a plane, and set hidden scores to −inf.

        If all scores are adjusted, they are scaled here, otherwise later.
        """
        g = self.g
        for i in range(plan.high):
            for j in range(len(scores[i])):
                tile = scores[i][j]
                top, left = row + i * plan.own, column + j * plan.other
                down, right = plan.places(tile)
                for part in range(len(tile.parts.items)):
                    made = []
                    for lane in range(tile.width):
                        far = tile.register_place(part * tile.width + lane)
                        place = top + down + far[1 - plan.axis], left + right + far[plan.axis]
                        query, key = place[::-1] if self.by_keys else place
                        x = tile.parts[part][lane]
                        there = (query < g.queries) & (key < g.keys)
                        if self.form.adjusted:
                            x = x * g.scale
                        made.append(visible(x, there, g, self.form, self.n, self.head, query, key))
                    tile.parts[part] = kl.pack(made)
