"""Register tiles of attention on a CPU: small products, and scores in private memory.

Requirements: sums stay in registers and each vector of the right operand serves all rows, as in the
library's matrix products. The left operand is a tile just written to private memory. It is read by
rows or by columns, so that a block's weights serve as both. The forward pass and the gradients
compute the same scores from the same panels. Only blocks with a mask or a bias evaluate it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from calor.dtypes import DType, float32, float64
from calor_kernel import language as kl
from calor_kernel.library.attention.operands import KernelOperands, Rows, ScoreForm
from calor_kernel.library.math.base import exactly, format_of, polynomial
from calor_kernel.library.math.coefficients import EXP
from calor_kernel.library.math.exponential import LOG2_E, LOG_2

# Keys that are multiplied together if queries are few.
_TOGETHER = 4
# Below these the exponential is subnormal.
_ENDS = {float32: -87.0, float64: -708.0}


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles of ``rows`` queries by vectors: of keys, of a query's or of a value's features.

    Rooms are elements of private memory: for the keys of a block, the queries of a cube or block,
    the features of a query and those of a value. A turn of a product's loop has ``unroll`` terms.
    """

    lanes: int
    rows: int
    vectors: int
    feature_vectors: int
    value_vectors: int
    query_room: int
    key_room: int
    feature_room: int
    value_room: int
    unroll: int = 4

    @property
    def panel(self) -> int:
        """The keys of a panel."""
        return self.vectors * self.lanes


@dataclass(frozen=True, slots=True)
class Left:
    """A left operand in private memory: row r begins at ``starts[r]``, terms are ``step`` apart.

    A turn of a product's loop has ``unroll`` terms.
    """

    memory: kl.Pointer
    starts: Sequence[kl.Index]
    unroll: int
    step: int = 1


@kl.helper
def multiply(
    acc: kl.Registers,
    left: Left,
    right: kl.Pointer,
    at: kl.Index,
    right_step: kl.Index,
    count: kl.Number,
    masks: Sequence[kl.Number | None] | None = None,
) -> None:
    """Add ``count`` products to each sum.

    The right operand's rows are ``right_step`` apart from ``at`` on. Masked lanes are 0.
    """
    unroll = left.unroll
    main = count // unroll * unroll
    for p in kl.loop_range(0, main, unroll):
        # Known distances of a turn's steps need no instructions.
        left_now, right_now = p * left.step, at + p * right_step
        for u in range(unroll):
            at_left, at_right = left_now + u * left.step, right_now + u * right_step
            _add_products(acc, left, at_left, right, at_right, masks)
    if unroll > 1:
        for p in kl.loop_range(main, count):
            _add_products(acc, left, p * left.step, right, at + p * right_step, masks)


def _add_products(
    acc: kl.Registers,
    left: Left,
    left_at: kl.Index,
    right: kl.Pointer,
    at: kl.Index,
    masks: Sequence[kl.Number | None] | None,
) -> None:
    rows, vectors = acc.shape
    lanes = acc.type.width
    columns = [
        right.load(at + v * lanes, lanes, mask=None if masks is None else masks[v]).to(
            acc.type.dtype
        )
        for v in range(vectors)
    ]
    for r in range(rows):
        value = kl.splat(left.memory[left.starts[r] + left_at], lanes)
        for v in range(vectors):
            acc[r, v] = kl.fma(value, columns[v], acc[r, v])


def along(start: kl.Number, lanes: int) -> kl.Number:
    """Return the indices of a vector's elements from ``start`` on."""
    return kl.splat(start, lanes) + kl.constant(tuple(range(lanes)), start.dtype)


@dataclass(frozen=True, slots=True)
class Columns:
    """A right operand in global memory: rows of ``width`` elements, with vectors along them.

    Rows are ``row_step`` apart. Panels have a tile's width and are ``panel_step`` apart.
    ``ragged``: elements of the last panel beyond the width are masked; otherwise they exist.
    """

    memory: kl.Pointer
    at: kl.Index
    panel_step: kl.Index
    row_step: kl.Index
    width: kl.Index
    ragged: bool

    def multiply(
        self, acc: kl.Registers, left: Left, column: kl.Number, row: kl.Index, count: kl.Number
    ) -> None:
        """Add the products with ``count`` rows from ``row`` on, of the panel of a column."""
        _, vectors = acc.shape
        lanes = acc.type.width
        masks = None
        if self.ragged:
            masks = [along(column + v * lanes, lanes) < self.width for v in range(vectors)]
        at = self.at + column // (vectors * lanes) * self.panel_step + row * self.row_step
        multiply(acc, left, self.memory, at, self.row_step, count, masks)


