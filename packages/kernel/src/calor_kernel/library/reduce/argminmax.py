"""Indices of extremes: argmax and argmin by cubes of one unit.

Requirements: the first of equal extremes, and a NaN before any number. A row is searched for its
extreme once that is known, which costs less than carrying indices; a block of a long row is
searched only if it holds a better one. Across rows, indices are carried as vectors of columns. Few
results of many terms are divided into parts, which leave values and indices for another launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType, bool_, int64
from calor_kernel.language import (
    cast,
    constant,
    cube_position,
    helper,
    kernel,
    loop_range,
    offset_of,
    private,
    registers,
    select,
    splat,
    unravel,
    vreduce,
)
from calor_kernel.library.elementwise.conversions import converted
from calor_kernel.library.elementwise.values import lanes, load
from calor_kernel.library.reduce.pairwise_sums import tree
from calor_kernel.library.reduce.reduction_ops import beats, identity


@dataclass(frozen=True, slots=True)
class PlacePlan:
    """A plan of argmax or argmin.

    ``kept``: the axes of the results, or of the blocks of columns. ``width``: lanes of a vector.
    ``unroll``: vectors of a row, or rows, that are loaded together. ``size``: elements of a block
    of a row, or columns of a block. ``single``: whether a row is one block. ``partial``: whether
    values are written too, with indices of the index type.
    """

    kind: str
    source: DType
    wide: DType
    index: DType
    kept: int
    width: int
    unroll: int
    size: int
    single: bool = False
    partial: bool = False


@kernel
def places_of_rows(*arguments: Any, plan: PlacePlan) -> None:
    """Find indices along dense rows.

    Arguments: x, the values if ``partial``, the indices; the number of results and of parts of
    results, the number for each cube, the elements of a row and of a part; sizes of the axes, and
    strides.
    """
    x, *targets = arguments[: 2 + plan.partial]
    results, tasks, turns, length, chunk, *numbers = arguments[2 + plan.partial :]
    sizes, strides = numbers[: plan.kept], numbers[plan.kept :]
    first = cube_position() * turns
    for task in loop_range(first, min(first + turns, tasks)):
        row, begin, end = task, 0, length
        if plan.partial:
            row, begin = task % results, task // results * chunk
            end = min(begin + chunk, length)
        base = offset_of(unravel(row, sizes), strides)
        best = constant(identity(plan.kind, plan.wide), plan.wide)
        place = constant(0, plan.index)
        if plan.single:
            best, place, _ = in_block(x, plan, base, begin, end, best, place, True)
        else:
            done = constant(False, bool_)
            for b in loop_range(begin, end, plan.size):
                stop = min(b + plan.size, end)
                best, place, done = in_block(x, plan, base, b, stop, best, place, b == begin, done)
        if plan.partial:
            targets[0][task] = best
            targets[1][task] = place
        else:
            targets[0][task] = cast(place, int64)


@helper
def in_block(
    x: Any,
    plan: PlacePlan,
    base: Any,
    begin: Any,
    end: Any,
    best: Any,
    place: Any,
    initial: Any,
    done: Any = False,
) -> Any:
    """Return the best value so far, its index, and whether it is NaN, after a block."""
    value, strange = extreme(x, plan, base, begin, end)
    over = value > best if plan.kind == "argmax" else value < best
    if plan.single:
        if strange:
            place = search(x, plan, base, begin, end, value, True)
            value = value * float("nan") if plan.wide.kind == "float" else value
        else:
            place = search(x, plan, base, begin, end, value, False)
        best = value
    else:
        if (strange | over | initial) & ~done:
            if strange:
                place = search(x, plan, base, begin, end, value, True)
                value = value * float("nan") if plan.wide.kind == "float" else value
            else:
                place = search(x, plan, base, begin, end, value, False)
            best = value
            done = strange
    return best, place, done


def element(x: Any, plan: PlacePlan, at: Any, rest: Any) -> Any:
    """Return a vector of elements in the type of the comparison."""
    value = load(x, plan.source, at, plan.width, rest=rest)
    return converted(value, plan.source, plan.wide)


@helper
def extreme(x: Any, plan: PlacePlan, base: Any, begin: Any, end: Any) -> Any:
    """Return the extreme of a block without its NaNs, and whether it has any."""
    width, unroll = plan.width, plan.unroll
    nothing = identity(plan.kind, plan.wide)
    best = registers(unroll, plan.wide, width, nothing)
    strange = registers(unroll, bool_, width, False)
    whole = (end - begin) // (width * unroll) * (width * unroll)
    for i in loop_range(begin, begin + whole, width * unroll):
        for u in range(unroll):
            value = element(x, plan, base + i + u * width, None)
            best[u] = chosen(plan.kind, best[u], value)
            strange[u] = strange[u] | (value != value)
    for i in loop_range(begin + whole, end, width):
        value = element(x, plan, base + i, end - i)
        value = select(lanes(width, i) < end - i, value, nothing)
        best[0] = chosen(plan.kind, best[0], value)
        strange[0] = strange[0] | (value != value)
    found = tree("any", list(strange))
    name = "max" if plan.kind == "argmax" else "min"
    return vreduce(name, chosen_of(plan.kind, list(best))), vreduce("or", found)


def chosen(kind: str, a: Any, b: Any) -> Any:
    """Return the better of two values; a NaN b is never chosen."""
    return select(b > a if kind == "argmax" else b < a, b, a)


def chosen_of(kind: str, values: list[Any]) -> Any:
    """Return the best of values."""
    made = values[0]
    for value in values[1:]:
        made = chosen(kind, made, value)
    return made


@helper
def search(
    x: Any, plan: PlacePlan, base: Any, begin: Any, end: Any, value: Any, strange: bool
) -> Any:
    """Return the index of the first occurrence of a value in a block, or of NaN."""
    width, unroll, index = plan.width, plan.unroll, plan.index
    none = identity("min", index)
    found = registers(unroll, index, width, none)
    numbers = registers(1, index, width)
    numbers[0] = constant(tuple(range(width)), index)
    whole = (end - begin) // (width * unroll) * (width * unroll)
    for i in loop_range(begin, begin + whole, width * unroll):
        for u in range(unroll):
            taken = element(x, plan, base + i + u * width, None)
            hit = taken != taken if strange else taken == value
            found[u] = min(found[u], select(hit, numbers[0] + u * width, none))
        numbers[0] = numbers[0] + unroll * width
    for i in loop_range(begin + whole, end, width):
        taken = element(x, plan, base + i, end - i)
        hit = taken != taken if strange else taken == value
        hit = hit & (lanes(width, i) < end - i)
        found[0] = min(found[0], select(hit, numbers[0], none))
        numbers[0] = numbers[0] + width
    return vreduce("min", tree("min", list(found))) + cast(begin, index)


@kernel
def places_of_columns(*arguments: Any, plan: PlacePlan) -> None:
    """Find indices along an axis, for vectors of adjacent results.

    Arguments: x, the values if ``partial``, the indices; all blocks, blocks of a cube, blocks side
    by side, the number of such rows of blocks; columns, terms, terms of a part, the stride of parts
    in the results; the stride of the axis; sizes of the axes, strides of x and of the results.
    """
    x, *targets = arguments[: 2 + plan.partial]
    tasks, turns, blocks, outers, columns, terms, chunk, apart, step, *rest = arguments[
        2 + plan.partial :
    ]
    sizes, strides = rest[: plan.kept], rest[plan.kept : 2 * plan.kept]
    written, width = rest[2 * plan.kept :], plan.width
    best = private(plan.size, plan.wide, align=64)
    place = private(plan.size, plan.index, align=64)
    first = cube_position() * turns
    for task in loop_range(first, min(first + turns, tasks)):
        column, group = task % blocks * plan.size, task // blocks
        position = unravel(group % outers, sizes)
        part = group // outers
        base = offset_of(position, strides) + column
        to = offset_of(position, written) + part * apart + column
        begin = part * chunk
        end = min(begin + chunk, terms)
        count = min(columns - column, plan.size)
        for v in loop_range(0, count, width):
            best.store(v, constant(identity(plan.kind, plan.wide), plan.wide, width))
            place.store(v, splat(cast(begin, plan.index), width))
        whole = begin + (end - begin) // plan.unroll * plan.unroll
        for r in loop_range(begin, whole, plan.unroll):
            compare(x, plan, best, place, base + r * step, step, r, plan.unroll, count)
        for r in loop_range(whole, end):
            compare(x, plan, best, place, base + r * step, step, r, 1, count)
        for v in loop_range(0, count, width):
            inside = lanes(width, v) < count - v
            if plan.partial:
                targets[0].store(to + v, best.load(v, width), mask=inside)
                targets[1].store(to + v, place.load(v, width), mask=inside)
            else:
                targets[0].store(to + v, cast(place.load(v, width), int64), mask=inside)


@helper
def compare(
    x: Any,
    plan: PlacePlan,
    best: Any,
    place: Any,
    at: Any,
    step: Any,
    first: Any,
    rows: int,
    count: Any,
) -> None:
    """Update the best values and their indices by some rows."""
    width = plan.width
    numbers = [splat(cast(first + r, plan.index), width) for r in range(rows)]
    starts = [at + r * step for r in range(rows)]
    whole = count // width * width
    for v in loop_range(0, whole, width):
        compare_vectors(
            x, plan, best, place, [at + r * step for r in range(rows)], numbers, v, None
        )
    if whole < count:
        starts = [at + r * step for r in range(rows)]
        compare_vectors(x, plan, best, place, starts, numbers, whole, count - whole)


def compare_vectors(
    x: Any,
    plan: PlacePlan,
    best: Any,
    place: Any,
    starts: list[Any],
    numbers: list[Any],
    v: Any,
    rest: Any,
) -> None:
    """Update the best values and their indices by a vector of each of some rows."""
    value, number = best.load(v, plan.width), place.load(v, plan.width)
    for start, row in zip(starts, numbers, strict=True):
        taken = element(x, plan, start + v, rest)
        better = beats(plan.kind, taken, value)
        value, number = select(better, taken, value), select(better, row, number)
    best.store(v, value)
    place.store(v, number)


@kernel
def join_places(
    values: Any, places: Any, out: Any, results: Any, parts: Any, *, plan: PlacePlan
) -> None:
    """Write the index of the best of ``parts`` values; parts follow one another."""
    first, width = cube_position() * plan.width, plan.width
    rest = results - first
    inside = lanes(width, first) < rest
    best = values.load(first, width, mask=inside)
    place = places.load(first, width, mask=inside)
    for part in loop_range(1, parts):
        at = part * results + first
        value = values.load(at, width, mask=inside)
        better = beats(plan.kind, value, best)
        best = select(better, value, best)
        place = select(better, places.load(at, width, mask=inside), place)
    out.store(first, cast(place, int64), mask=inside)
