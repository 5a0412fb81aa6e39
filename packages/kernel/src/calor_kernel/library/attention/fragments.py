"""What attention by matrix instructions of planes shares: tiles, their copies, products, scores.

Requirements: a plane owns whole rows of scores, so that maxima, sums and weights stay in its
registers and weights become the next product's operand where they are; copies run a step ahead;
rows of a tile are padded by one access, so that the eight that are loaded together begin in
different banks, and every place within a row is a number that the build knows. (Dao,
"FlashAttention-2", 2023.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calor.dtypes import DType
from calor_kernel.language import (
    Layout,
    Tile,
    fma,
    fragment,
    helper,
    intrinsic,
    mma,
    operand_of,
    pack,
    select,
    splat,
    unit_index,
)
from calor_kernel.language.matrices import MatrixShape, mma_16x8
from calor_kernel.library.attention.problem import Given

# Elements of an access of 16 bytes, of types of two.
ACCESS = 8
# The base-2 logarithm of e: powers of 2 are what devices compute quickly.
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
    """Return 2**x within some units of 2**-22, which weights of half types do not see."""
    return np.exp2(x)


@dataclass(frozen=True, slots=True)
class Fragments:
    """How attention is computed: each of ``planes`` owns ``high`` times 16 rows of scores.

    A step takes ``block`` of the other operand's rows. ``features`` and ``values`` are the room of
    a row in shared memory, powers of two. ``held``: whether the rows that a plane owns stay in
    registers.
    """

    dtype: DType
    planes: int
    high: int
    block: int
    features: int
    values: int
    held: bool = False

    @property
    def units(self) -> int:
        """The units of a cube."""
        return 32 * self.planes

    @property
    def rows(self) -> int:
        """The rows that a cube owns."""
        return self.planes * self.high * self.shape.m

    @property
    def shape(self) -> MatrixShape:
        """The instruction."""
        return mma_16x8(self.dtype)

    def lines(self, count: int, room: int) -> Layout:
        """Return where (row, element) of a tile of rows lie."""
        return Layout((count, room), (room + ACCESS, 1))

    def tile(self, count: int, room: int) -> Tile:
        """Return a tile of rows."""
        return Tile(self.dtype, self.lines(count, room))

    def shared_bytes(self, gradient: bool) -> int:
        """Return the shared memory of a cube: rows of its own, and two steps of the other's."""
        rooms = self.features, self.values
        own = sum(self.tile(self.rows, r).size for r in (rooms if gradient else rooms[:1]))
        steps = 2 * sum(self.tile(self.block, r).size for r in rooms)
        numbers = 4 * Tile(self.dtype, Layout((2 * self.block,))).size if gradient else 0
        return int(self.dtype.itemsize) * (own + steps + numbers)


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
        """Start copying rows from ``first`` on to a tile; what is beyond them becomes 0."""
        to = plan.lines(size, room)
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
    """Return the rows of a head of an operand with four axes, of which the last is dense."""
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
def operands(left: Any, left_at: Any, row: Any, count: int, room: int, plan: Any) -> list[Any]:
    """Return rows of a tile in shared memory as operands: of each step along a row, some."""
    shape = plan.shape
    piece = left_at.compose((shape.m, shape.k))
    return [
        [
            fragment(shape, "a").load(left.at(left_at(row + i * shape.m, p)), piece)
            for i in range(count)
        ]
        for p in range(0, room, shape.k)
    ]


@helper
def scores_of(
    left: Any, left_at: Any, row: Any, held: Any, right: Any, size: int, room: int, plan: Any
) -> list[Any]:
    """Return products of a plane's rows of a tile and all ``size`` rows of another.

    ``held``: the plane's rows as operands, where they stay in registers.
    """
    shape = plan.shape
    right_at = plan.lines(size, room)
    left_piece = left_at.compose((shape.m, shape.k))
    # Rows of the tile are columns of the operand.
    lying = Layout((room, size), (room + ACCESS, 1)[::-1])
    piece = lying.compose((shape.k, shape.n))
    sums = [[fragment(shape, "c") for _ in range(size // shape.n)] for _ in range(plan.high)]
    for p in range(0, room, shape.k):
        if held is None:
            lefts = [
                fragment(shape, "a").load(left.at(left_at(row + i * shape.m, p)), left_piece)
                for i in range(plan.high)
            ]
        else:
            lefts = held[p // shape.k]
        for j in range(size // shape.n):
            b = fragment(shape, "b").load(right.at(right_at(j * shape.n, p)), piece)
            for i in range(plan.high):
                mma(lefts[i], b, sums[i][j])
    return sums


@helper
def add_weighted(sums: Any, weights: Any, right: Any, size: int, room: int, plan: Any) -> None:
    """Add to a plane's sums its weights of ``size`` rows of a tile times these rows."""
    shape = plan.shape
    right_at = plan.lines(size, room)
    piece = right_at.compose((shape.k, shape.n))
    for p in range(0, size, shape.k):
        first = p // shape.n
        lefts = [
            operand_of(weights[i][first : first + shape.k // shape.n], shape, "a")
            for i in range(plan.high)
        ]
        for j in range(room // shape.n):
            b = fragment(shape, "b").load(right.at(right_at(p, j * shape.n)), piece)
            for i in range(plan.high):
                mma(lefts[i], b, sums[i][j])


@dataclass(frozen=True, slots=True)
class Hidden:
    """What hides scores or adds to them, of a block: its first query and key, batch and head.

    ``turned``: whether rows of the scores are keys, and columns queries. ``adjusted``: whether
    every score is looked at, and scaled here, as it is where there are ``kinds``.
    """

    g: Given
    kinds: tuple[str, ...]
    causal: bool
    adjusted: bool
    n: Any
    head: Any
    turned: bool

    @helper
    def adjust(self, tile: Any, row: Any, column: Any) -> None:
        """Scale scores, add biases, and set to −inf what is hidden; the tile begins at a place."""
        g = self.g
        down, right = tile.lane_place()
        for part in range(len(tile.parts.items)):
            made = []
            for lane in range(tile.width):
                far = tile.register_place(part * tile.width + lane)
                i, j = row + down + far[0], column + right + far[1]
                query, key = (j, i) if self.turned else (i, j)
                x = tile.parts[part][lane]
                made.append(self.score(x, query, key, g))
            tile.parts[part] = pack(made)

    @helper
    def adjust_some(self, scores: Any, row: Any, begin: Any, reach: Any, plan: Any) -> None:
        """Adjust scores of keys from ``begin`` on, unless all are before ``reach`` and seen."""
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
        shape = plan.shape
        for i in range(plan.high):
            for j in range(plan.block // shape.n):
                self.adjust(scores[i][j], row + i * shape.m, column + j * shape.n)

    @helper
    def score(self, x: Any, query: Any, key: Any, g: Given) -> Any:
        """Return a product as a score, which is scaled later where not all are adjusted."""
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
