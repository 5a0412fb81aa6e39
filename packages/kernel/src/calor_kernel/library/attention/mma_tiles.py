"""Parts of attention by matrix instructions: tiles, their copies, products, scores.

Requirements: a plane, or a warp group of four, owns whole rows of scores. So maxima, sums and
weights stay in its registers, and weights are the next product's operand in place. Copies run one
step ahead. For planes, rows of a tile are padded by one access, so that the eight rows of one load
begin in different banks, and offsets within a row are known at build time. For warp groups, rows
are in the swizzled lines that their instruction reads. (Dao, "FlashAttention-2", 2023.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calor_kernel.language import (
    Pipeline,
    cube_count,
    cube_position,
    fma,
    helper,
    intrinsic,
    pack,
    select,
    splat,
    unit_index,
    way_of_units,
)
from calor_kernel.library.attention.mma_plan import Fragments
from calor_kernel.library.attention.problem import Given, finite, given
from calor_kernel.library.math import log

# Elements of an access of 16 bytes, for two-byte types.
ACCESS = 8
# Elements of a line of shared memory for warp-group products.
LINE = 64
# The base-2 logarithm of e: devices compute powers of 2 fast.
LOG2_E = math.log2(math.e)


@intrinsic(
    "float32 -> float32",
    cuda="([](float x) {{ float y; "
    'asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }}({0}))',
    opencl="native_exp2({0})",
    metal="fast::exp2({0})",
    hip="__builtin_amdgcn_exp2f({0})",
)
def power_of_two(x: Any) -> Any:
    """Return 2**x within some units of 2**-22, below the precision of half-type weights."""
    return np.exp2(x)


@dataclass(frozen=True, slots=True)
class Lines:
    """``count`` rows of ``width`` dense elements in global memory, ``step`` apart."""

    memory: Any
    at: Any
    count: Any
    width: Any
    step: Any

    @helper
    def take(self, pipe: Any, number: int, first: Any, size: int, room: int, plan: Any) -> None:
        """Start copying rows from ``first`` on to a tile, with 0 beyond the last row."""
        to = plan.panel(size, room).at()
        across = room // ACCESS
        down = plan.units // across
        line, place = unit_index() // across, unit_index() % across * ACCESS
        for turn in range(-(-size // down)):
            row = line + turn * down
            inside = (first + row < self.count) & (place < self.width)
            of = self.at + (first + row) * self.step + place
            if (size % down == 0) or (row < size):
                pipe.copy(number, to(row, place), self.memory, of, ACCESS, inside)


def lines_of(memory: Any, strides: Any, n: Any, head: Any, count: Any, width: Any) -> Lines:
    """Return the rows of a head of an operand with four axes, the last of them dense."""
    return Lines(memory, n * strides[0] + head * strides[1], count, width, strides[2])


def lanewise(function: Callable[..., Any], *values: Any) -> Any:
    """Return a function of numbers applied to each lane of vectors."""
    if values[0].width == 1:
        return function(*values)
    return pack([function(*(v[i] for v in values)) for i in range(values[0].width)])


def weigh(scores: Any, factor: Any, shifts: Any) -> None:
    """Set scores to 2**(score * factor + shift), with a shift for each row or column."""

    def weight(x: Any, shift: Any) -> Any:
        return lanewise(power_of_two, fma(x, splat(factor, x.width), shift))

    scores.map_band(weight, shifts)


@helper
def follow(scores: list[Any], largest: Any, powers: Any, factor: Any, axis: int) -> Any:
    """Set scores of some rows to weights; return the correction factors of earlier sums.

    Maxima and sums of the rows are updated; powers of 2 are of differences from the maximum so far.
    A unit's sums are of its own elements.
    """
    best = scores[0].copy()
    for other in scores[1:]:
        best.map(lambda x, y: max(x, y), other)
    top = best.reduce("max", axis).map(lambda x, y: max(x, y), largest)
    shift = top.copy().map(lambda x: finite(x) * -factor)
    fade = largest.copy().map(lambda x, s: power_of_two(x * factor + s), shift)
    largest.map(lambda _, x: x, top)
    for tile in scores:
        weigh(tile, factor, shift)
    total = scores[0].copy()
    for other in scores[1:]:
        total.map(lambda x, y: x + y, other)
    powers.map(lambda x, f, y: x * f + y, fade, total.reduce("add", axis, own=True))
    return fade


@helper
def finish(
    sums: list[Any],
    largest: Any,
    powers: Any,
    total: Any,
    row_at: Any,
    first: Any,
    g: Given,
    adjusted: bool,
    plan: Fragments,
) -> None:
    """Divide some rows' sums by the sums of their weights, and store the log-sum-exp."""
    powers.combine("add", sums[0])
    inverse = powers.copy().map(lambda x: 1.0 / select(x > 0.0, x, 1.0))
    for tile in sums:
        tile.map_band(lambda x, f: x * f, inverse)
    down, right = plan.places(sums[0])
    for k in range(len(powers.keys)):
        place = first + down + powers.keys[k]
        if (right == 0) and (place < g.queries):
            scale = 1.0 if adjusted else g.scale
            made = finite(largest.items[k]) * scale + log(powers.items[k])
            total[row_at + place] = made


