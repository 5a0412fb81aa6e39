"""Attention of wide rows by products in memory: scores, their rows, and the products with weights.

Requirements: tiles of wide rows do not fit registers and shared memory of a cube, so a kernel that
keeps scores there multiplies few rows at a time. The family of products has large tiles, for any
layout of the operands. Scores take less traffic than they save as long as there are few keys beside
the elements of a row; batches are computed one after another if scores of all need much memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Final

from calor.dtypes import DType
from calor.specs import spec
from calor_kernel import language as kl
from calor_kernel.contract.choices import is_size
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple
from calor_kernel.contract.work import Argument, Input, Output, Request, Scratch, View, Work
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.attention.operands import ScoreForm, operands_of
from calor_kernel.library.attention.problem import Attention
from calor_kernel.library.attention.score_rows import (
    differentiate_scores,
    round_result,
    weigh_scores,
)
from calor_kernel.library.steps import Steps

# The widest row whose tiles fit a cube, and the most keys for each element of a row.
_NARROW: Final = 128
_KEYS: Final = 8
# Maximum of bytes of scores that are in memory together, and of those of a batch.
_TOGETHER: Final = 256 << 20
_MOST: Final = 1 << 30
# Minimum of units, for products by tiles of a cube; the planes of a cube of rows.
_UNITS: Final = 64
_PLANES: Final = 4
# Units of a cube that rounds results.
_ROUNDING: Final = 64
# Alignment of a batch's results, bytes of an access, and operations of a weight and its gradient.
_ALIGNED: Final = 16
_ACCESS: Final = 16
_WEIGHING: Final = 20
# The axes of grouped operands: batch, key head, its query heads, rows, elements.
_BATCH: Final = ((0, 1), (0, 1))
Axes = tuple[int, ...]


def products_refusal(problem: Attention, request: Request) -> str | None:
    """Return why products in memory do not suit the device or the problem."""
    p, info = problem, request.info
    sizes = (p.batch, p.heads, p.queries, p.keys, p.features, p.values)
    if info.max_units < _UNITS or not info.has("planes"):
        return "the device has no planes, or no cubes for tiles"
    if any(map(is_size, sizes)):
        return "sizes are not known"
    if not all(sizes):
        return "an axis is empty"
    width = max(p.features, p.values)
    if width <= _NARROW:
        return "rows are narrow enough for tiles of a cube"
    if p.keys > _KEYS * width:
        return "scores take more traffic than they save"
    if _bytes_of_scores(p) > _MOST:
        return "scores of one batch need too much memory"
    if any(p.turned) and p.heads > 1:
        return "its results are dense"
    if len(request.inputs[1].shape) > 3 and request.op != "attention":
        return "it takes delta, not the result"
    if _count(p) < p.batch and any(n * p.dtype.itemsize % _ALIGNED for n in _steps(p)):
        return "results of a batch do not begin at whole accesses"
    return None


def _bytes_of_scores(problem: Attention) -> int:
    p = problem
    return p.heads * p.queries * p.keys * int(p.accumulate.itemsize)


def _count(problem: Attention) -> int:
    """Return the number of batches that are computed together."""
    return max(1, min(problem.batch, _TOGETHER // _bytes_of_scores(problem)))


def _steps(problem: Attention) -> tuple[int, int, int, int]:
    """Return the elements of a batch of each result, and of the logarithms of the rows."""
    p = problem
    rows, keys = p.heads * p.queries, p.key_heads * p.keys
    return rows * p.features, keys * p.features, keys * p.values, rows * p.values


@dataclass(frozen=True, slots=True)
class _Part:
    """The batches from ``first`` on, ``count`` of them, and the launches so far.

    ``spare``: scratch memory of products before.
    """

    problem: Attention
    request: Request
    steps: Steps
    first: int
    count: int
    spare: list[Scratch]

    @property
    def shape(self) -> tuple[int, ...]:
        """The axes of scores: batch, key head, its query heads, queries and keys."""
        p = self.problem
        return self.count, p.key_heads, p.group, p.queries, p.keys

    def rows(self, number: int) -> tuple[View, Argument]:
        """Return an operand with a row for each query, its heads grouped by their key head."""
        view, p = self.request.inputs[number], self.problem
        n, head, row, element = view.strides
        shape = (*self.shape[:4], view.shape[3])
        strides = n, head * p.group, head, row, element
        return View(shape, strides, view.dtype, view.offset + self.first * n), Input(number)

    def keys(self, number: int) -> tuple[View, Argument]:
        """Return an operand with a row for each key."""
        view = self.request.inputs[number]
        shape = (self.count, *view.shape[1:])
        offset = view.offset + self.first * view.strides[0]
        return View(shape, view.strides, view.dtype, offset), Input(number)

    def result(self, number: int, width: int) -> Output:
        """Return this part of a result with ``width`` elements of a batch."""
        return Output(number, self.first * width)

    def multiply(
        self, a: tuple[View, Argument], b: tuple[View, Argument], contract: tuple[Axes, Axes],
        dtype: DType, result: Argument,
    ) -> None:  # fmt: skip
        """Add the products of two operands over some axes of each."""
        left, right = a[0].shape, b[0].shape
        free = [n for i, n in enumerate(left) if i > 1 and i not in contract[0]]
        free += [n for i, n in enumerate(right) if i > 1 and i not in contract[1]]
        made = spec((*left[:2], *free), dtype)
        attributes = {"contract": contract, "batch": _BATCH}
        if "precision" in self.request.attributes:
            attributes["precision"] = self.request.attributes["precision"]
        target = [(made, result)]
        self.steps.include(self.request, "dot_general", attributes, [a, b], target, self.spare)

    def follow(self, kernel: KernelFunction, label: str, moved: int, **own: object) -> None:
        """Add a launch on the rows of scores, which moves ``moved`` bytes for each score."""
        p, info = self.problem, self.request.info
        rows, width = prod(self.shape[:4]), _ACCESS // int(p.accumulate.itemsize)
        plane = info.planes[0]
        planes = max(1, min(_PLANES, info.max_units // plane))
        scores = rows * p.keys
        spans = [sum((n - 1) * abs(s) for n, s in zip(v.shape, v.strides, strict=True))
                 for v in self.request.inputs]  # fmt: skip
        self.steps.add(
            kernel,
            Grid.line(-(-rows // planes), planes * plane, plane, kl.index_dtype(scores, *spans)),
            Effort(label, _WEIGHING * scores, moved * scores),
            rows=rows, first=self.first, g=operands_of(p),
            width=width if p.keys % width == 0 else 1,
            form=ScoreForm(p.kinds, p.causal), **own,
        )  # fmt: skip

    def end(
        self, weights: tuple[View, Argument], values: tuple[View, Argument], sums: Scratch | None
    ) -> None:
        """Add the products of weights with values; with ``sums`` what rounding drops is kept."""
        p, width = self.problem, _steps(self.problem)[3]
        contract, out = ((4,), (2,)), self.result(0, width)
        if sums is None:
            self.multiply(weights, values, contract, p.dtype, out)
            return
        self.multiply(weights, values, contract, p.accumulate, sums)
        rest, count = self.result(2, width), self.count * width
        vector = next(n for n in (4, 2, 1) if width % n == 0)
        self.steps.add(
            round_result,
            Grid.line(-(-count // (vector * _ROUNDING)), _ROUNDING, self.request.info.planes[0]),
            Effort("attention result", 2 * count, (4 + 2 * p.dtype.itemsize) * count),
            x=Bound(sums, p.accumulate, _ACCESS),
            out=Bound(out, p.dtype, vector * p.dtype.itemsize),
            rest=Bound(rest, p.dtype, vector * p.dtype.itemsize),
            count=Multiple(count, vector),
            width=vector,
        )

    def factors(self, place: Scratch) -> tuple[View, Argument]:
        """Return weights or gradients of scores, as factors of products."""
        return View.dense(spec(self.shape, self.problem.dtype)), place


def _parts(problem: Attention, request: Request, steps: Steps) -> Iterator[_Part]:
    """Yield the parts of the batch; those after the first use its memory for products."""
    count, spare = _count(problem), list[Scratch]()
    for first in range(0, problem.batch, count):
        yield _Part(problem, request, steps, first, min(count, problem.batch - first), spare)


def _rooms(problem: Attention, steps: Steps) -> tuple[Scratch, Scratch | None]:
    """Return memory for scores, and for factors of another dtype, None if they have the same."""
    p = problem
    scores = _count(p) * p.heads * p.queries * p.keys
    of_scores = steps.memory(scores * int(p.accumulate.itemsize))
    same = p.accumulate is p.dtype
    return of_scores, None if same else steps.memory(scores * int(p.dtype.itemsize))


def forward_by_products(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the work of the forward pass."""
    p, steps = problem, Steps()
    scores, weights = _rooms(p, steps)
    query, key, value = p.query.number, p.key.number, p.value.number
    kept = request.attributes.get("keep", False)
    sums = steps.memory(_count(p) * _steps(p)[3] * int(p.accumulate.itemsize)) if kept else None
    moved = int(p.accumulate.itemsize + p.dtype.itemsize)
    for part in _parts(p, request, steps):
        part.multiply(part.rows(query), part.keys(key), ((4,), (3,)), p.accumulate, scores)
        part.follow(
            weigh_scores,
            "attention weights",
            moved,
            scores=Bound(scores, p.accumulate, _ACCESS),
            weights=None if weights is None else Bound(weights, p.dtype, _ACCESS),
            total=Bound(Output(1), p.accumulate),
        )
        factors = part.factors(scores if weights is None else weights)
        part.end(factors, part.keys(value), sums)
    yield steps.work("products")


