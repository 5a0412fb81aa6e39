"""Scores of some queries and a block of keys, in memory of one unit, with masks and biases.

Requirements: the forward pass and the gradients compute the same scores from the same panels. Only
blocks with a mask or a bias evaluate it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from calor_kernel.language import fma, helper, loop_range, registers, select, shuffle, splat
from calor_kernel.library.attention.cpu_register_tiles import Rows, along, multiply
from calor_kernel.library.attention.problem import Given

# Keys that are multiplied together if queries are few.
_TOGETHER = 4


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of ``rows`` queries in private memory, ``stride`` apart, then their weights."""

    memory: Any
    stride: int
    rows: int
    lanes: int

    def load(self, r: int, column: Any) -> Any:
        """Return a vector of a row."""
        return self.memory.load(r * self.stride + column, self.lanes)

    def store(self, r: int, column: Any, value: Any) -> None:
        """Write a vector of a row."""
        self.memory.store(r * self.stride + column, value)

    def at(self, row: Any) -> Scores:
        """Return the scores from a row on."""
        return Scores(self.memory.at(row * self.stride), self.stride, self.rows, self.lanes)

    @property
    def starts(self) -> list[int]:
        """The starts of the rows."""
        return [r * self.stride for r in range(self.rows)]


@helper
def score(
    scores: Scores, queries: Any, room: int, panels: Any, features: Any, count: Any, vectors: int
) -> None:
    """Compute the scores of queries and ``count`` keys; the rest of a vector is undefined."""
    width = vectors * scores.lanes
    half = (vectors + 1) // 2
    for column in loop_range(0, count, width):
        if (half < vectors) and (count - column <= half * scores.lanes):
            score_tile(scores, queries, room, panels, features, column, half, width)
        else:
            score_tile(scores, queries, room, panels, features, column, vectors, width)


@helper
def score_rows(scores: Scores, queries: Any, room: int, keys: Rows, first: Any, count: Any) -> None:
    """Compute the scores of few queries and keys from ``first`` on, read in place."""
    rows, lanes = scores.rows, scores.lanes
    together = min(_TOGETHER, lanes)
    dtype = scores.memory.dtype
    for column in loop_range(0, count, lanes):
        found: list[list[Any]] = [[] for _ in range(rows)]
        for some in range(0, lanes, together):
            # Keys beyond the last are the last one; their scores are hidden later.
            starts = [
                keys.at + (first + min(column + (some + i), count - 1)) * keys.row_step
                for i in range(together)
            ]
            acc = registers((rows, together), dtype, lanes)
            for p in loop_range(0, keys.width, lanes):
                inside = along(p, lanes) < keys.width
                given = [
                    keys.memory.load(start + p, lanes, mask=inside).to(dtype) for start in starts
                ]
                for r in range(rows):
                    value = queries.load(r * room + p, lanes)
                    for i in range(together):
                        acc[r, i] = fma(value, given[i], acc[r, i])
            for r in range(rows):
                found[r] += [acc[r, i] for i in range(together)]
        for r in range(rows):
            scores.store(r, column, sums_of(found[r]))


def sums_of(vectors: list[Any]) -> Any:
    """Return a vector of the sums of each vector's lanes."""
    half = len(vectors) // 2
    while half:
        low = [i for i in range(2 * vectors[0].width) if i % (2 * half) < half]
        vectors = [
            shuffle(a, low, b) + shuffle(a, [i + half for i in low], b)
            for a, b in zip(vectors[::2], vectors[1::2], strict=True)
        ]
        half //= 2
    return vectors[0]


@helper
def score_tile(
    scores: Scores,
    queries: Any,
    room: int,
    panels: Any,
    features: Any,
    column: Any,
    vectors: int,
    width: int,
) -> None:
    """Compute the scores of the first vectors of a panel, which begins with key ``column``."""
    rows, lanes = scores.rows, scores.lanes
    acc = registers((rows, vectors), scores.memory.dtype, lanes)
    starts = [r * room for r in range(rows)]
    masks = [None] * vectors
    multiply(acc, queries, starts, 1, panels, column * features, width, features, masks)
    for r in range(rows):
        for v in range(vectors):
            scores.store(r, column + v * lanes, acc[r, v])


@dataclass(frozen=True, slots=True)
class Seen:
    """The visible keys of queries: ``count`` keys from ``begin`` on, and queries ``places``."""

    g: Given
    n: Any
    head: Any
    places: list[Any]
    begin: Any
    count: Any
    kinds: tuple[str, ...]
    steps: tuple[int, ...]
    causal: bool

    @helper
    def clear(self, lanes: int) -> Any:
        """Return the first key of the block that a mask or bias may concern."""
        if self.kinds:
            return self.count * 0
        clear = min(self.count, self.places[0] + 1 - self.begin) if self.causal else self.count
        return max(clear // lanes * lanes, 0)

    def adjust(self, x: Any, r: int, column: Any) -> Any:
        """Return a vector of scores with biases, and −inf for hidden scores."""
        g, lanes = self.g, x.width
        key = along(self.begin + column, lanes)
        inside = along(column, lanes) < self.count
        loaded = []
        for (memory, strides), step in zip(g.extras, self.steps, strict=True):
            at = self.n * strides[0] + self.head * strides[1] + self.places[r] * strides[2]
            if step == 0:
                loaded.append(splat(memory[at], lanes))
            elif step == 1:
                loaded.append(memory.load(at + self.begin + column, lanes, mask=inside))
            else:
                loaded.append(memory.load(at + key * strides[3], mask=inside))
        for kind, value in zip(self.kinds, loaded, strict=True):
            if kind == "bias":
                x = x + value.to(x.dtype)
            else:
                inside = inside & value
        if self.causal:
            inside = inside & (key <= self.places[r])
        return select(inside, x, -math.inf)
