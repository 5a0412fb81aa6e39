"""Rows shorter than a vector: vectors over several rows, with lanes known at build time.

Requirements: a bias of three channels, or a scale of each of many short rows, costs as much as
dense operands. An operand with one row, or one value a row, is not read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calor_kernel import language as kl
from calor_kernel.library.elementwise.strided import Blueprint
from calor_kernel.library.elementwise.values import Value, by_parts, load


@dataclass(frozen=True, slots=True)
class ShortRows:
    """The build of rows of ``length`` values.

    ``layouts``: for each operand "dense", "row" for one row, "column" for one value a row, or
    "apart".
    """

    length: int
    layouts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The operands of a kernel, and the values of those with one row."""

    by: Blueprint
    form: ShortRows
    sources: Sequence[kl.Pointer]
    strides: Sequence[Sequence[kl.Number]]
    pattern: Sequence[Sequence[Value]]

    def held(self, row: kl.Number, last: kl.Number | None) -> list[Value | None]:
        """Return the values of a vector of rows, for operands with one value a row."""
        steps = [s[0] for s in self.strides]
        return [
            load(self.sources[k], dtype, row * steps[k], self.by.width, step=steps[k], rest=last)
            if self.form.layouts[k] == "column"
            else None
            for k, dtype in enumerate(self.by.expression.operands)
        ]

    @kl.helper
    def values(
        self, row: kl.Number, last: kl.Number | None, part: int, held: Sequence[Value | None]
    ) -> list[Value]:
        """Return the operands' values of the vector ``part`` of a vector of rows."""
        made: list[Value] = []
        width, length = self.by.width, self.form.length
        places = [divmod(part * width + lane, length) for lane in range(width)]
        for k, dtype in enumerate(self.by.expression.operands):
            layout, source = self.form.layouts[k], self.sources[k]
            if layout == "dense":
                rest = None if last is None else last * length - part * width
                made.append(load(source, dtype, row * length + part * width, width, rest=rest))
            elif layout == "row":
                made.append(_packed([self.pattern[k][column] for _, column in places]))
            elif layout == "column":
                order = [down for down, _ in places]
                made.append(_chosen(held[k], order))
            else:
                ends = [down if last is None else kl.min(down, last - 1) for down, _ in places]
                down_step, step = self.strides[k]
                singles = [
                    load(source, dtype, (row + down) * down_step + column * step, 1)
                    for down, (_, column) in zip(ends, places, strict=True)
                ]
                made.append(_packed(singles))
        return made


def _packed(values: Sequence[Value]) -> Value:
    return by_parts(lambda *lanes: kl.pack(lanes), *values)


def _chosen(value: Value | None, order: Sequence[int]) -> Value:
    assert value is not None
    return by_parts(lambda x: kl.shuffle(x, order), value)


@kl.kernel
def elementwise_short(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.Out, ...],
    rows: kl.Size,
    turns: kl.Size,
    strides: tuple[tuple[kl.Stride, ...], ...],
    *,
    by: Blueprint,
    form: ShortRows,
) -> None:
    """Compute short rows, as many at a time as lanes; a cube takes ``turns``."""
    width, length = by.width, form.length
    pattern = [
        [load(sources[k], dtype, i * strides[k][1], 1) for i in range(length)]
        if form.layouts[k] == "row"
        else []
        for k, dtype in enumerate(by.expression.operands)
    ]
    over = _Rows(by, form, sources, strides, pattern)
    begin = kl.cube_position() * turns
    end = kl.min(begin + turns, rows)
    whole = begin + (end - begin) // width * width
    for row in kl.loop_range(begin, whole, width):
        held = over.held(row, None)
        for j in range(length):
            made = by.expression.evaluate(over.values(row, None, j, held))
            by.write(targets, row * length + j * width, made)
    for row in kl.loop_range(whole, end, width):
        last = end - row
        held = over.held(row, last)
        for j in range(length):
            rest = last * length - j * width
            if rest > 0:
                made = by.expression.evaluate(over.values(row, last, j, held))
                by.write(targets, row * length + j * width, made, rest)
