"""Attention of few queries and keys, and its gradients, on a CPU: a lane for each head.

Requirements: a head of eight queries and keys of four features fills neither the lanes along its
keys nor those along its features, and each of its rows needs a logarithm and a division. Here a
vector holds one element of as many heads, so all lanes work, and a causal head computes visible
scores alone. The elements of a group of heads are copied to private memory once. Products are
tiles of queries, keys or features in registers. All keys fit, so the softmax needs one pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.attention.cpu_tiles import along, weight
from calor_kernel.library.attention.operands import (
    KernelOperands,
    ScoreForm,
    Upstream,
    extras_of,
    finite,
)
from calor_kernel.library.attention.problem import ResultSteps, dropped
from calor_kernel.library.math import exp, log

# Rows and columns of a tile of a product in registers.
TILE: Final = 4


@dataclass(frozen=True, slots=True)
class Rooms:
    """The elements of a head for which private memory has room, and the heads of a vector."""

    lanes: int
    queries: int
    keys: int
    features: int
    values: int


@dataclass(frozen=True, slots=True)
class Held:
    """A matrix of each head in private memory, a vector for an element.

    A row begins ``row`` vectors after the one before it, and an element ``step`` vectors.
    """

    memory: kl.Pointer
    lanes: int
    row: int
    step: int = 1

    def load(self, row: kl.Index, column: kl.Index) -> kl.Number:
        """Return an element of all heads."""
        return self.memory.load((row * self.row + column * self.step) * self.lanes, self.lanes)

    def store(self, row: kl.Index, column: kl.Index, value: kl.Number) -> None:
        """Write an element of all heads."""
        self.memory.store((row * self.row + column * self.step) * self.lanes, value)

    @property
    def turned(self) -> Held:
        """The transposed matrix."""
        return Held(self.memory, self.lanes, self.step, self.row)


def held(rows: int, columns: int, lanes: int, dtype: DType) -> Held:
    """Return room for a matrix of each head."""
    return Held(kl.private(rows * columns * lanes, dtype, align=64), lanes, columns)


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of a vector: their numbers, batches and positions.

    Behind the last head it stands again: what it computes is written once more.
    """

    numbers: kl.Number
    batch: kl.Number
    head: kl.Number


