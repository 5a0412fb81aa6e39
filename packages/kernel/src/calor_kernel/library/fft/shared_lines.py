"""Transforms whose steps exchange numbers in shared memory: one launch for all factors.

Requirements: numbers are read and written once, and by neighbouring units where they are adjacent:
along a row, or across the transforms that lie beside each other. Steps are those of Stockham's
method, between two pieces of shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from calor_kernel import language as kl
from calor_kernel.contract.choices import hinted, is_size
from calor_kernel.contract.launching import Effort, Grid, launch
from calor_kernel.library.copying.transfer import index_of
from calor_kernel.library.fft.codelets import Pair, multiply, transform
from calor_kernel.library.fft.plan import End, Plan, factors_of, flops_of, size_of
from calor_kernel.library.fft.step_layout import Read, RowLayout, Rows, Storage, Written

# Elements of a cube, transforms beside each other in one and the least of them, and its units.
_ELEMENTS, _ACROSS, _LEAST, _UNITS = 1024, 16, 4, 256
# Elements between two of padding, so that steps of 8 meet all banks.
_BANKS = 32


@dataclass(frozen=True, slots=True)
class LineBuild:
    """What a build knows of its transforms: their ``factors``, and how many a cube has.

    ``across``: neighbouring units have neighbouring transforms, which lie beside each other.
    """

    factors: tuple[int, ...]
    lines: int
    across: bool

    @property
    def n(self) -> int:
        """The length."""
        return prod(self.factors)

    @property
    def room(self) -> int:
        """Elements of a piece of shared memory."""
        count = self.n * self.lines
        return count + count // _BANKS

    def place(self, line: kl.Number, element: kl.Number) -> kl.Number:
        """Return where an element is in shared memory."""
        at = element * self.lines + line if self.across else line * self.n + element
        return at + at // _BANKS


@kl.kernel
def transform_lines(
    source: Read[kl.Pointer],
    target: Written[kl.Pointer],
    table: kl.In,
    over: Rows[kl.Number],
    *,
    build: LineBuild,
    read: Storage,
    write: Storage,
) -> None:
    """Transform the lines of a cube: of adjacent rows, or beside each other within a row."""
    dtype, n, lines = source.first.dtype, build.n, build.lines
    rooms = [kl.shared(build.room, dtype) for _ in range(4)]
    if build.across:
        blocks = (over.inner + lines - 1) // lines
        outer = kl.cube_position() // blocks
        first = kl.cube_position() % blocks * lines
    else:
        outer, first = 0 * kl.cube_position(), kl.cube_position() * lines
    loads = RowLayout(source, read, over.n, over.inner)
    stores = RowLayout(target, write, over.n, over.inner)
    before = 1
    for number, radix in enumerate(build.factors):
        last = number == len(build.factors) - 1
        count = n // radix
        for u in kl.loop_range(kl.unit_index(), count * lines, kl.cube_size(0)):
            line, t = (u % lines, u // lines) if build.across else (u // count, u % count)
            end = LineEnd(over, outer, first + line, build.across)
            if number == 0:
                base, step, inside = end.of(loads)
                values = [
                    loads.load(base, (t + j * count) * over.inner + step, 1, inside)
                    for j in range(radix)
                ]
            else:
                real, imaginary = rooms[2 * (number % 2)], rooms[2 * (number % 2) + 1]
                places = [build.place(line, t + j * count) for j in range(radix)]
                values = [(real[at], imaginary[at]) for at in places]
            group, within = t // before, t % before
            results = transform(values)
            if last:
                base, step, inside = end.of(stores)
                for k in range(radix):
                    at = (within + k * before) * over.inner + step
                    stores.store(base, at, results[k], 1, inside)
            else:
                to = 2 * ((number + 1) % 2)
                for k in range(radix):
                    value = (
                        results[k] if k == 0 else turned(table, results[k], group * before * k, n)
                    )
                    at = build.place(line, group * (before * radix) + within + k * before)
                    rooms[to][at] = value[0]
                    rooms[to + 1][at] = value[1]
        if not last:
            kl.barrier()
        before *= radix


@dataclass(frozen=True, slots=True)
class LineEnd:
    """Which line is meant: row ``outer`` and place ``line`` in it, or a row."""

    over: Rows[kl.Number]
    outer: kl.Number
    line: kl.Number
    across: bool

    def of(self, layout: RowLayout) -> tuple[kl.Number, kl.Number, kl.Number]:
        """Return the line's row, its place in the row, and whether there is such a line."""
        if self.across:
            return layout.row(self.outer), self.line, self.line < self.over.inner
        return layout.row(self.line), 0 * self.line, self.line < self.over.rows


def turned(table: kl.Pointer, value: Pair, index: kl.Number, n: int) -> Pair:
    """Return a number times a twiddle factor from a table."""
    return multiply(value, (table[index], table[n + index]))


def transform_by_lines(
    plan: Plan, shape: Rows[int], source: End, target: End, prepares: bool = False
) -> bool:
    """Add the launch of a transform; False where cubes do not hold its lines."""
    info, factors = plan.info, factors_of(shape.n)
    if is_size(shape.n) or factors is None or len(factors) < 2 or info.max_units < 16:
        return False
    across = is_size(shape.inner) or shape.inner > 1
    item = plan.dtype.itemsize
    lanes = shape.inner if across else shape.rows
    several = hinted(shape.rows * shape.inner)
    # As many as make accesses or cubes large, if every core gets some.
    lines = _ACROSS if across else max(1, min(_ELEMENTS // shape.n, several // info.cores))
    build = LineBuild(tuple(factors), lines, across)
    while build.lines > 1 and (4 * build.room * item > info.shared_bytes):
        build = replace(build, lines=build.lines // 2)
    if 4 * build.room * item > info.shared_bytes or (across and build.lines < _LEAST):
        return False
    cubes = -(-lanes // build.lines) * (shape.rows if across else 1)
    at_once = -(-shape.n * build.lines // max(factors) // _BANKS) * _BANKS
    units = min(_UNITS, info.max_units, max(64, at_once))
    last = 2 * cubes * build.lines * shape.n * (1 if across else shape.inner)
    made = launch(
        transform_lines,
        Grid.line(cubes, units, index=index_of([last], info)),
        Effort("fft lines", flops_of(shape), 4 * size_of(shape) * item),
        source=source.read,
        target=target.written,
        table=plan.table(shape.n),
        over=shape,
        build=build,
        read=source.storage,
        write=target.storage,
    )
    plan.launches.append(replace(made, prepares=prepares))
    return True
