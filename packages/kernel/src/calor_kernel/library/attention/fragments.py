"""What attention by matrix instructions shares: tiles, their copies, products, scores.

Requirements: a plane, or a group of four, owns whole rows of scores, so that maxima, sums and
weights stay in its registers and weights become the next product's operand where they are; copies
run a step ahead; for planes, rows of a tile are padded by one access, so that the eight that are
loaded together begin in different banks, and every place within a row is a number that the build
knows; for groups they lie in the swizzled lines that their instruction reads. (Dao,
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
    Fragment,
    Layout,
    SharedMatrix,
    Swizzle,
    Swizzled,
    Tile,
    fma,
    fragment,
    group_of,
    helper,
    intrinsic,
    issue_mma,
    mma,
    operand_of,
    pack,
    plane_position,
    select,
    splat,
    unit_index,
    wait_mma,
)
from calor_kernel.language.matrices import MatrixShape, mma_16x8, wgmma_64
from calor_kernel.library.attention.problem import Given

# Elements of an access of 16 bytes, of types of two.
ACCESS = 8
# A line of shared memory as groups' products read it: elements, and how lines are swizzled.
LINE = 64
SWIZZLE = Swizzle(3, 3, 3)
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
    registers. ``grouped``: whether four planes compute together, beside the units; rooms are whole
    lines then.
    """

    dtype: DType
    planes: int
    high: int
    block: int
    features: int
    values: int
    held: bool = False
    grouped: bool = False

    @property
    def units(self) -> int:
        """The units of a cube."""
        return 32 * self.planes

    @property
    def rows(self) -> int:
        """The rows that a cube owns."""
        return self.planes * self.high * 16

    def shape(self, columns: int) -> MatrixShape:
        """Return the instruction for sums of so many columns."""
        return wgmma_64(columns, self.dtype) if self.grouped else mma_16x8(self.dtype)

    @helper
    def first_row(self) -> Any:
        """Return the first row that this unit's plane or group owns, of the cube's."""
        if self.grouped:
            return group_of(self.shape(self.block)) * 64
        return plane_position() * (self.high * 16)

    def sums(self, columns: int) -> list[list[Fragment]]:
        """Return the sums of the rows that a plane or group owns, in tiles down and across."""
        shape = self.shape(columns)
        return [[fragment(shape, "c") for _ in range(columns // shape.n)] for _ in range(self.high)]

    def lines(self, count: int, room: int) -> Layout | Swizzled:
        """Return where (row, element) of a tile of rows lie."""
        if self.grouped:
            lines = Layout((count, (LINE, room // LINE)), (LINE, (1, count * LINE)))
            return Swizzled(SWIZZLE, lines)
        return Layout((count, room), (room + ACCESS, 1))

    def turned(self, count: int, room: int) -> Layout | Swizzled:
        """Return where (element, row) of a tile of rows lie."""
        if self.grouped:
            lines = Layout(((LINE, room // LINE), count), ((1, count * LINE), LINE))
            return Swizzled(SWIZZLE, lines)
        return Layout((room, count), (1, room + ACCESS))

    def tile(self, count: int, room: int) -> Tile:
        """Return a tile of rows."""
        return Tile(self.dtype, self.lines(count, room), align=1024 if self.grouped else 128)

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
def operands(left: Any, row: Any, room: int, plan: Any) -> list[Any]:
    """Return rows that a plane owns of a tile as operands: of each step along a row, some."""
    shape, left_at = plan.shape(room), plan.lines(plan.rows, room)
    piece = left_at.compose((shape.m, shape.k))
    return [
        [
            fragment(shape, "a").load(left.at(left_at(row + i * shape.m, p)), piece)
            for i in range(plan.high)
        ]
        for p in range(0, room, shape.k)
    ]


@helper
def add_scores(sums: Any, left: Any, row: Any, held: Any, right: Any, room: int, plan: Any) -> None:
    """Add products of rows that a plane or group owns and all rows of a step's tile.

    ``held``: the rows as operands, where they stay in registers. Groups' are to be settled.
    """
    shape = plan.shape(plan.block)
    left_at, right_at = plan.lines(plan.rows, room), plan.turned(plan.block, room)
    if plan.grouped:
        rows, others = SharedMatrix(left, left_at), SharedMatrix(right, right_at)
        issue_mma(
            sums[0][0],
            [
                (rows.tile((shape.m, shape.k), (row, p)), others.tile((shape.k, shape.n), (p, 0)))
                for p in range(0, room, shape.k)
            ],
        )
        return
    left_piece = left_at.compose((shape.m, shape.k))
    piece = right_at.compose((shape.k, shape.n))
    for p in range(0, room, shape.k):
        if held is None:
            lefts = [
                fragment(shape, "a").load(left.at(left_at(row + i * shape.m, p)), left_piece)
                for i in range(plan.high)
            ]
        else:
            lefts = held[p // shape.k]
        for j in range(plan.block // shape.n):
            b = fragment(shape, "b").load(right.at(right_at(p, j * shape.n)), piece)
            for i in range(plan.high):
                mma(lefts[i], b, sums[i][j])


@helper
def add_weighted(sums: Any, weights: Any, right: Any, room: int, plan: Any) -> None:
    """Add to sums the weights of a step's rows times these rows; groups' are to be settled."""
    shape, right_at = plan.shape(room), plan.lines(plan.block, room)
    if plan.grouped:
        others = SharedMatrix(right, right_at)
        issue_mma(
            sums[0][0],
            [
                (
                    operand_of(weights[0], shape, "a", first=p),
                    others.tile((shape.k, shape.n), (p, 0)),
                )
                for p in range(0, plan.block, shape.k)
            ],
        )
        return
    piece = right_at.compose((shape.k, shape.n))
    for p in range(0, plan.block, shape.k):
        lefts = [operand_of(weights[i], shape, "a", first=p) for i in range(plan.high)]
        for j in range(room // shape.n):
            b = fragment(shape, "b").load(right.at(right_at(p, j * shape.n)), piece)
            for i in range(plan.high):
                mma(lefts[i], b, sums[i][j])


def settle(plan: Fragments, *sums: list[list[Fragment]]) -> None:
    """Wait for products that run beside the units, if they do."""
    if plan.grouped:
        wait_mma(*(made[0][0] for made in sums))


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
        shape = plan.shape(plan.block)
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
