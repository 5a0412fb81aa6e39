"""Rows of two to a half vector of values, below further axes: vectors that span several of them.

Requirements: boxes of four numbers, points of two and pairs of numbers, compared with each other,
cost as much as long rows. A vector is whole rows, so the place of each lane in its row is known at
build time. An operand with one row is read once for all vectors along the axis before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calor_kernel import language as kl
from calor_kernel.library.elementwise.strided import Blueprint
from calor_kernel.library.elementwise.values import Value, by_parts, load


@dataclass(frozen=True, slots=True)
class RowSpans:
    """The build of spans over rows of ``length`` values, a divisor of the lanes.

    ``layouts``: for each operand "dense" along both axes, "row" for one row, "column" for one value
    a row, "single" for one value, or "apart".
    """

    length: int
    layouts: tuple[str, ...]


def layout_of(down: int, along: int, length: int) -> str:
    """Return the layout of rows in memory by their distance and that of their values.

    >>> [layout_of(*strides, 2) for strides in ((2, 1), (0, 1), (3, 0), (0, 0), (4, 1))]
    ['dense', 'row', 'column', 'single', 'apart']
    """
    if along == 1 and down == length:
        return "dense"
    if along == 0:
        return "single" if down == 0 else "column"
    return "row" if along == 1 and down == 0 else "apart"


@dataclass(frozen=True, slots=True)
class _Span:
    """The operands from the begin of an axis of ``count`` rows on, and what was read of them."""

    by: Blueprint
    form: RowSpans
    sources: Sequence[kl.Pointer]
    starts: Sequence[kl.Number]
    strides: Sequence[Sequence[kl.Number]]
    ahead: Sequence[Value | None]
    count: kl.Number

    def read(self, row: kl.Number, rest: kl.Number | None) -> list[Value]:
        """Return the operands' values of a vector from a row on; ``rest``: lanes that exist."""
        return [
            self._one(k, row, rest) if known is None else known
            for k, known in enumerate(self.ahead)
        ]

    def _one(self, k: int, row: kl.Number, rest: kl.Number | None) -> Value:
        width, length, dtype = self.by.width, self.form.length, self.by.expression.operands[k]
        down, along = self.strides[k][-2:]
        source, start = self.sources[k], self.starts[k]
        if self.form.layouts[k] == "dense":
            return load(source, dtype, start + row * length, width, rest=rest)
        if self.form.layouts[k] == "column":
            left = None if rest is None else rest // length
            value = load(source, dtype, start + row * down, width // length, step=down, rest=left)
            return _chosen(value, [lane // length for lane in range(width)])
        rows = row + kl.constant(tuple(lane // length for lane in range(width)), row.dtype)
        if rest is not None:
            rows = kl.min(rows, kl.splat(self.count - 1, width))
        places = kl.constant(tuple(lane % length for lane in range(width)), row.dtype)
        return load(source, dtype, start + rows * down + places * along, width)


def _chosen(value: Value, order: Sequence[int]) -> Value:
    return by_parts(lambda x: kl.shuffle(x, order), value)


@kl.kernel
def elementwise_spans(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.Out, ...],
    rows: kl.Size,
    turns: kl.Size,
    sizes: tuple[kl.FastDivmod, ...],
    strides: tuple[tuple[kl.Stride, ...], ...],
    *,
    by: Blueprint,
    form: RowSpans,
) -> None:
    """Compute ``rows`` pairs of the last two axes, ``turns`` of them a cube."""
    width, length, count = by.width, form.length, sizes[-2].divisor
    inner = count * length
    first = kl.cube_position() * turns
    for row in kl.loop_range(first, kl.min(first + turns, rows)):
        position = kl.unravel(row, sizes[:-2])
        starts = [kl.offset_of(position, s[:-2]) for s in strides]
        ahead: list[Value | None] = []
        for k, dtype in enumerate(by.expression.operands):
            if form.layouts[k] == "row":
                value = load(sources[k], dtype, starts[k], length)
                ahead.append(_chosen(value, [lane % length for lane in range(width)]))
            elif form.layouts[k] == "single":
                ahead.append(load(sources[k], dtype, starts[k], width, step=0))
            else:
                ahead.append(None)
        span = _Span(by, form, sources, starts, strides, ahead, count)
        whole = inner // width * width
        for i in kl.loop_range(0, whole, width):
            made = by.expression.evaluate(span.read(i // length, None))
            by.write(targets, row * inner + i, made)
        if whole < inner:
            rest = inner - whole
            made = by.expression.evaluate(span.read(whole // length, rest))
            by.write(targets, row * inner + whole, made, rest)