@kl.helper
def copy_rows(
    rows: Rows,
    tile: kl.Pointer,
    room: int,
    places: Sequence[kl.Number],
    lanes: int,
    factor: kl.Number | float = 1.0,
    vectors: int = 1,
) -> None:
    """Copy rows to a tile, converted and scaled, with zeros up to whole ``vectors``."""
    span = lanes * vectors
    for p in kl.loop_range(0, (rows.width + span - 1) // span * span, lanes):
        place = along(p, lanes)
        inside = place < rows.width
        for r, row in enumerate(places):
            start = rows.at + row * rows.row_step
            if rows.contiguous:
                value = rows.memory.load(start + p, lanes, mask=inside)
            else:
                value = rows.memory.load(start + place * rows.step, mask=inside)
            tile.store(r * room + p, value.to(tile.dtype) * factor)


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of ``rows`` queries in private memory, ``stride`` apart, then their weights."""

    memory: kl.Pointer
    stride: int
    rows: int
    lanes: int
    unroll: int

    def load(self, r: kl.Index, column: kl.Index) -> kl.Number:
        """Return a vector of a row."""
        return self.memory.load(r * self.stride + column, self.lanes)

    def store(self, r: kl.Index, column: kl.Index, value: kl.Number) -> None:
        """Write a vector of a row."""
        self.memory.store(r * self.stride + column, value)

    def at(self, row: kl.Index) -> Scores:
        """Return the scores from a row on."""
        return replace(self, memory=self.memory.at(row * self.stride))

    @property
    def left(self) -> Left:
        """The rows as a left operand."""
        return Left(self.memory, [r * self.stride for r in range(self.rows)], self.unroll)


def scores_of(tiles: Tiles, queries: int, dtype: DType) -> Scores:
    """Return memory for the scores of some queries and a block of keys."""
    # One more vector, so that rows do not share sets of the cache.
    stride = tiles.key_room + tiles.lanes
    memory = kl.private(queries * stride, dtype, align=64)
    return Scores(memory, stride, tiles.rows, tiles.lanes, tiles.unroll)


@kl.helper
def score(
    scores: Scores, queries: kl.Pointer, room: int, panels: kl.Pointer, width: kl.Number,
    count: kl.Number, vectors: int,
) -> None:  # fmt: skip
    """Compute the scores of queries and ``count`` keys; the rest of a vector is undefined."""
    span = vectors * scores.lanes
    half = (vectors + 1) // 2
    for column in kl.loop_range(0, count, span):
        if (half < vectors) and (count - column <= half * scores.lanes):
            _score_panel(scores, queries, room, panels, width, column, half, span)
        else:
            _score_panel(scores, queries, room, panels, width, column, vectors, span)


@kl.helper
def _score_panel(
    scores: Scores, queries: kl.Pointer, room: int, panels: kl.Pointer, width: kl.Number,
    column: kl.Number, vectors: int, span: int,
) -> None:  # fmt: skip
    """Compute the scores of the first vectors of a panel, which begins with key ``column``."""
    acc = kl.registers((scores.rows, vectors), scores.memory.dtype, scores.lanes)
    left = Left(queries, [r * room for r in range(scores.rows)], scores.unroll)
    multiply(acc, left, panels, column * width, span, width)
    for r in range(scores.rows):
        for v in range(vectors):
            scores.store(r, column + v * scores.lanes, acc[r, v])


@kl.helper
def score_rows(
    scores: Scores, queries: kl.Pointer, room: int, keys: Rows, first: kl.Number, count: kl.Number
) -> None:
    """Compute the scores of few queries and keys from ``first`` on, read in place."""
    rows, lanes = scores.rows, scores.lanes
    together = kl.min(_TOGETHER, lanes)
    dtype = scores.memory.dtype
    for column in kl.loop_range(0, count, lanes):
        found: list[list[kl.Number]] = [[] for _ in range(rows)]
        for some in range(0, lanes, together):
            # Keys beyond the last are the last one; their scores are hidden later.
            starts = [
                keys.at + (first + kl.min(column + (some + i), count - 1)) * keys.row_step
                for i in range(together)
            ]
            acc = kl.registers((rows, together), dtype, lanes)
            for p in kl.loop_range(0, keys.width, lanes):
                inside = along(p, lanes) < keys.width
                given = [
                    keys.memory.load(start + p, lanes, mask=inside).to(dtype) for start in starts
                ]
                for r in range(rows):
                    value = queries.load(r * room + p, lanes)
                    for i in range(together):
                        acc[r, i] = kl.fma(value, given[i], acc[r, i])
            for r in range(rows):
                found[r] += [acc[r, i] for i in range(together)]
        for r in range(rows):
            scores.store(r, column, _sums_of(found[r]))


def _sums_of(vectors: list[kl.Number]) -> kl.Number:
    """Return a vector of the sums of each vector's lanes."""
    half = len(vectors) // 2
    while half:
        low = [i for i in range(2 * vectors[0].width) if i % (2 * half) < half]
        vectors = [
            kl.shuffle(a, low, b) + kl.shuffle(a, [i + half for i in low], b)
            for a, b in zip(vectors[::2], vectors[1::2], strict=True)
        ]
        half //= 2
    return vectors[0]


@dataclass(frozen=True, slots=True)
class VisibleKeys:
    """The visible keys of queries: ``count`` keys from ``begin`` on, and queries ``places``."""

    g: KernelOperands
    form: ScoreForm
    n: kl.Index
    head: kl.Index
    places: list[kl.Number]
    begin: kl.Number
    count: kl.Number

    @kl.helper
    def clear(self, lanes: int) -> kl.Number:
        """Return the first key of the block that a mask or bias may concern."""
        if self.form.kinds:
            return self.count * 0
        clear = self.count
        if self.form.causal:
            clear = kl.min(self.count, self.places[0] + 1 - self.begin)
        return kl.max(clear // lanes * lanes, 0)

    def adjust(self, x: kl.Number, r: int, column: kl.Number) -> kl.Number:
        """Return a vector of scores with biases, and −inf for hidden scores."""
        lanes = x.width
        key = along(self.begin + column, lanes)
        inside = along(column, lanes) < self.count
        loaded = []
        for extra, step in zip(self.g.extras, self.form.steps, strict=True):
            memory, steps = extra.memory, extra.strides
            at = self.n * steps[0] + self.head * steps[1] + self.places[r] * steps[2]
            if step == 0:
                loaded.append(kl.splat(memory[at], lanes))
            elif step == 1:
                loaded.append(memory.load(at + self.begin + column, lanes, mask=inside))
            else:
                loaded.append(memory.load(at + key * steps[3], mask=inside))
        for kind, value in zip(self.form.kinds, loaded, strict=True):
            if kind == "bias":
                x = x + value.to(x.dtype)
            else:
                inside = inside & value
        if self.form.causal:
            inside = inside & (key <= self.places[r])
        return kl.select(inside, x, -math.inf)


@exactly
def weight(x: kl.Number) -> kl.Number:
    """Return e**x of x ≤ 0, within an ulp; NaN for NaN, and 0 for subnormal results.

    The largest weight of a row is 1, so smaller numbers do not matter, and without the range checks
    of the library's function it costs a third less.
    """
    form = format_of(x)
    # The low bits of the sum hold the integer nearest to x / log 2, plus the bias.
    magic = form.magic + form.bias
    total = kl.fma(x, LOG2_E, magic)
    n = total - magic
    first, second = LOG_2[form.number]
    r = kl.fma(n, -second, kl.fma(n, -first, x))
    p = kl.fma(r * r, polynomial(r, EXP[form.number]), r) + 1.0
    power = kl.bitcast(kl.bitcast(total, form.signed) << form.fraction, form.dtype)
    return kl.select(x < _ENDS[form.dtype], 0.0, p * power)