@dataclass(frozen=True, slots=True)
class Queries:
    """A cube of queries: its operands, its rows, and the keys that they attend to."""

    g: Given
    n: Any
    head: Any
    first: Any
    stop: Any
    row_at: Any
    query: Lines
    key: Lines
    value: Lines

    @helper
    def reach(self, row: Any, causal: bool) -> Any:
        """Return the first key hidden from the first query of a plane or warp group."""
        return min(self.g.keys, self.first + row + 1) if causal else self.g.keys

    @helper
    def take_keys(self, pipe: Any, begin: Any, plan: Fragments) -> None:
        """Start copying a block of keys and values."""
        self.key.take(pipe, 0, begin, plan.block, plan.features, plan)
        self.value.take(pipe, 1, begin, plan.block, plan.values, plan)


@helper
def queries_of_cube(numbers: Any, value_width: Any, causal: bool, plan: Fragments) -> Queries:
    """Return a cube's queries: rows from x, the longest first, head y, batch z."""
    g = given(numbers)
    n, head = cube_position(2), cube_position(1)
    number = cube_count(0) - 1 - cube_position(0) if causal else cube_position(0)
    first = number * plan.rows
    stop = min(g.keys, first + plan.rows) if causal else g.keys
    row_at = (n * g.heads + head) * g.queries
    query = lines_of(g.query, g.query_strides, n, head, g.queries, g.features)
    key = lines_of(g.key, g.key_strides, n, head // g.group, stop, g.features)
    value = lines_of(g.value, g.value_strides, n, head // g.group, stop, value_width)
    return Queries(g, n, head, first, stop, row_at, query, key, value)


def exponent(g: Given, adjusted: bool) -> Any:
    """Return the scale of the exponents, so that powers of 2 are weights.

    Scores are products times the scale; adjusted scores have been scaled already.
    """
    return LOG2_E if adjusted else g.scale * LOG2_E


@helper
def own_rows(sources: Any, rooms: Any, first: Any, plan: Fragments) -> Pipeline:
    """Start copying the cube's rows from ``first`` on, of each of the sources."""
    own = Pipeline(1, *(plan.panel(plan.rows, room).tile for room in rooms), how=way_of_units())
    own.acquire()
    for number, (lines, room) in enumerate(zip(sources, rooms, strict=True)):
        lines.take(own, number, first, plan.rows, room, plan)
    own.commit()
    return own


@dataclass(frozen=True, slots=True)
class Hidden:
    """Masks and biases of a block of scores: its first query and key, batch and head.

    ``turned``: whether rows of the scores are keys, and columns queries. ``adjusted``: whether
    every score is adjusted and scaled here, as with ``kinds`` of extras.
    """

    g: Given
    kinds: tuple[str, ...]
    causal: bool
    adjusted: bool
    n: Any
    head: Any
    turned: bool

    @helper
    def adjust(self, tile: Any, row: Any, column: Any, plan: Any) -> None:
        """Scale a tile's scores, add biases, and set hidden scores to −inf."""
        g = self.g
        down, right = plan.places(tile)
        for part in range(len(tile.parts.items)):
            made = []
            for lane in range(tile.width):
                far = tile.register_place(part * tile.width + lane)
                i, j = row + down + far[1 - plan.axis], column + right + far[plan.axis]
                query, key = (j, i) if self.turned else (i, j)
                x = tile.parts[part][lane]
                made.append(self.score(x, query, key, g))
            tile.parts[part] = pack(made)

    @helper
    def adjust_some(self, scores: Any, row: Any, begin: Any, reach: Any, plan: Any) -> None:
        """Adjust scores of keys from ``begin`` on, unless all are before ``reach`` and visible."""
        if self.adjusted or begin + plan.block > reach:
            self.adjust_all(scores, row, begin, plan)

    @helper
    def adjust_turned(self, scores: Any, row: Any, base: Any, clear: Any, plan: Any) -> None:
        """Adjust scores of keys from ``row`` on with queries from ``base`` on, unless ``clear``."""
        if self.adjusted or (self.causal and not clear):
            self.adjust_all(scores, row, base, plan)

    @helper
    def adjust_all(self, scores: Any, row: Any, column: Any, plan: Any) -> None:
        """Adjust all tiles of a plane."""
        for i in range(plan.high):
            for j in range(len(scores[i])):
                self.adjust(scores[i][j], row + i * plan.own, column + j * plan.other, plan)

    @helper
    def score(self, x: Any, query: Any, key: Any, g: Given) -> Any:
        """Return a product as a score; unless all scores are adjusted, the scale comes later."""
        there = (query < g.queries) & (key < g.keys)
        seen = there
        if self.adjusted:
            x = x * g.scale
        for kind, (memory, strides) in zip(self.kinds, g.extras, strict=True):
            at = self.n * strides[0] + self.head * strides[1]
            at = at + query * strides[2] + key * strides[3]
            if kind == "bias":
                x = x + memory.load(at, mask=there).to(x.dtype)
            else:
                seen = seen & memory.load(at, mask=there, other=False)
        if self.causal:
            seen = seen & (key <= query)
        return select(seen, x, -math.inf)
