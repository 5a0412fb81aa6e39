"""Elementwise kernels for dense operands, for rows, and for any strides; their blueprint.

Requirements: one body serves cubes of one unit with wide vectors and cubes of many units. The end
is masked, so an expression is compiled at most twice, and once if it is long. Operands that are
dense along the last axis are read in vectors, whatever the other axes are. If the last axis is
short, a vector spans several rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calor_kernel import language as kl
from calor_kernel.library.elementwise.operations import Expression
from calor_kernel.library.elementwise.values import Value, load, store


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The build-time parameters of a kernel.

    ``steps``: for each operand 1 if its values are adjacent along the lanes, 0 if they are one
    value, −1 if the launch has their stride. ``align``: for each operand, and then the results, the
    alignment of its start in bytes. ``width``: lanes of a vector, possibly several vectors of the
    device. ``shared_body``: whether the masked end uses the main body, so that a long expression is
    compiled once. ``nontemporal``: whether results bypass the caches. ``even``: whether all rows of
    the results have the alignment of the first. ``joined``: for each result −1 if it is dense, or
    the number of its strides among those of larger results of which such results are parts; empty
    if all are dense.
    """

    expression: Expression
    steps: tuple[int, ...]
    align: tuple[int, ...]
    width: int
    shared_body: bool = False
    nontemporal: bool = False
    even: bool = False
    joined: tuple[int, ...] = ()

    def write(
        self,
        targets: Sequence[kl.Pointer],
        place: kl.Index,
        values: Sequence[Value],
        rest: kl.Index | None = None,
        *,
        dense: bool = False,
        parts: Sequence[kl.Index] = (),
    ) -> None:
        """Write the results' values from a position on; ``rest``: how many of the lanes exist.

        ``dense``: whether the position keeps the alignment of the results' starts. ``parts``: the
        positions in the larger results.
        """
        joined = self.joined or (-1,) * len(targets)
        outputs = self.expression.outputs
        for target, dtype, value, part in zip(targets, outputs, values, joined, strict=True):
            store(
                target,
                dtype,
                place if part < 0 else parts[part],
                value,
                rest=rest,
                align=self.align[-1] if dense else 0,
                nontemporal=self.nontemporal and dense,
            )

    def fixed(
        self, sources: Sequence[kl.Pointer], places: Sequence[kl.Index]
    ) -> list[Value | None]:
        """Return operands with one value along the lanes, read ahead; None for the others."""
        return [
            load(sources[k], dtype, places[k], self.width, step=0) if self.steps[k] == 0 else None
            for k, dtype in enumerate(self.expression.operands)
        ]


def moved(start: kl.Index, step: int, i: kl.Index, stride: kl.Index) -> kl.Index:
    """Return the position of value i along the last axis, for a blueprint's step."""
    if step == 0:
        return start
    return start + (i * stride if step < 0 else i)


@dataclass(frozen=True, slots=True)
class Run:
    """A run of values along the last axis.

    ``starts``: the positions of value 0 in the operands; ``base``: its position in the results.
    ``strides``: those of the operands along the axis. ``ahead``: for each operand its value, if it
    has been read. ``flat``: whether value i is element i of every operand. ``parts``: the positions
    of value 0 in larger results.
    """

    by: Blueprint
    sources: Sequence[kl.Pointer]
    targets: Sequence[kl.Pointer]
    starts: Sequence[kl.Index]
    strides: Sequence[kl.Index]
    ahead: Sequence[Value | None]
    base: kl.Index = 0
    flat: bool = False
    parts: Sequence[kl.Index] = ()

    def places(self, i: kl.Number) -> list[kl.Index]:
        """Return the positions of value i in the operands."""
        if self.flat:
            return [i] * len(self.starts)
        given = zip(self.starts, self.by.steps, self.strides, strict=True)
        return [moved(start, step, i, stride) for start, step, stride in given]

    def read(self, places: Sequence[kl.Index], rest: kl.Index | None = None) -> list[Value]:
        """Return the operands' values at positions; ``rest``: how many of the lanes exist."""
        by, aligned = self.by, self.flat and rest is None
        return [
            known
            if known is not None
            else load(
                self.sources[k],
                dtype,
                places[k],
                by.width,
                step=self.strides[k] if by.steps[k] < 0 else by.steps[k],
                rest=rest,
                align=by.align[k] if aligned else 0,
            )
            for k, (dtype, known) in enumerate(zip(by.expression.operands, self.ahead, strict=True))
        ]

    def write(self, i: kl.Number, values: Sequence[Value], rest: kl.Index | None = None) -> None:
        """Write the results' values from value i on."""
        dense = rest is None and (self.by.even or self.flat)
        place, parts = i if self.flat else self.base + i, [part + i for part in self.parts]
        self.by.write(self.targets, place, values, rest, dense=dense, parts=parts)


@kl.helper
def compute_run(run: Run, begin: kl.Index, end: kl.Number) -> None:
    """Compute values from ``begin`` to ``end`` along the last axis; units take turns."""
    width, evaluate = run.by.width, run.by.expression.evaluate
    step = kl.cube_size() * width
    first = kl.unit_position() * width
    if run.flat:
        first = begin + first
    if run.flat and run.by.even:
        for i in kl.loop_range(first, end, step):
            run.write(i, evaluate(run.read(run.places(i))))
    elif run.by.shared_body:
        for i in kl.loop_range(first, end, step):
            places = run.places(i)
            rest = end - i
            if rest >= width:
                values = run.read(places)
            else:
                values = run.read(places, rest)
            made = evaluate(values)
            if rest >= width:
                run.write(i, made)
            else:
                run.write(i, made, rest)
    else:
        whole = (end - begin) // step * step
        for i in kl.loop_range(first, begin + whole, step):
            made = evaluate(run.read(run.places(i)))
            run.write(i, made)
        for i in kl.loop_range(first + whole, end, step):
            places = run.places(i)
            rest = end - i
            values = run.read(places, rest)
            run.write(i, evaluate(values), rest)


