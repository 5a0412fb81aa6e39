"""Rows of scores in memory: their weights, and their gradients.

Requirements: a plane computes a row, whose scores are products that other launches wrote. Results
of the scores' own dtype replace them. A unit writes only what it has read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from calor_kernel import language as kl
from calor_kernel.language.loops import DeviceRange
from calor_kernel.library.attention.operands import KernelOperands, ScoreForm, finite, visible
from calor_kernel.library.attention.problem import dropped
from calor_kernel.library.math import exp, log


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A plane's row of ``scores``: that of a query of a head of batch ``n``, or none.

    ``width``: the scores of an access. ``end``: the keys, 0 if there is no row.
    """

    scores: kl.Pointer
    at: kl.Number
    place: tuple[kl.Number, kl.Number, kl.Number]
    end: kl.Number
    width: int

    def accesses(self) -> DeviceRange:
        """Return the first keys of a lane's accesses."""
        first, step = kl.lane_position() * self.width, kl.plane_size() * self.width
        return kl.loop_range(first, self.end, step)

    @kl.helper
    def load(self, memory: kl.Pointer, j: kl.Number) -> kl.Number:
        """Return an access of the row from key j on."""
        return memory.load(self.at + j, self.width, align=self.width * memory.dtype.itemsize)

    @kl.helper
    def store(self, memory: kl.Pointer, j: kl.Number, x: kl.Number) -> None:
        """Write an access of the row from key j on."""
        align = self.width * memory.dtype.itemsize
        memory.store(self.at + j, x.to(memory.dtype), align=align)

    @kl.helper
    def seen(self, j: kl.Number, g: KernelOperands, form: ScoreForm) -> kl.Number:
        """Return an access of scaled scores with biases, −inf where a key is hidden."""
        x = self.load(self.scores, j) * kl.splat(g.scale, self.width)
        if not form.kinds and not form.causal:
            return x
        if self.width == 1:
            return visible(x, True, g, form, *self.place, j)
        parts = [visible(x[i], True, g, form, *self.place, j + i) for i in range(self.width)]
        return kl.pack(parts)


@kl.helper
def row_of(
    scores: kl.Pointer, rows: kl.Number, first: kl.Number, g: KernelOperands, width: int
) -> tuple[kl.Number, ScoreRow]:
    """Return the number of a plane's row among ``rows``, and the row.

    ``first``: the batch of the first row. A plane without a row has the number of the last one.
    """
    planes = kl.cube_size(0) // kl.plane_size()
    number = kl.cube_position(0) * planes + kl.plane_position()
    row = kl.min(number, rows - 1)
    matrix = row // g.queries
    n = matrix // g.heads
    place = first + n, matrix - n * g.heads, row - matrix * g.queries
    at = kl.assume_multiple(row * g.keys, width)
    return row, ScoreRow(scores, at, place, kl.select(number < rows, g.keys, 0), width)


@kl.kernel
def weigh_scores(
    scores: kl.InOut,
    weights: kl.Out | None,
    total: kl.Out,
    rows: kl.Size,
    first: kl.Size,
    g: KernelOperands,
    *,
    width: int,
    form: ScoreForm,
) -> None:
    """Write the weights of rows of scores, and the logarithms of their sums of exponentials.

    Without ``weights`` they replace the scores.
    """
    row, own = row_of(scores, rows, first, g, width)
    top = kl.constant(-math.inf, scores.dtype)
    power = kl.constant(0, scores.dtype)
    for j in own.accesses():
        x = own.seen(j, g, form)
        high = kl.vreduce("max", x)
        largest = kl.select(high > top, high, top)
        shift = finite(largest)
        power = power * exp(top - shift) + kl.vreduce("add", exp(x - kl.splat(shift, width)))
        top = largest
    shift = finite(kl.plane_reduce("max", top))
    power = kl.plane_reduce("add", power * exp(top - shift))
    factor = 1.0 / kl.select(power == 0.0, 1.0, power)
    for j in own.accesses():
        x = exp(own.seen(j, g, form) - kl.splat(shift, width)) * kl.splat(factor, width)
        own.store(scores if weights is None else weights, j, x)
    if (kl.lane_position() == 0) & (own.end > 0):
        total[first * (g.heads * g.queries) + row] = shift + log(power)


@kl.kernel
def differentiate_scores(
    scores: kl.InOut,
    products: kl.InOut,
    weights: kl.Out | None,
    gradients: kl.Out | None,
    delta: kl.In,
    total: kl.In,
    rows: kl.Size,
    first: kl.Size,
    g: KernelOperands,
    *,
    width: int,
    form: ScoreForm,
) -> None:
    """Write the weights of rows of scores, and the gradients of their products.

    ``products``: those of the upstream gradient with the values. Without ``weights`` and
    ``gradients`` these replace the scores and the products.
    """
    row, own = row_of(scores, rows, first, g, width)
    at = first * (g.heads * g.queries) + row
    shift, less = kl.splat(finite(total[at]), width), kl.splat(delta[at], width)
    for j in own.accesses():
        power = exp(own.seen(j, g, form) - shift)
        inner = power * (own.load(products, j) - less) * kl.splat(g.scale, width)
        own.store(scores if weights is None else weights, j, power)
        own.store(products if gradients is None else gradients, j, inner)


@kl.kernel
def round_result(x: kl.In, out: kl.Out, rest: kl.Out, count: kl.Size, *, width: int) -> None:
    """Write ``count`` sums rounded to the result's dtype, and what rounding drops."""
    i = kl.absolute_position() * width
    if i < count:
        total = x.load(i, width, align=width * x.dtype.itemsize)
        out.store(i, total.to(out.dtype), align=width * out.dtype.itemsize)
        rest.store(i, dropped(total, rest.dtype), align=width * rest.dtype.itemsize)
