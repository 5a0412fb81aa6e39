"""Transforms whose steps exchange numbers in shared memory: one launch for all factors, or two.

Requirements: numbers are read and written once, and by neighbouring units where they are adjacent:
along a row, or across the transforms that lie beside each other. Steps are those of Stockham's
method, between two pieces of shared memory. Lines that shared memory does not hold are transforms
of a part of the factors each, beside each other: the first launch has the first factors, and ends
with the twiddle factors and the order of numbers that the step behind them reads.
"""

from __future__ import annotations

import math
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
# Cubes of a core that have a part of the factors each, if there are two launches.
_TOGETHER = 2
# Elements between two of padding, so that steps of 8 meet all banks.
_BANKS = 32


@dataclass(frozen=True, slots=True)
class LineBuild:
    """What a build knows of its transforms: their ``factors``, and how many a cube has.

    ``across``: neighbouring units have neighbouring transforms, which lie beside each other.
    ``others``: the product of the factors of the other launch, 1 if there is none. ``turns``:
    whether results get twiddle factors for that launch; ``alone``: whether these transforms are
    then those of rows of their own.
    """

    factors: tuple[int, ...]
    lines: int
    across: bool
    others: int = 1
    turns: bool = False
    alone: bool = False

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
    whole: Rows[kl.Number] | None,
    *,
    build: LineBuild,
    read: Storage,
    write: Storage,
) -> None:
    """Transform the lines of a cube: of adjacent rows, or beside each other within a row.

    ``whole``: the transforms that two launches make, of which these are a part. ``table`` has the
    twiddle factors of the whole length.
    """
    dtype, n, lines = source.first.dtype, build.n, build.lines
    rooms = [kl.shared(build.room, dtype) for _ in range(4)]
    if build.across:
        blocks = (over.inner + lines - 1) // lines
        outer = kl.cube_position() // blocks
        first = kl.cube_position() % blocks * lines
    else:
        outer, first = 0 * kl.cube_position(), kl.cube_position() * lines
    ends = over if whole is None else whole
    loads = RowLayout(source, read, ends.n, ends.inner)
    stores = RowLayout(target, write, ends.n, ends.inner)
    before = 1
    for number, radix in enumerate(build.factors):
        last = number == len(build.factors) - 1
        count = n // radix
        for u in kl.loop_range(kl.unit_index(), count * lines, kl.cube_size(0)):
            # The results of the first factors of rows lie side by side.
            beside = build.across and not (last and build.alone)
            line, t = (u % lines, u // lines) if beside else (u // count, u % count)
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
                    value, bin_ = results[k], within + k * before
                    at = bin_ * over.inner + step
                    if build.turns:
                        place, rest = step // ends.inner, step % ends.inner
                        index = kl.select(inside, place * bin_, 0)
                        value = turned(table, value, index, n * build.others)
                        at = (place * n + bin_) * ends.inner + rest
                    stores.store(base, at, value, 1, inside)
            else:
                to = 2 * ((number + 1) % 2)
                for k in range(radix):
                    value = results[k]
                    if k > 0:
                        index = group * (before * k * build.others)
                        value = turned(table, value, index, n * build.others)
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
    several = hinted(shape.rows * shape.inner)
    # As many as make accesses or cubes large, if every core gets some.
    lines = _ACROSS if across else max(1, min(_ELEMENTS // shape.n, several // info.cores))
    build = _fitting(plan, LineBuild(tuple(factors), lines, across), info.shared_bytes)
    if build is None:
        return False
    _add(plan, build, shape, None, source, target, prepares)
    return True


def transform_by_parts(
    plan: Plan, shape: Rows[int], source: End, target: End, prepares: bool = False
) -> bool:
    """Add two launches of a transform, each of some factors; False where cubes hold no lines."""
    info, factors = plan.info, factors_of(shape.n)
    if is_size(shape.n) or factors is None or len(factors) < 2 or info.max_units < 16:
        return False
    first = _half_of(shape.n)
    own, others = factors_of(first), factors_of(shape.n // first)
    if not own or not others:
        return False
    alone = not is_size(shape.inner) and shape.inner == 1
    builds = (
        LineBuild(tuple(own), _ACROSS, True, shape.n // first, True, alone),
        LineBuild(tuple(others), _ACROSS, True, first),
    )
    # Some cubes of a core load while others compute.
    found = [_fitting(plan, build, info.shared_of(_TOGETHER)) for build in builds]
    if found[0] is None or found[1] is None:
        return False
    between = plan.apart(shape)
    parts = (Rows(shape.rows, b.n, b.others * shape.inner) for b in builds)
    _add(plan, found[0], next(parts), shape, source, between, prepares)
    _add(plan, found[1], next(parts), shape, between, target, prepares)
    return True


def _half_of(n: int) -> int:
    """Return the factor of a length that is nearest to its square root, of those not above.

    >>> _half_of(8192), _half_of(13)
    (64, 1)
    """
    return max(a for a in range(1, math.isqrt(n) + 1) if n % a == 0)


def _fitting(plan: Plan, build: LineBuild, nbytes: int) -> LineBuild | None:
    """Return a build of as many lines as shared memory holds, None if these are too few."""
    item = plan.dtype.itemsize
    while build.lines > 1 and 4 * build.room * item > nbytes:
        build = replace(build, lines=build.lines // 2)
    if 4 * build.room * item > nbytes or (build.across and build.lines < _LEAST):
        return None
    return build


def _add(
    plan: Plan,
    build: LineBuild,
    over: Rows[int],
    whole: Rows[int] | None,
    source: End,
    target: End,
    prepares: bool,
) -> None:
    """Add a launch of transforms ``over``, which are a part of those of ``whole`` if there is."""
    info, across = plan.info, build.across
    lanes = over.inner if across else over.rows
    cubes = -(-lanes // build.lines) * (over.rows if across else 1)
    at_once = -(-build.n * build.lines // max(build.factors) // _BANKS) * _BANKS
    units = min(_UNITS, info.max_units, max(64, at_once))
    last = 2 * cubes * build.lines * build.n * (1 if across else over.inner)
    made = launch(
        transform_lines,
        Grid.line(cubes, units, index=index_of([last], info)),
        Effort("fft lines", flops_of(over), 4 * size_of(over) * plan.dtype.itemsize),
        source=source.read,
        target=target.written,
        table=plan.table(build.n * build.others),
        over=over,
        whole=whole,
        build=build,
        read=source.storage,
        write=target.storage,
    )
    plan.launches.append(replace(made, prepares=prepares))