@kl.kernel
def elementwise_flat(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.Out, ...],
    count: kl.Size,
    chunk: kl.Size,
    *,
    by: Blueprint,
) -> None:
    """Compute ``count`` values of dense operands and single values; a cube takes ``chunk``."""
    nowhere = [0] * len(sources)
    ahead = by.fixed(sources, nowhere)
    begin = kl.cube_position() * chunk
    end = kl.min(begin + chunk, count)
    run = Run(by, sources, targets, nowhere, nowhere, ahead, flat=True)
    compute_run(run, begin, end)


@kl.kernel
def elementwise_rows(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.Out, ...],
    rows: kl.Size,
    turns: kl.Size,
    sizes: tuple[kl.FastDivmod, ...],
    strides: tuple[tuple[kl.Stride, ...], ...],
    joins: tuple[tuple[kl.Stride, ...], ...],
    *,
    by: Blueprint,
) -> None:
    """Compute rows along the last axis, ``turns`` of them a cube; units share a row.

    ``joins``: the strides of larger results, which are adjacent along the last axis.
    """
    last = [s[-1] for s in strides]
    length = sizes[-1].divisor
    first = kl.cube_position() * turns
    for row in kl.loop_range(first, kl.min(first + turns, rows)):
        position = kl.unravel(row, sizes[:-1])
        starts = [kl.offset_of(position, s[:-1]) for s in strides]
        ahead = by.fixed(sources, starts)
        parts = [kl.offset_of(position, s[:-1]) for s in joins]
        run = Run(by, sources, targets, starts, last, ahead, row * length, parts=parts)
        compute_run(run, 0, length)


@kl.kernel
def elementwise_runs(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.Out, ...],
    rows: kl.Size,
    turns: kl.Size,
    sizes: tuple[kl.FastDivmod, ...],
    strides: tuple[tuple[kl.Stride, ...], ...],
    *,
    by: Blueprint,
) -> None:
    """Compute rows of one or two vectors, ``turns`` of them a cube, by cubes of one unit.

    A run of rows along the axis before the last costs one division. The second vector of a row ends
    with the row. All operands of a row are read before its results are written.
    """
    width, length = by.width, sizes[-1].divisor
    row = kl.cube_position() * turns
    end = kl.min(row + turns, rows)
    while row < end:
        position = kl.unravel(row, sizes[:-1])
        starts = [kl.offset_of(position, s[:-1]) for s in strides]
        run = kl.min(end - row, sizes[-2].divisor - position[-1])
        for k in kl.loop_range(run):
            base = (row + k) * length
            made = []
            for far in (0, length - width):
                values = [
                    load(
                        sources[n],
                        dtype,
                        start + k * s[-2] + (far if step else 0),
                        width,
                        step=step,
                    )
                    for n, (dtype, start, s, step) in enumerate(
                        zip(by.expression.operands, starts, strides, by.steps, strict=True)
                    )
                ]
                made.append((base + far, by.expression.evaluate(values)))
            for place, results in made:
                by.write(targets, place, results)
        row = row + run


@kl.kernel
def elementwise_vectors(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.Out, ...],
    count: kl.Size,
    chunk: kl.Size,
    sizes: tuple[kl.FastDivmod, ...],
    strides: tuple[tuple[kl.Stride, ...], ...],
    joins: tuple[tuple[kl.Stride, ...], ...],
    *,
    by: Blueprint,
) -> None:
    """Compute vectors along the last axis, which is whole vectors: for units of large cubes.

    Operands are dense along it or have one value; vectors of the former are aligned.
    """
    width = by.width
    first = kl.cube_position() * chunk
    end = kl.min(first + chunk, count)
    for i in kl.loop_range(first + kl.unit_position() * width, end, kl.cube_size() * width):
        position = kl.unravel(i, sizes)
        values = [
            load(
                sources[k],
                dtype,
                kl.offset_of(position, strides[k]),
                width,
                step=by.steps[k],
                align=by.align[k],
            )
            for k, dtype in enumerate(by.expression.operands)
        ]
        parts = [kl.offset_of(position, s) for s in joins]
        by.write(targets, i, by.expression.evaluate(values), dense=True, parts=parts)


@kl.kernel
def elementwise_lanes(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.Out, ...],
    count: kl.Size,
    chunk: kl.Size,
    sizes: tuple[kl.FastDivmod, ...],
    strides: tuple[tuple[kl.Stride, ...], ...],
    joins: tuple[tuple[kl.Stride, ...], ...],
    *,
    by: Blueprint,
) -> None:
    """Compute a position for each lane: for short rows, and for units that are lanes.

    Operands with steps of 1 are dense, and are read at the positions of the results.
    """
    width = by.width
    first = kl.cube_position() * chunk
    end = kl.min(first + chunk, count)
    for i in kl.loop_range(first + kl.unit_position() * width, end, kl.cube_size() * width):
        place = i + kl.constant(tuple(range(width)), i.dtype) if width > 1 else i
        # Lanes beyond the end repeat the last value.
        place = kl.select(place < count, place, count - 1)
        position = kl.unravel(place, sizes)
        values = []
        for k, dtype in enumerate(by.expression.operands):
            if by.steps[k] == 1:
                values.append(load(sources[k], dtype, i, width, rest=end - i))
            else:
                at = kl.offset_of(position, strides[k])
                values.append(load(sources[k], dtype, at, width))
        parts = [kl.offset_of(position, s) for s in joins]
        by.write(targets, i, by.expression.evaluate(values), end - i, parts=parts)
