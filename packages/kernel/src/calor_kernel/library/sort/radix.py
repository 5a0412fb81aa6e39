"""Sorting by digits with cubes of many units: a launch a digit, or short rows in one.

Requirements: stable; keys and indices move together, and the first and the last pass take and give
the elements themselves, so that nothing is read beside them; values are the source's, bit for bit.
A tile is sorted in shared memory before it is written, so that equal digits are written together
(Satish, Harris and Garland, 2009; Merrill and Grimshaw, 2011); tiles find their places from scanned
counts, or by looking back at those before them (Adinets and Merrill, "Onesweep", 2022).
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import int32, int64
from calor_kernel.language import (
    barrier,
    bitcast,
    constant,
    cube_position,
    cube_size,
    helper,
    kernel,
    launch_attributes,
    loop_range,
    select,
    shared,
    unit_position,
    unravel,
)
from calor_kernel.library.scan.decoupled_look_back import look_back, ticket
from calor_kernel.library.scan.scan_op import ScanOp
from calor_kernel.library.sort.keys import UNSIGNED, infinity_bits, key_of, value_of
from calor_kernel.library.sort.ranks import (
    Bins,
    RadixPlan,
    digit_of,
    exclusive_in_cube,
    item_places,
    places_of,
    ranks_of,
    settle_bins,
)

_SUM = ScanOp("sum", int32, 0)


@kernel
def count_all_digits(
    source: Any, counts: Any, tiles: Any, turns: Any, n: Any, *, plan: RadixPlan
) -> None:
    """Add to ``counts[row, pass, digit]`` how often each digit of the keys of n elements stands.

    A cube takes ``turns`` tiles of a row, of which there are ``tiles``.
    """
    passes, size = -(-plan.word.itemsize * 8 // plan.bits), plan.digits
    bins = shared(passes * size, int32)
    for i in loop_range(unit_position(), passes * size, cube_size()):
        bins[i] = constant(0, int32)
    barrier()
    across = (tiles + turns - 1) // turns
    row, group = unravel(cube_position(), (1, across))
    begin = group * turns * (plan.items * cube_size())
    end = min(begin + turns * (plan.items * cube_size()), n)
    for i in loop_range(begin + unit_position(), end, cube_size(), unroll=4):
        key = key_of(source[row * n + i], plan.descending)
        for number in range(passes):
            at = digit_of(key, number * plan.bits, plan.bits)
            bins.atomic("add", at + number * size, constant(1, int32))
    barrier()
    for i in loop_range(unit_position(), passes * size, cube_size()):
        if bins[i] > 0:
            counts.atomic("add", row * (passes * size) + i, bins[i])


@kernel
def count_tile_digits(keys: Any, counts: Any, tiles: Any, n: Any, *, plan: RadixPlan) -> None:
    """Write ``counts[row, digit, tile]``: how often each digit stands in each tile of a row."""
    size, tile = plan.digits, plan.items * cube_size()
    bins = shared(size, int32)
    for i in loop_range(unit_position(), size, cube_size()):
        bins[i] = constant(0, int32)
    barrier()
    row, part = unravel(cube_position(), (1, tiles))
    begin = part * tile
    for i in loop_range(begin + unit_position(), min(begin + tile, n), cube_size(), unroll=4):
        key = key_at(keys, row * n + i, plan)
        bins.atomic("add", digit_of(key, plan.shift, plan.bits), constant(1, int32))
    barrier()
    for i in loop_range(unit_position(), size, cube_size()):
        counts[(row * size + i) * tiles + part] = bins[i]


@kernel
def move_by_digit(
    original: Any,
    keys: Any,
    order: Any,
    counts: Any,
    words: Any,
    moved: Any,
    moved_order: Any,
    tiles: Any,
    n: Any,
    passes: Any,
    *,
    plan: RadixPlan,
) -> None:
    """Write the elements of each tile of a row to their places for a digit.

    ``counts``: scanned ``counts[row, digit, tile]``; where tiles look back those of whole rows,
    ``[row, pass, digit]``, and ``words`` are 0 before: the last but one of the tiles' words are the
    tickets, and the last ones the digits of each tile.
    """
    launch_attributes(cubes_per_core=cubes_beside())
    size, unit = plan.digits, unit_position()
    tile = plan.items * cube_size()
    bins, bases = Bins.of(size), shared(size, int32)
    staged, staged_order = shared(tile, plan.word), shared(tile, int32)
    item = ticket(words, bins.room) if plan.looks_back else cube_position()
    row, part = unravel(item, (1, tiles))
    begin = part * tile
    count = min(n - begin, tile).to(int32)
    # What lies beyond the end has the greatest digit, and the last places.
    last = constant((1 << 8 * plan.word.itemsize) - 1, plan.word)
    numbers = item_places(plan.items)
    source = keys.at(row * n + begin)
    found = [key_at(source, min(i, count - 1), plan) for i in numbers]
    found = [select(i < count, key, last) for i, key in zip(numbers, found, strict=True)]
    digits = [digit_of(key, plan.shift, plan.bits) for key in found]
    ranks = ranks_of(bins, digits, plan.bits)
    total = settle_bins(bins, plan.bits)
    greatest = ((1 << 8 * plan.word.itemsize) - 1 >> plan.shift) & (size - 1)
    total = total - select(unit == greatest, tile - count, 0)
    if plan.looks_back:
        number = (row * passes + plan.shift // plan.bits) * size
        whole = constant(0, int32)
        if unit < size:
            whole = counts[number + unit]
        begun = exclusive_in_cube(whole, bins.room)
        if unit < size:
            said, own = words.at(1), item * size + unit
            earlier = look_back(said, own, part, size, total, _SUM, 1)
            bases[unit] = begun + earlier - bins.starts[unit]
    else:
        if unit < size:
            upto = counts[(row * size + unit) * tiles + part]
            bases[unit] = upto - total - bins.starts[unit]
    where = places_of(bins, digits, ranks, plan.bits)
    for i, key, to in zip(numbers, found, where, strict=True):
        staged[to] = key
        own = begin.to(int32) + i
        if not plan.first:
            own = order.at(row * n + begin)[min(i, count - 1)]
        staged_order[to] = own
    barrier()
    for k in range(plan.items):
        j = unit.to(int32) + k * cube_size()
        if j < count:
            key, own = staged[j], staged_order[j]
            base = bases[digit_of(key, plan.shift, plan.bits)]
            place = row * n + (base + j).to(int64)
            if plan.last:
                put_element(original, moved, row * n, place, key, own, plan.descending)
                moved_order[place] = own.to(int64)
            else:
                moved[place] = key
                moved_order[place] = own


@kernel
def sort_in_cube(source: Any, values: Any, indices: Any, n: Any, *, plan: RadixPlan) -> None:
    """Sort rows of n elements, each of which is a tile or less, in the memory of a cube."""
    launch_attributes(cubes_per_core=cubes_beside())
    tile, unit = plan.items * cube_size(), unit_position()
    bins = Bins.of(plan.digits)
    staged, staged_order = shared(tile, plan.word), shared(tile, int32)
    start = cube_position() * n
    last = constant((1 << 8 * plan.word.itemsize) - 1, plan.word)
    numbers, count = item_places(plan.items), n.to(int32)
    elements = source.at(start)
    for i in numbers:
        key = key_of(elements[min(i, count - 1)], plan.descending)
        staged[i] = select(i < count, key, last)
        staged_order[i] = i
    barrier()
    for shift in loop_range(0, 8 * plan.word.itemsize, plan.bits):
        found = [staged[i] for i in numbers]
        orders = [staged_order[i] for i in numbers]
        digits = [digit_of(key, shift, plan.bits) for key in found]
        ranks = ranks_of(bins, digits, plan.bits)
        settle_bins(bins, plan.bits)
        where = places_of(bins, digits, ranks, plan.bits)
        for key, own, to in zip(found, orders, where, strict=True):
            staged[to] = key
            staged_order[to] = own
        barrier()
    for k in range(plan.items):
        j = unit.to(int32) + k * cube_size()
        if j < count:
            own = staged_order[j]
            to = start + j.to(int64)
            put_element(source, values, start, to, staged[j], own, plan.descending)
            indices[to] = own.to(int64)


def cubes_beside() -> int:
    """Return how many cubes shall run beside each other: as many as have 64 registers a unit."""
    return max(1, 1024 // cube_size())


def key_at(keys: Any, place: Any, plan: RadixPlan) -> Any:
    """Return a key, of an element in the first pass."""
    return key_of(keys[place], plan.descending) if plan.first else keys[place]


@helper
def put_element(
    source: Any, values: Any, start: Any, to: Any, key: Any, own: Any, descending: bool
) -> None:
    """Write the element of a key; zeros and NaN, of which keys tell less, are the source's."""
    dtype = source.dtype
    value: Any = value_of(key, dtype, descending)
    if dtype.kind == "float":
        bits = UNSIGNED[dtype.itemsize]
        raw = bitcast(value, bits)
        magnitude: Any = raw & constant((1 << (8 * dtype.itemsize - 1)) - 1, bits)
        if (magnitude == 0) | (magnitude > constant(infinity_bits(dtype), bits)):
            value = source[start + own.to(int64)]
    values[to] = value
