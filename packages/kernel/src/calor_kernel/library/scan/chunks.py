"""Scans in chunks: totals of chunks, the scan of the totals, and the scan of each chunk.

Requirements: each element is read twice (once on short axes) and written once; cubes do not wait
for each other (Blelloch, 1990; reduce-then-scan of Dotsenko et al., 2008); the order of the
operations depends on sizes alone. The scan of the totals is the same problem, shorter by the factor
of a chunk's length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from calor_kernel import language as kl
from calor_kernel.library.reduce.reduction_ops import ReductionOp

N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class Chunks(Generic[N]):
    """Chunks along n of an array ``[outer, n, inner]``.

    ``items``: units with a chunk each; ``chunks``: chunks along n; ``columns``: units that share
    the inner axis.
    """

    items: kl.SizeOf[N]
    chunks: kl.SizeOf[N]
    n: kl.SizeOf[N]
    inner: kl.SizeOf[N]
    columns: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """The work of a unit: a chunk of ``length`` rows, all if 0, ``width`` inner elements wide.

    ``along``: inner is 1, and vectors run along the scanned axis instead. ``complex_product``:
    elements are (real, imaginary), and ``inner`` counts numbers. ``ahead``: the rows that are
    loaded before the first of them is combined, which nothing between stores then delays.
    """

    op: ReductionOp
    length: int
    width: int
    along: bool
    reverse: bool
    complex_product: bool
    ahead: int = 1

    def neutral(self) -> kl.Number:
        """Return the neutral element in each lane; a complex one has the imaginary part 0."""
        if self.complex_product:
            return kl.constant((self.op.identity, 0), self.op.dtype)
        return self.op.neutral(self.width)

    def rows(self, chunk: kl.Number, n: kl.Number) -> tuple[kl.Index, kl.Number]:
        """Return the first row of a chunk, and how many of n it has."""
        if not self.length:
            return 0, n
        first = chunk * self.length
        return first, kl.min(n - first, self.length)

    def combine(self, a: kl.Number, b: kl.Number) -> kl.Number:
        """Combine the accumulator a with the next elements b."""
        if not self.complex_product:
            return self.op.combine(a, b)
        x, y, u, v = a[0], a[1], b[0], b[1]
        return kl.insert(kl.insert(a, 0, x * u - y * v), 1, x * v + y * u)


@kl.kernel
def chunk_totals(
    source: kl.In, totals: kl.Out, sizes: Chunks[kl.Number], *, plan: ChunkPlan
) -> None:
    """Write the total of each chunk: ``totals[outer, chunk, inner]``."""
    unit, op = kl.absolute_position(), plan.op
    n, width, reverse = sizes.n, plan.width, plan.reverse
    if unit < sizes.items:
        outer, chunk, column = kl.unravel(unit, (1, sizes.chunks, sizes.columns))
        first, count = plan.rows(chunk, n)
        if plan.along:
            row = outer * n
            total = kl.splat(op.neutral(), width)
            whole = count // width * width
            for i in kl.loop_range(0, whole, width):
                at = row + scan_offset(first + i, n, width, reverse)
                total = op.combine(total, source.load(at, width).to(op.dtype))
            single = op.over_lanes(total)
            for i in kl.loop_range(whole, count):
                value = source[row + scan_offset(first + i, n, 1, reverse)].to(op.dtype)
                single = op.combine(single, value)
            totals[unit] = single.to(totals.dtype)
        else:
            span = column * width
            begin = outer * n * sizes.inner + span
            total = plan.neutral()
            whole = count // plan.ahead * plan.ahead
            for i in kl.loop_range(0, whole, plan.ahead):
                places = rows_ahead(begin, first + i, n, sizes.inner, plan)
                for value in [source.load(at, width) for at in places]:
                    total = plan.combine(total, value.to(op.dtype))
            for i in kl.loop_range(whole, count):
                at = begin + scan_offset(first + i, n, 1, reverse) * sizes.inner
                total = plan.combine(total, source.load(at, width).to(op.dtype))
            to = (outer * sizes.chunks + chunk) * sizes.inner + span
            totals.store(to, total.to(totals.dtype))


@kl.kernel
def scan_chunks(
    source: kl.In, totals: kl.In, target: kl.Out, sizes: Chunks[kl.Number], *, plan: ChunkPlan
) -> None:
    """Scan each chunk, starting from the scanned totals of the chunks before it."""
    unit, op = kl.absolute_position(), plan.op
    n, width, reverse = sizes.n, plan.width, plan.reverse
    if unit < sizes.items:
        outer, chunk, column = kl.unravel(unit, (1, sizes.chunks, sizes.columns))
        first, count = plan.rows(chunk, n)
        if plan.along:
            row = outer * n
            before = kl.splat(op.neutral(), width)
            if chunk > 0:
                before = kl.splat(totals[unit - 1].to(op.dtype), width)
            whole = count // width * width
            for i in kl.loop_range(0, whole, width):
                at = row + scan_offset(first + i, n, width, reverse)
                value = source.load(at, width).to(op.dtype)
                own = scan_lanes(op, value, reverse)
                target.store(at, op.combine(own, before).to(target.dtype))
                # The next vector waits for one operation only.
                before = op.combine(kl.splat(own[0 if reverse else width - 1], width), before)
            carry = before[0]
            for i in kl.loop_range(whole, count):
                at = row + scan_offset(first + i, n, 1, reverse)
                carry = op.combine(carry, source[at].to(op.dtype))
                target[at] = carry.to(target.dtype)
        else:
            span = column * width
            begin = outer * n * sizes.inner + span
            total = plan.neutral()
            if chunk > 0:
                earlier = (outer * sizes.chunks + chunk - 1) * sizes.inner + span
                total = totals.load(earlier, width).to(op.dtype)
            last = first + count - 1
            for i in kl.loop_range(0, count, plan.ahead):
                # Rows beyond the last are read as the last one, and not written.
                rows = [first + i + k for k in range(plan.ahead)]
                read = [kl.min(row, last) if plan.ahead > 1 else row for row in rows]
                places = [begin + scan_offset(row, n, 1, reverse) * sizes.inner for row in read]
                values = [source.load(at, width) for at in places]
                for row, at, value in zip(rows, places, values, strict=True):
                    total = plan.combine(total, value.to(op.dtype))
                    if (plan.ahead == 1) or (row <= last):
                        target.store(at, total.to(target.dtype))


def rows_ahead(
    begin: kl.Index, first: kl.Index, n: kl.Index, inner: kl.Index, plan: ChunkPlan
) -> list[kl.Index]:
    """Return the places of rows that are loaded together."""
    rows = [scan_offset(first + k, n, 1, plan.reverse) for k in range(plan.ahead)]
    return [begin + row * inner for row in rows]


@kl.helper
def scan_offset(i: kl.Index, n: kl.Index, width: int, reverse: bool) -> kl.Index:
    """Return the offset of the ``width`` elements ``i`` steps along the scan."""
    return n - width - i if reverse else i


def scan_lanes(op: ReductionOp, v: kl.Number, reverse: bool) -> kl.Number:
    """Return the scan of a vector's lanes in log2 steps (Sklansky, 1960).

    In each step half of the lanes of a group are combined with the last lane of the other half.
    """
    width, distance = v.width, 1
    while distance < width:
        partners, blend = [], []
        for lane in range(width):
            later = bool(lane & distance) != reverse
            first = lane & ~(2 * distance - 1)
            partners.append(first + distance - (0 if reverse else 1))
            blend.append(width + lane if later else lane)
        v = kl.shuffle(v, blend, op.combine(kl.shuffle(v, partners), v))
        distance *= 2
    return v