@kl.helper
def heads_of_cube(heads: kl.Number, matrices: kl.Number, lanes: int) -> Heads:
    """Return the heads of a cube, of all ``matrices``."""
    places = along(kl.cube_position(0) * lanes, lanes)
    numbers = kl.select(places < matrices, places, matrices - 1)
    batch = numbers // heads
    return Heads(numbers, batch, numbers - batch * heads)


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix of each head in global memory: where it begins, its strides and its sizes.

    ``contiguous``: ``step`` is 1. Then rows are read in pieces and transposed, since the same
    element of heads that lie powers of two apart falls into few sets of a cache.
    """

    memory: kl.Pointer
    at: kl.Number
    row: kl.Index
    step: kl.Index
    rows: kl.Index
    width: kl.Index
    contiguous: bool = True

    @kl.helper
    def take(self, to: Held, factor: kl.Number | float = 1.0) -> None:
        """Copy the matrices to private memory, scaled, up to whole tiles of finite numbers."""
        for r in kl.loop_range(0, (self.rows + TILE - 1) // TILE * TILE):
            for p in kl.loop_range(0, self.width, TILE):
                for j, value in enumerate(self.columns(r, p)):
                    to.store(r, p + j, value.to(to.memory.dtype) * factor)

    @kl.helper
    def columns(self, row: kl.Number, column: kl.Number) -> list[kl.Number]:
        """Return the elements of a tile of a row."""
        lanes = self.at.width
        line = kl.min(row, self.rows - 1) * self.row
        if not self.contiguous:
            places = [kl.min(column + j, self.width - 1) * self.step for j in range(TILE)]
            return [self.memory.load(self.at + (line + place)) for place in places]
        inside = along(column, TILE) < self.width
        pieces = [
            self.memory.load(self.at[h] + line + column, TILE, mask=inside) for h in range(lanes)
        ]
        return crossed([_joined(pieces[i::TILE]) for i in range(TILE)])

    @kl.helper
    def put(self, row: kl.Number, column: kl.Number, values: kl.Registers) -> None:
        """Write a tile; what lies behind the matrix is left out."""
        inside = along(column, TILE) < self.width
        for i in range(TILE):
            if row + i < self.rows:
                given = [values[i, j].to(self.memory.dtype) for j in range(TILE)]
                for r, some in enumerate(crossed(given)):
                    for h in range(0, some.width, TILE):
                        piece = kl.shuffle(some, list(range(h, h + TILE)))
                        place = self.at[r + h] + (row + i) * self.row + column
                        self.memory.store(place, piece, mask=inside)


def crossed(vectors: list[kl.Number]) -> list[kl.Number]:
    """Return vectors whose squares of TILE by TILE elements are transposed."""
    made, lanes = list(vectors), vectors[0].width
    for step in (1 << k for k in range(TILE.bit_length() - 1)):
        for i in (i for i in range(TILE) if not i & step):
            a, b = made[i], made[i | step]
            low = [lanes + n - step if n & step else n for n in range(lanes)]
            high = [lanes + n if n & step else n + step for n in range(lanes)]
            made[i], made[i | step] = kl.shuffle(a, low, b), kl.shuffle(a, high, b)
    return made


def _joined(pieces: list[kl.Number]) -> kl.Number:
    """Return the elements of vectors, one after another."""
    while len(pieces) > 1:
        pairs = zip(pieces[::2], pieces[1::2], strict=True)
        pieces = [kl.shuffle(a, list(range(2 * a.width)), b) for a, b in pairs]
    return pieces[0]


@kl.helper
def multiply(
    left: Held, row: kl.Number, right: Held, column: kl.Number, start: kl.Index, count: kl.Index
) -> kl.Registers:
    """Return a tile of the product of rows with rows, of the terms from ``start`` to ``count``."""
    acc = kl.registers((TILE, TILE), left.memory.dtype, left.lanes)
    for t in kl.loop_range(start, count):
        rows = [left.load(row + i, t) for i in range(TILE)]
        for j in range(TILE):
            other = right.load(column + j, t)
            for i in range(TILE):
                acc[i, j] = kl.fma(rows[i], other, acc[i, j])
    return acc


@kl.helper
def adjusted(
    x: kl.Number, g: KernelOperands, form: ScoreForm, heads: Heads, i: kl.Number, j: kl.Number
) -> kl.Number:
    """Return scores of query i and key j with biases, and −inf for hidden ones.

    Behind the last query and key these stand again.
    """
    row, key = kl.min(i, g.queries - 1), kl.min(j, g.keys - 1)
    extras = extras_of(True, g, form, heads.batch, heads.head, row, key) if form.kinds else []
    for kind, extra in zip(form.kinds, extras, strict=True):
        if kind == "bias":
            x = x + extra.to(x.dtype)
        else:
            x = kl.select(extra, x, -math.inf)
    if form.causal:
        x = kl.select(kl.splat(j <= i, x.width), x, -math.inf)
    return x


@kl.helper
def end_of_keys(g: KernelOperands, form: ScoreForm, row: kl.Number) -> kl.Number:
    """Return the keys that the queries of a tile see."""
    return kl.min(g.keys, row + TILE) if form.causal else g.keys


@kl.kernel
def attend_heads(
    out: kl.Out,
    total: kl.Out,
    rest: kl.Out | None,
    matrices: kl.Size,
    value_width: kl.Size,
    steps: ResultSteps[kl.Number] | None,
    rest_steps: ResultSteps[kl.Number] | None,
    g: KernelOperands,
    *,
    rooms: Rooms,
    form: ScoreForm,
) -> None:
    """Compute all rows of the query heads of a cube."""
    dtype, lanes = total.dtype, rooms.lanes
    heads = heads_of_cube(g.heads, matrices, lanes)
    queries = held(rooms.queries, rooms.features, lanes, dtype)
    keys = held(rooms.keys, rooms.features, lanes, dtype)
    values = held(rooms.keys, rooms.values, lanes, dtype)
    weights = held(TILE, rooms.keys, lanes, dtype)
    query, key, value = matrices_of(g, form, heads, heads.head // g.group, value_width)
    query.take(queries, g.scale)
    key.take(keys)
    value.take(values)
    result = result_of(out, heads, g.queries, value_width, steps)
    for row in kl.loop_range(0, g.queries, TILE):
        end = end_of_keys(g, form, row)
        tops = kl.registers((TILE,), dtype, lanes, fill=-math.inf)
        for column in kl.loop_range(0, end, TILE):
            scores = multiply(queries, row, keys, column, 0, g.features)
            for j in range(TILE):
                if column + j < end:
                    for i in range(TILE):
                        x = adjusted(scores[i, j], g, form, heads, row + i, column + j)
                        tops[i] = kl.select(x > tops[i], x, tops[i])
                        weights.store(i, column + j, x)
        shifts = [finite(tops[i]) for i in range(TILE)]
        powers = kl.registers((TILE,), dtype, lanes)
        for column in kl.loop_range(0, end):
            for i in range(TILE):
                x = weight(weights.load(i, column) - shifts[i])
                powers[i] = powers[i] + x
                weights.store(i, column, x)
        unders = []
        for i in range(TILE):
            unders.append(1.0 / kl.select(powers[i] > 0.0, powers[i], 1.0))
            if row + i < g.queries:
                at = heads.numbers * g.queries + (row + i)
                total.store(at, shifts[i] + log(powers[i]))
        for column in kl.loop_range(0, value_width, TILE):
            acc = multiply(weights, row * 0, values.turned, column, 0, end)
            for i in range(TILE):
                for j in range(TILE):
                    acc[i, j] = acc[i, j] * unders[i]
            result.put(row, column, acc)
            if rest is not None:
                for i in range(TILE):
                    for j in range(TILE):
                        acc[i, j] = dropped(acc[i, j], out.dtype).to(dtype)
                left = result_of(rest, heads, g.queries, value_width, rest_steps)
                left.put(row, column, acc)


@kl.helper
def matrices_of(
    g: KernelOperands, form: ScoreForm, heads: Heads, key_head: kl.Number, value_width: kl.Number
) -> tuple[Matrix, Matrix, Matrix]:
    """Return the queries, keys and values of heads."""
    made = []
    for memory, steps, head, rows, width, contiguous in (
        (g.query, g.query_strides, heads.head, g.queries, g.features, form.contiguous[0]),
        (g.key, g.key_strides, key_head, g.keys, g.features, form.contiguous[1]),
        (g.value, g.value_strides, key_head, g.keys, value_width, form.contiguous[2]),
    ):
        at = heads.batch * steps[0] + head * steps[1]
        made.append(Matrix(memory, at, steps[2], steps[3], rows, width, contiguous))
    query, key, value = made
    return query, key, value


@kl.helper
def result_of(
    memory: kl.Pointer,
    heads: Heads,
    rows: kl.Number,
    width: kl.Number,
    steps: ResultSteps[kl.Number] | None,
) -> Matrix:
    """Return where heads write a result, which is dense without ``steps``."""
    if steps is None:
        return Matrix(memory, heads.numbers * (rows * width), width, 1, rows, width)
    return Matrix(memory, steps.at(heads.batch, heads.head, 0), steps.row, 1, rows, width)


@kl.helper
def rows_of(
    memory: kl.Pointer,
    strides: tuple[kl.Number, ...],
    heads: Heads,
    rows: kl.Number,
    width: kl.Number,
) -> Matrix:
    """Return a result of the forward pass or its gradient, which is dense without ``strides``."""
    if not strides:
        return result_of(memory, heads, rows, width, None)
    at = heads.batch * strides[0] + heads.head * strides[1]
    return Matrix(memory, at, strides[2], 1, rows, width)


@kl.helper
def add_products(sums: Held, upward: Held, results: list[Matrix]) -> None:
    """Write each row's sum of products of the upstream gradient and the result, in parts."""
    first = results[0]
    for row in kl.loop_range(0, (first.rows + TILE - 1) // TILE * TILE):
        total = kl.registers((1,), upward.memory.dtype, upward.lanes)
        for column in kl.loop_range(0, first.width, TILE):
            for j, value in enumerate(sum_of(results, row, column, upward.memory.dtype)):
                total[0] = kl.fma(value, upward.load(row, column + j), total[0])
        sums.store(0, row, total[0])


@kl.helper
def sum_of(parts: list[Matrix], row: kl.Number, column: kl.Number, dtype: DType) -> list[kl.Number]:
    """Return the elements of a tile of a row that are in parts."""
    made = [[value.to(dtype) for value in part.columns(row, column)] for part in parts]
    return [
        values[0] if len(values) == 1 else values[0] + values[1]
        for values in zip(*made, strict=True)
    ]


@kl.kernel
def gradient_heads(
    up: Upstream[kl.Pointer],
    for_query: kl.Out,
    for_key: kl.Out,
    for_value: kl.Out,
    matrices: kl.Size,
    value_width: kl.Size,
    query_steps: ResultSteps[kl.Number] | None,
    key_steps: ResultSteps[kl.Number] | None,
    value_steps: ResultSteps[kl.Number] | None,
    g: KernelOperands,
    *,
    rooms: Rooms,
    form: ScoreForm,
) -> None:
    """Compute the gradients of the heads of a cube; each query head has a key head."""
    dtype, lanes = up.total.dtype, rooms.lanes
    heads = heads_of_cube(g.heads, matrices, lanes)
    queries = held(rooms.queries, rooms.features, lanes, dtype)
    keys = held(rooms.keys, rooms.features, lanes, dtype)
    values = held(rooms.keys, rooms.values, lanes, dtype)
    upward = held(rooms.queries, rooms.values, lanes, dtype)
    weights = held(rooms.queries, rooms.keys, lanes, dtype)
    slopes = held(rooms.queries, rooms.keys, lanes, dtype)
    query, key, value = matrices_of(g, form, heads, heads.head, value_width)
    query.take(queries, g.scale)
    key.take(keys)
    value.take(values)
    upstream = rows_of(up.gradient, up.strides, heads, g.queries, value_width)
    upstream.take(upward)
    deltas = held(1, rooms.queries, lanes, dtype)
    if up.result:
        results = [rows_of(up.delta, up.result, heads, g.queries, value_width)]
        if up.rest is not None:
            results.append(rows_of(up.rest, up.rest_steps, heads, g.queries, value_width))
        add_products(deltas, upward, results)
    target = result_of(for_query, heads, g.queries, g.features, query_steps)
    for row in kl.loop_range(0, g.queries, TILE):
        end = end_of_keys(g, form, row)
        rows = [heads.numbers * g.queries + kl.min(row + i, g.queries - 1) for i in range(TILE)]
        shifts = [finite(up.total.load(at)) for at in rows]
        slips = [
            deltas.load(0, row + i) if up.result else up.delta.load(rows[i]) for i in range(TILE)
        ]
        for column in kl.loop_range(0, end, TILE):
            scores = multiply(queries, row, keys, column, 0, g.features)
            rises = multiply(upward, row, values, column, 0, value_width)
            for j in range(TILE):
                for i in range(TILE):
                    x = adjusted(scores[i, j], g, form, heads, row + i, column + j)
                    x = exp(x - shifts[i])
                    weights.store(row + i, column + j, x)
                    slopes.store(row + i, column + j, x * (rises[i, j] - slips[i]))
        for column in kl.loop_range(0, g.features, TILE):
            acc = multiply(slopes, row, keys.turned, column, 0, end)
            for i in range(TILE):
                for j in range(TILE):
                    acc[i, j] = acc[i, j] * g.scale
            target.put(row, column, acc)
    pairs = (
        (for_key, key_steps, slopes, queries, g.features),
        (for_value, value_steps, weights, upward, value_width),
    )
    for memory, steps, left, right, width in pairs:
        to = result_of(memory, heads, g.keys, width, steps)
        for row in kl.loop_range(0, g.keys, TILE):
            # The tile of queries that first sees the keys of this one.
            start = kl.min(row, g.queries) if form.causal else row * 0
            for column in kl.loop_range(0, width, TILE):
                acc = multiply(left.turned, row, right.turned, column, start, g.queries)
                to.put(row, column, acc)
