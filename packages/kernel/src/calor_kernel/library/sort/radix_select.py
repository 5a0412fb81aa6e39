"""The first few elements of a sort, found by digits, with cubes of many units.

Requirements: an element is read once, compared with the greatest of those that may still be among
the first, and most are no more than that; those that pass are held in a cube's memory, and when it
is full the first of them are found by counting digits from the uppermost on (Alabi et al., "Fast
k-selection algorithms for graphics processing units", 2012); the order is that of the stable sort:
by key, then by index. Long rows have several cubes, and what each keeps is selected from again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType, int32, int64, uint32, uint64
from calor_kernel.language import (
    Pointer,
    barrier,
    constant,
    cube_position,
    cube_size,
    helper,
    kernel,
    loop_range,
    select,
    shared,
    unit_position,
    unravel,
)
from calor_kernel.library.sort.keys import key_of
from calor_kernel.library.sort.radix import put_element
from calor_kernel.library.sort.ranks import exclusive_in_cube, planes

_LAST = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class SelectPlan:
    """How a cube selects.

    ``source``: the type of the elements; ``bits``: of a digit. ``width``: lanes of an access;
    ``vectors``: accesses of a unit in a step. ``room``: elements that a cube holds, a step more at
    least than ``most``, which bounds how many are selected. ``again``: whether keys and indices of
    candidates are read instead of elements; ``wanted``: whether values and indices are written,
    both False where candidates are.
    """

    source: DType
    descending: bool
    bits: int
    width: int
    vectors: int
    room: int
    most: int
    again: bool
    wanted: tuple[bool, bool]

    @property
    def word(self) -> DType:
        """The type of keys where a cube holds them."""
        return uint64 if self.source.itemsize == 8 else uint32

    @property
    def last(self) -> bool:
        """Whether elements are written in their order, not candidates in any."""
        return any(self.wanted)


@dataclass(slots=True)
class Pool:
    """What a cube holds: keys and their indices, and what it counts with.

    ``said``: how many are held; the digit of the last one that is kept, its number among those of
    that digit, and their count; how many are dropped in front, and kept behind.
    """

    keys: Pointer
    order: Pointer
    holes: Pointer
    bins: Pointer
    room: Pointer
    said: Pointer

    @staticmethod
    def of(plan: SelectPlan) -> Pool:
        """Return the shared memory of a cube."""
        sizes = (plan.most, 1 << plan.bits, max(planes(), 1), 6)
        holes, bins, room, said = (shared(size, int32) for size in sizes)
        return Pool(
            shared(plan.room, plan.word), shared(plan.room, uint32), holes, bins, room, said
        )


@kernel
def select_front(
    source: Any,
    keys: Any,
    order: Any,
    values: Any,
    indices: Any,
    parts: Any,
    n: Any,
    whole: Any,
    count: Any,
    *,
    plan: SelectPlan,
) -> None:
    """Select the ``count`` first elements of each of ``parts`` parts of rows of n.

    ``keys`` and ``order``: elements, or keys and indices of candidates for rows of ``whole``
    elements of the source. Parts have ``count`` elements at least.
    """
    pool, unit = Pool.of(plan), unit_position()
    row, part = unravel(cube_position(), (1, parts))
    steps = n // plan.width
    begin, end = part * steps // parts * plan.width, (part + 1) * steps // parts * plan.width
    given, beside = keys.at(row * n), order.at(row * n)
    wanted = count.to(int32)
    held = min(end - begin, plan.room).to(int32)
    for i in loop_range(unit.to(int32), held, cube_size(), unroll=4):
        key, own = taken(given, beside, begin + i.to(int64), plan)
        pool.keys[i] = key
        pool.order[i] = own
    barrier()
    at = begin + held.to(int64)
    limit, limit_order = constant(0, plan.word), constant(0, uint32)
    step = cube_size() * plan.width * plan.vectors
    left = end - at + max(held - wanted, 0).to(int64)
    while left > 0:
        # The steps that surely find room.
        turns = select(at < end, (plan.room - held) // step, 0)
        while turns > 0:
            if unit == 0:
                pool.said[0] = held
            barrier()
            stop = min(at + (turns * step).to(int64), end)
            for first in loop_range(at, stop, step):
                take_step(pool, given, beside, first, stop, limit, limit_order, plan)
            barrier()
            at = stop
            held = pool.said[0]
            barrier()
            turns = select(at < end, (plan.room - held) // step, 0)
        limit, limit_order = keep_first(pool, held, wanted, limit, limit_order, plan)
        held = min(held, wanted)
        left = end - at
    begin = (row * parts + part) * count
    for i in loop_range(unit.to(int32), wanted, cube_size()):
        key, own = pool.keys[i], pool.order[i]
        if plan.last:
            to = begin + rank_of(pool, key, own, wanted).to(int64)
            if plan.wanted[0]:
                put_element(source, values, row * whole, to, key, own, plan.descending)
            if plan.wanted[1]:
                indices[to] = own.to(int64)
        else:
            values[begin + i.to(int64)] = key
            indices[begin + i.to(int64)] = own


@helper
def taken(given: Any, beside: Any, place: Any, plan: SelectPlan) -> tuple[Any, Any]:
    """Return the key and the index of one element of a row."""
    if plan.again:
        return given[place], beside[place]
    return key_of(given[place], plan.descending).to(plan.word), place.to(uint32)


@helper
def take_step(
    pool: Pool,
    given: Any,
    beside: Any,
    first: Any,
    stop: Any,
    limit: Any,
    limit_order: Any,
    plan: SelectPlan,
) -> None:
    """Add what comes before the limit among the elements of a step, which ends at ``stop``."""
    width = plan.width
    places = [first + (v * cube_size() + unit_position()) * width for v in range(plan.vectors)]
    # What lies beyond the end is read elsewhere, so that all accesses are under way together.
    found = [given.load(min(place, stop - width), width) for place in places]
    if plan.again:
        orders = [beside[min(place, stop - width)] for place in places]
        for place, key, own in zip(places, found, orders, strict=True):
            before = (key < limit) | ((key == limit) & (own < limit_order))
            if (place < stop) & before:
                add(pool, key, own)
    else:
        for place, x in zip(places, found, strict=True):
            vector = key_of(x, plan.descending).to(plan.word)
            lanes = [vector[lane] if width > 1 else vector for lane in range(width)]
            some = lanes[0] < limit
            for key in lanes[1:]:
                some = some | (key < limit)
            if (place < stop) & some:
                for lane, key in enumerate(lanes):
                    # An equal one comes later, for its index is greater.
                    if key < limit:
                        add(pool, key, (place + lane).to(uint32))


def add(pool: Pool, key: Any, own: Any) -> None:
    """Hold one more element."""
    slot = pool.said.atomic("add", 0, constant(1, int32))
    pool.keys[slot] = key
    pool.order[slot] = own


@helper
def keep_first(
    pool: Pool, held: Any, count: Any, limit: Any, limit_order: Any, plan: SelectPlan
) -> tuple[Any, Any]:
    """Move the first ``count`` of those held to the front; return a bound of their keys and order.

    What comes later in the row must be before these to be among the first. Where no more are held,
    nothing is done.
    """
    if unit_position() == 0:
        pool.said[4] = constant(0, int32)
        pool.said[5] = constant(0, int32)
    bits, word = plan.bits, plan.word
    shift: Any = constant(8 * plan.source.itemsize, word)
    prefix: Any = constant(0, word)
    need, few = count + 0, held <= count
    exact, by_order, last = few, count < 0, constant(0, word)
    while not exact:
        # Of equal keys those with the least indices are kept, which are digits below the keys'.
        turn = shift == 0
        last = select(turn, prefix, last)
        by_order = by_order | turn
        prefix = select(turn, constant(0, word), prefix)
        shift = select(turn, constant(32, word), shift) - bits
        count_digits_held(pool, held, prefix, shift, last, by_order, plan)
        digit, need, exact = found_digit(pool, need, plan)
        prefix = (prefix << bits) | digit.to(word)
    low = min(shift, 8 * word.itemsize - bits)
    upto = (prefix << low) | ((constant(1, word) << low) - 1)
    limit = select(few, limit, select(by_order, last, upto))
    kept_order = select(by_order, upto.to(uint32), constant(_LAST, uint32))
    limit_order = select(few, limit_order, kept_order)
    for i in loop_range(unit_position().to(int32), select(few, 0, count), cube_size()):
        if not is_kept(pool, i, limit, limit_order):
            pool.holes[pool.said.atomic("add", 4, constant(1, int32))] = i
    barrier()
    for i in loop_range(count + unit_position().to(int32), held, cube_size()):
        if is_kept(pool, i, limit, limit_order):
            to = pool.holes[pool.said.atomic("add", 5, constant(1, int32))]
            pool.keys[to] = pool.keys[i]
            pool.order[to] = pool.order[i]
    barrier()
    return limit, limit_order


def is_kept(pool: Pool, i: Any, limit: Any, limit_order: Any) -> Any:
    """Return whether an element that is held is among the first."""
    key = pool.keys[i]
    return (key < limit) | ((key == limit) & (pool.order[i] <= limit_order))


@helper
def count_digits_held(
    pool: Pool, held: Any, prefix: Any, shift: Any, limit: Any, by_order: Any, plan: SelectPlan
) -> None:
    """Count the digits above ``shift`` of keys that begin with a prefix.

    ``by_order``: of indices, of those whose keys are ``limit``.
    """
    digits = 1 << plan.bits
    for i in loop_range(unit_position(), digits, cube_size()):
        pool.bins[i] = constant(0, int32)
    barrier()
    for i in loop_range(unit_position().to(int32), held, cube_size(), unroll=4):
        key = pool.keys[i]
        upper = select(by_order, pool.order[i].to(plan.word), key) >> shift
        alike = ((upper >> plan.bits) == prefix) & ((key == limit) | (by_order ^ True))
        if alike:
            pool.bins.atomic("add", (upper & (digits - 1)).to(int32), constant(1, int32))
    barrier()


@helper
def found_digit(pool: Pool, need: Any, plan: SelectPlan) -> tuple[Any, Any, Any]:
    """Return the digit of the element number ``need``, from 1, by the counts of digits.

    Besides, its number among those of the digit, and whether it is their last.
    """
    unit = unit_position().to(int32)
    own = constant(0, int32)
    if unit < 1 << plan.bits:
        own = pool.bins[unit]
    before = exclusive_in_cube(own, pool.room)
    if (before < need) & (need <= before + own):
        pool.said[1] = unit
        pool.said[2] = need - before
        pool.said[3] = own
    barrier()
    return pool.said[1], pool.said[2], pool.said[2] == pool.said[3]


@helper
def rank_of(pool: Pool, key: Any, own: Any, count: Any) -> Any:
    """Return how many of those kept come before one of them."""
    rank = constant(0, int32)
    for j in loop_range(constant(0, int32), count, 1, unroll=4):
        other = pool.keys[j]
        before = (other < key) | ((other == key) & (pool.order[j] < own))
        rank = rank + before.to(int32)
    return rank