def gradients_by_products(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the work of the gradients of query, key and value."""
    p, steps = problem, Steps()
    scores, weights = _rooms(p, steps)
    products, gradients = _rooms(p, steps)
    query, key, value = p.query.number, p.key.number, p.value.number
    moved = 2 * int(p.accumulate.itemsize + p.dtype.itemsize)
    of_query, of_key, of_value, _ = _steps(p)

    def bound(place: Scratch | None) -> Bound | None:
        return None if place is None else Bound(place, p.dtype, _ACCESS)

    for part in _parts(p, request, steps):
        part.multiply(part.rows(query), part.keys(key), ((4,), (3,)), p.accumulate, scores)
        part.multiply(part.rows(0), part.keys(value), ((4,), (3,)), p.accumulate, products)
        part.follow(
            differentiate_scores,
            "attention gradient of scores",
            moved,
            scores=Bound(scores, p.accumulate, _ACCESS),
            products=Bound(products, p.accumulate, _ACCESS),
            weights=bound(weights),
            gradients=bound(gradients),
            delta=Bound(Input(1, request.inputs[1].offset), p.accumulate),
            total=Bound(Input(2, request.inputs[2].offset), p.accumulate),
        )
        powers = part.factors(scores if weights is None else weights)
        inner = part.factors(products if gradients is None else gradients)
        part.multiply(inner, part.keys(key), ((4,), (2,)), p.dtype, part.result(0, of_query))
        both = (2, 3), (2, 3)
        part.multiply(inner, part.rows(query), both, p.dtype, part.result(1, of_key))
        part.multiply(powers, part.rows(0), both, p.dtype, part.result(2, of_value))
    yield steps.work("products")
