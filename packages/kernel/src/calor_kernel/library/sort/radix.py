"""Radix sort with cubes of many units: a launch for each digit, or one launch for short rows.

Requirements: stable; keys and indices move together. The first pass reads elements and the last one
writes them, so there is no separate pass over them; values are the source's, bit for bit. A tile is
sorted in shared memory before it is written, so that equal digits are written together (Satish,
Harris and Garland, 2009; Merrill and Grimshaw, 2011). Tiles get their offsets from scanned counts,
or by look-back (Adinets and Merrill, "Onesweep", 2022).
"""

from __future__ import annotations

from calor.dtypes import int32, int64
from calor_kernel import language as kl
from calor_kernel.ir.types import UNSIGNED
from calor_kernel.library.arrivals import ticket
from calor_kernel.library.reduce.reduction_ops import ReductionOp
from calor_kernel.library.scan.decoupled_look_back import look_back
from calor_kernel.library.sort.keys import infinity_bits, key_of, value_of
from calor_kernel.library.sort.ranks import (
    Bins,
    RadixPlan,
    digit_of,
    exclusive_in_cube,
    item_indices,
    ranks_of,
    scan_bins,
    sorted_indices,
)

_SUM = ReductionOp("sum", int32)


@kl.kernel
def count_all_digits(
    source: kl.In, counts: kl.InOut, tiles: kl.Size, turns: kl.Size, n: kl.Size, *, plan: RadixPlan
) -> None:
    """Add the occurrences of each digit of the keys to ``counts[row, pass, digit]``.

    Rows of n elements have ``tiles``, of which a cube counts ``turns``.
    """
    passes, size = -(-plan.word.itemsize * 8 // plan.bits), plan.digits
    bins = kl.shared(passes * size, int32)
    for i in kl.loop_range(kl.unit_position(), passes * size, kl.cube_size()):
        bins[i] = kl.constant(0, int32)
    kl.barrier()
    across = (tiles + turns - 1) // turns
    row, group = kl.unravel(kl.cube_position(), (1, across))
    begin = group * turns * (plan.items * kl.cube_size())
    end = kl.min(begin + turns * (plan.items * kl.cube_size()), n)
    for i in kl.loop_range(begin + kl.unit_position(), end, kl.cube_size(), unroll=4):
        key = key_of(source[row * n + i], plan.descending)
        for number in range(passes):
            at = digit_of(key, number * plan.bits, plan.bits)
            bins.atomic("add", at + number * size, kl.constant(1, int32))
    kl.barrier()
    for i in kl.loop_range(kl.unit_position(), passes * size, kl.cube_size()):
        if bins[i] > 0:
            counts.atomic("add", row * (passes * size) + i, bins[i])


@kl.kernel
def count_tile_digits(
    keys: kl.In, counts: kl.Out, tiles: kl.Size, n: kl.Size, *, plan: RadixPlan
) -> None:
    """Write ``counts[row, digit, tile]``: the occurrences of each digit in each tile of a row."""
    size, tile = plan.digits, plan.items * kl.cube_size()
    bins = kl.shared(size, int32)
    for i in kl.loop_range(kl.unit_position(), size, kl.cube_size()):
        bins[i] = kl.constant(0, int32)
    kl.barrier()
    row, part = kl.unravel(kl.cube_position(), (1, tiles))
    begin = part * tile
    for i in kl.loop_range(
        begin + kl.unit_position(), kl.min(begin + tile, n), kl.cube_size(), unroll=4
    ):
        key = key_at(keys, row * n + i, plan)
        bins.atomic("add", digit_of(key, plan.shift, plan.bits), kl.constant(1, int32))
    kl.barrier()
    for i in kl.loop_range(kl.unit_position(), size, kl.cube_size()):
        counts[(row * size + i) * tiles + part] = bins[i]


@kl.kernel
def move_by_digit(
    original: kl.In,
    keys: kl.In,
    order: kl.In,
    counts: kl.In,
    words: kl.InOut | None,
    moved: kl.Out,
    moved_order: kl.Out,
    tiles: kl.Size,
    n: kl.Size,
    passes: kl.Size,
    *,
    plan: RadixPlan,
) -> None:
    """Move the elements of each tile of a row to their positions by a digit.

    ``counts``: scanned ``counts[row, digit, tile]``. With ``words`` tiles look back: counts are
    ``counts[row, pass, digit]`` of whole rows; words, cleared before, are the ticket and then a
    word for each digit of each tile. The first pass does not read ``order``.
    """
    kl.launch_attributes(cubes_per_core=resident_cubes())
    size, unit = plan.digits, kl.unit_position()
    tile = plan.items * kl.cube_size()
    bins, bases = Bins.of(size), kl.shared(size, int32)
    staged, staged_order = kl.shared(tile, plan.word), kl.shared(tile, int32)
    item = kl.cube_position() if words is None else ticket(words, bins.slots)
    row, part = kl.unravel(item, (1, tiles))
    begin = part * tile
    count = kl.min(n - begin, tile).to(int32)
    # Padding beyond the end has the greatest digit and the last ranks.
    last = kl.constant((1 << 8 * plan.word.itemsize) - 1, plan.word)
    numbers = item_indices(plan.items)
    source = keys.at(row * n + begin)
    found = [key_at(source, kl.min(i, count - 1), plan) for i in numbers]
    found = [kl.select(i < count, key, last) for i, key in zip(numbers, found, strict=True)]
    digits = [digit_of(key, plan.shift, plan.bits) for key in found]
    ranks = ranks_of(bins, digits, plan.bits)
    total = scan_bins(bins, plan.bits)
    greatest = ((1 << 8 * plan.word.itemsize) - 1 >> plan.shift) & (size - 1)
    total = total - kl.select(unit == greatest, tile - count, 0)
    if words is not None:
        number = (row * passes + plan.shift // plan.bits) * size
        whole = kl.constant(0, int32)
        if unit < size:
            whole = counts[number + unit]
        begun = exclusive_in_cube(whole, bins.slots)
        if unit < size:
            states, own = words.at(1), item * size + unit
            earlier = look_back(states, own, part, size, total, _SUM, 1)
            bases[unit] = begun + earlier - bins.starts[unit]
    else:
        if unit < size:
            upto = counts[(row * size + unit) * tiles + part]
            bases[unit] = upto - total - bins.starts[unit]
    where = sorted_indices(bins, digits, ranks, plan.bits)
    for i, key, to in zip(numbers, found, where, strict=True):
        staged[to] = key
        own = begin.to(int32) + i
        if not plan.first:
            own = order.at(row * n + begin)[kl.min(i, count - 1)]
        staged_order[to] = own
    kl.barrier()
    for k in range(plan.items):
        j = unit.to(int32) + k * kl.cube_size()
        if j < count:
            key, own = staged[j], staged_order[j]
            base = bases[digit_of(key, plan.shift, plan.bits)]
            index = row * n + (base + j).to(int64)
            if plan.last:
                put_element(original, moved, row * n, index, key, own, plan.descending)
                moved_order[index] = own.to(int64)
            else:
                moved[index] = key
                moved_order[index] = own


@kl.kernel
def sort_in_cube(
    source: kl.In, values: kl.Out, indices: kl.Out, n: kl.Size, *, plan: RadixPlan
) -> None:
    """Sort rows of n elements, at most a tile, in shared memory."""
    kl.launch_attributes(cubes_per_core=resident_cubes())
    tile, unit = plan.items * kl.cube_size(), kl.unit_position()
    bins = Bins.of(plan.digits)
    staged, staged_order = kl.shared(tile, plan.word), kl.shared(tile, int32)
    start = kl.cube_position() * n
    last = kl.constant((1 << 8 * plan.word.itemsize) - 1, plan.word)
    numbers, count = item_indices(plan.items), n.to(int32)
    elements = source.at(start)
    for i in numbers:
        key = key_of(elements[kl.min(i, count - 1)], plan.descending)
        staged[i] = kl.select(i < count, key, last)
        staged_order[i] = i
    kl.barrier()
    for shift in kl.loop_range(0, 8 * plan.word.itemsize, plan.bits):
        found = [staged[i] for i in numbers]
        orders = [staged_order[i] for i in numbers]
        digits = [digit_of(key, shift, plan.bits) for key in found]
        ranks = ranks_of(bins, digits, plan.bits)
        scan_bins(bins, plan.bits)
        where = sorted_indices(bins, digits, ranks, plan.bits)
        for key, own, to in zip(found, orders, where, strict=True):
            staged[to] = key
            staged_order[to] = own
        kl.barrier()
    for k in range(plan.items):
        j = unit.to(int32) + k * kl.cube_size()
        if j < count:
            own = staged_order[j]
            to = start + j.to(int64)
            put_element(source, values, start, to, staged[j], own, plan.descending)
            indices[to] = own.to(int64)


def resident_cubes() -> int:
    """Return the cubes of a core: as many as leave 64 registers to each unit."""
    return kl.max(1, 1024 // kl.cube_size())


def key_at(keys: kl.Pointer, at: kl.Number, plan: RadixPlan) -> kl.Number:
    """Return the key at an index; the first pass computes it from the element."""
    return key_of(keys[at], plan.descending) if plan.first else keys[at]


@kl.helper
def put_element(
    source: kl.Pointer,
    values: kl.Pointer,
    start: kl.Number,
    to: kl.Number,
    key: kl.Number,
    own: kl.Number,
    descending: bool,
) -> None:
    """Write the element of a key; zeros and NaN, whose keys are ambiguous, come from the source."""
    dtype = source.dtype
    value = value_of(key, dtype, descending)
    if dtype.kind == "float":
        bits = UNSIGNED[dtype.itemsize]
        raw = kl.bitcast(value, bits)
        magnitude = raw & kl.constant((1 << (8 * dtype.itemsize - 1)) - 1, bits)
        if (magnitude == 0) | (magnitude > kl.constant(infinity_bits(dtype), bits)):
            value = source[start + own.to(int64)]
    values[to] = value
