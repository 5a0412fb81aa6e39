"""Scans in parts: totals of chunks, the scan of the totals, and each chunk from its total on.

Requirements: each element is read twice (once on short axes) and written once; no cube waits for
another (Blelloch, 1990; reduce-then-scan of Dotsenko et al., 2008); the order of the operations
depends on sizes alone. The scan of the totals is the same problem, a chunk's length smaller.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    absolute_position,
    constant,
    helper,
    insert,
    kernel,
    loop_range,
    shuffle,
    splat,
    unravel,
    vreduce,
)

REDUCTIONS = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


@kernel
def chunk_totals(
    source: Any,
    totals: Any,
    items: Any,
    chunks: Any,
    n: Any,
    inner: Any,
    columns: Any,
    *,
    kind: str,
    accumulate: DType,
    chunk: int,
    width: int,
    along: bool,
    reverse: bool,
    pair: bool,
    identity: float,
) -> None:
    """Write the total of each chunk: ``totals[outer, chunk, inner]``.

    A unit has one chunk and ``width`` of the inner elements; ``columns`` is how many units share
    the inner axis. ``along``: inner is 1, and vectors lie along the scanned axis instead. ``pair``:
    elements are (real, imaginary), and inner counts numbers.
    """
    unit = absolute_position()
    if unit < items:
        outer, part, column = unravel(unit, (1, chunks, columns))
        first = part * chunk
        count = min(n - first, chunk)
        if along:
            at = outer * n
            total = splat(start_of(accumulate, identity, 1), width)
            whole = count // width * width
            for i in loop_range(0, whole, width):
                place = at + turned(first + i, n, width, reverse)
                total = joined(kind, total, source.load(place, width).to(accumulate))
            single = vreduce(REDUCTIONS[kind], total)
            for i in loop_range(whole, count):
                taken = source[at + turned(first + i, n, 1, reverse)].to(accumulate)
                single = joined(kind, single, taken)
            totals[unit] = single.to(totals.dtype)
        else:
            span = column * width
            at = outer * n * inner + span
            acc = start_of(accumulate, identity, width, pair)
            for i in loop_range(0, count):
                place = at + turned(first + i, n, 1, reverse) * inner
                acc = step(kind, acc, source.load(place, width).to(accumulate), pair)
            totals.store((outer * chunks + part) * inner + span, acc.to(totals.dtype))


@kernel
def scan_chunks(
    source: Any,
    totals: Any,
    target: Any,
    items: Any,
    chunks: Any,
    n: Any,
    inner: Any,
    columns: Any,
    *,
    kind: str,
    accumulate: DType,
    chunk: int,
    width: int,
    along: bool,
    reverse: bool,
    pair: bool,
    identity: float,
) -> None:
    """Scan each chunk from the scanned total of the chunks before it on; as ``chunk_totals``."""
    unit = absolute_position()
    if unit < items:
        outer, part, column = unravel(unit, (1, chunks, columns))
        first = part * chunk
        count = min(n - first, chunk)
        if along:
            at = outer * n
            before = splat(start_of(accumulate, identity, 1), width)
            if part > 0:
                before = splat(totals[unit - 1].to(accumulate), width)
            whole = count // width * width
            for i in loop_range(0, whole, width):
                place = at + turned(first + i, n, width, reverse)
                taken = source.load(place, width).to(accumulate)
                own = inclusive(kind, taken, reverse)
                target.store(place, joined(kind, own, before).to(target.dtype))
                # One operation is all that the next vector waits for.
                before = joined(kind, splat(own[0 if reverse else width - 1], width), before)
            carry = before[0]
            for i in loop_range(whole, count):
                place = at + turned(first + i, n, 1, reverse)
                carry = joined(kind, carry, source[place].to(accumulate))
                target[place] = carry.to(target.dtype)
        else:
            span = column * width
            at = outer * n * inner + span
            acc = start_of(accumulate, identity, width, pair)
            if part > 0:
                acc = totals.load((outer * chunks + part - 1) * inner + span, width).to(accumulate)
            for i in loop_range(0, count):
                place = at + turned(first + i, n, 1, reverse) * inner
                acc = step(kind, acc, source.load(place, width).to(accumulate), pair)
                target.store(place, acc.to(target.dtype))


@helper
def turned(i: Any, n: Any, width: int, reverse: bool) -> Any:
    """Return where ``width`` elements begin that are ``i`` steps along the scan."""
    return n - width - i if reverse else i


def start_of(dtype: DType, identity: float, width: int, pair: bool = False) -> Any:
    """Return the value that changes nothing; as a complex number its imaginary part is 0."""
    value = identity if dtype.kind == "float" else int(identity)
    if pair:
        return constant((value, 0), dtype)
    return constant(value, dtype, width)


@helper
def joined(kind: str, a: Any, b: Any) -> Any:
    """Return two values joined, lane by lane; a scalar joins every lane."""
    if kind == "sum":
        made = a + b
    elif kind == "prod":
        made = a * b
    elif kind == "max":
        made = max(a, b)
    else:
        made = min(a, b)
    return made


def step(kind: str, acc: Any, taken: Any, pair: bool) -> Any:
    """Return the accumulator joined with the next element."""
    if not (pair and kind == "prod"):
        return joined(kind, acc, taken)
    a, b, c, d = acc[0], acc[1], taken[0], taken[1]
    return insert(insert(acc, 0, a * c - b * d), 1, a * d + b * c)


def inclusive(kind: str, v: Any, reverse: bool) -> Any:
    """Return the scan of a vector's lanes in log2 steps (Sklansky, 1960).

    In each step one half of every group of lanes takes the last of the other half with it.
    """
    width, distance = v.width, 1
    while distance < width:
        taken, blend = [], []
        for lane in range(width):
            later = bool(lane & distance) != reverse
            first = lane & ~(2 * distance - 1)
            taken.append(first + distance - (0 if reverse else 1))
            blend.append(width + lane if later else lane)
        v = shuffle(v, blend, joined(kind, shuffle(v, taken), v))
        distance *= 2
    return v
