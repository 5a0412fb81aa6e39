"""The first few elements of a sort by radix selection, with cubes of many units.

Requirements: an element is read once and compared with the current limit, and most are then
rejected. Accepted elements go to shared memory; when it is full, counting digits from the uppermost
one finds the first of them and the new limit (Alabi et al., "Fast k-selection algorithms for
graphics processing units", 2012). The order is that of the stable sort: by key, then by index. Long
rows are divided among cubes, and the candidates of the cubes are selected from again.
"""

from __future__ import annotations

from dataclasses import dataclass

from calor.dtypes import DType, int32, int64, uint32, uint64
from calor_kernel import language as kl
from calor_kernel.library.sort.keys import key_of
from calor_kernel.library.sort.radix import put_element
from calor_kernel.library.sort.ranks import exclusive_in_cube, planes

_LAST = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class SelectPlan:
    """The work of a cube.

    ``source``: the dtype of elements; ``bits``: of a digit. ``width``: lanes of an access;
    ``vectors``: accesses of a unit in a step. ``room``: elements in shared memory, at least a step
    more than ``most``, the bound of selected elements. ``again``: the input is keys and indices of
    candidates. ``wanted``: whether values and indices are written; both are False if candidates
    are.
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
        """The dtype of keys in shared memory."""
        return uint64 if self.source.itemsize == 8 else uint32

    @property
    def last(self) -> bool:
        """Whether sorted elements are written; else candidates in any order."""
        return any(self.wanted)


@dataclass(slots=True)
class Selection:
    """The shared memory of a cube: keys with their indices, and counters.

    ``state``: the number of elements; the digit of the last selected element, its rank in that
    digit, and the digit's count; the holes at the front, and the elements moved there.
    """

    plan: SelectPlan
    keys: kl.Pointer
    order: kl.Pointer
    holes: kl.Pointer
    bins: kl.Pointer
    slots: kl.Pointer
    state: kl.Pointer

    @staticmethod
    def of(plan: SelectPlan) -> Selection:
        """Return the shared memory of a cube."""
        sizes = (plan.most, 1 << plan.bits, kl.max(planes(), 1), 6)
        holes, bins, slots, state = (kl.shared(size, int32) for size in sizes)
        keys, order = kl.shared(plan.room, plan.word), kl.shared(plan.room, uint32)
        return Selection(plan, keys, order, holes, bins, slots, state)


@kl.kernel
def select_front(
    source: kl.In,
    keys: kl.In,
    order: kl.In,
    values: kl.Out,
    indices: kl.Out,
    parts: kl.Size,
    n: kl.Size,
    whole: kl.Size,
    count: kl.Size,
    *,
    plan: SelectPlan,
) -> None:
    """Select the first ``count`` elements of each of ``parts`` parts of rows of n.

    ``keys`` and ``order``: elements, or keys and indices of candidates; rows of the source have
    ``whole`` elements. Every part has at least ``count`` elements.
    """
    chosen, unit = Selection.of(plan), kl.unit_position()
    row, part = kl.unravel(kl.cube_position(), (1, parts))
    steps = n // plan.width
    begin, end = part * steps // parts * plan.width, (part + 1) * steps // parts * plan.width
    given, beside = keys.at(row * n), order.at(row * n)
    wanted = count.to(int32)
    filled = kl.min(end - begin, plan.room).to(int32)
    for i in kl.loop_range(unit.to(int32), filled, kl.cube_size(), unroll=4):
        key, own = read_candidate(given, beside, begin + i.to(int64), plan)
        chosen.keys[i] = key
        chosen.order[i] = own
    kl.barrier()
    at = begin + filled.to(int64)
    limit, limit_order = kl.constant(0, plan.word), kl.constant(0, uint32)
    step = kl.cube_size() * plan.width * plan.vectors
    left = end - at + kl.max(filled - wanted, 0).to(int64)
    while left > 0:
        # Steps that fit even if all their elements are accepted.
        turns = kl.select(at < end, (plan.room - filled) // step, 0)
        while turns > 0:
            if unit == 0:
                chosen.state[0] = filled
            kl.barrier()
            stop = kl.min(at + (turns * step).to(int64), end)
            for first in kl.loop_range(at, stop, step):
                take_step(chosen, given, beside, first, stop, (limit, limit_order))
            kl.barrier()
            at = stop
            filled = chosen.state[0]
            kl.barrier()
            turns = kl.select(at < end, (plan.room - filled) // step, 0)
        limit, limit_order = keep_first(chosen, filled, wanted, limit, limit_order)
        filled = kl.min(filled, wanted)
        left = end - at
    begin = (row * parts + part) * count
    for i in kl.loop_range(unit.to(int32), wanted, kl.cube_size()):
        key, own = chosen.keys[i], chosen.order[i]
        if plan.last:
            to = begin + rank_of(chosen, key, own, wanted).to(int64)
            if plan.wanted[0]:
                put_element(source, values, row * whole, to, key, own, plan.descending)
            if plan.wanted[1]:
                indices[to] = own.to(int64)
        else:
            values[begin + i.to(int64)] = key
            indices[begin + i.to(int64)] = own


@kl.helper
def read_candidate(
    given: kl.Pointer, beside: kl.Pointer, at: kl.Number, plan: SelectPlan
) -> tuple[kl.Number, kl.Number]:
    """Return the key and the index of one element of a row."""
    if plan.again:
        return given[at], beside[at]
    return key_of(given[at], plan.descending).to(plan.word), at.to(uint32)


@kl.helper
def take_step(
    chosen: Selection,
    given: kl.Pointer,
    beside: kl.Pointer,
    first: kl.Number,
    stop: kl.Number,
    limits: tuple[kl.Number, kl.Number],
) -> None:
    """Add the elements of a step that come before the limits; ``stop``: the end of the step."""
    plan, (limit, limit_order) = chosen.plan, limits
    width = plan.width
    offsets = [
        first + (v * kl.cube_size() + kl.unit_position()) * width for v in range(plan.vectors)
    ]
    # Accesses beyond the end load the last vector, so that all loads are in flight together.
    found = [given.load(kl.min(at, stop - width), width) for at in offsets]
    if plan.again:
        orders = [beside[kl.min(at, stop - width)] for at in offsets]
        for at, key, own in zip(offsets, found, orders, strict=True):
            before = (key < limit) | ((key == limit) & (own < limit_order))
            if (at < stop) & before:
                add(chosen, key, own)
    else:
        for at, x in zip(offsets, found, strict=True):
            vector = key_of(x, plan.descending).to(plan.word)
            lanes = [vector[lane] if width > 1 else vector for lane in range(width)]
            some = lanes[0] < limit
            for key in lanes[1:]:
                some = some | (key < limit)
            if (at < stop) & some:
                for lane, key in enumerate(lanes):
                    # An equal key comes later, because its index is greater.
                    if key < limit:
                        add(chosen, key, (at + lane).to(uint32))


def add(chosen: Selection, key: kl.Number, own: kl.Number) -> None:
    """Add one element."""
    slot = chosen.state.atomic("add", 0, kl.constant(1, int32))
    chosen.keys[slot] = key
    chosen.order[slot] = own


@kl.helper
def keep_first(
    chosen: Selection, filled: kl.Number, count: kl.Number, limit: kl.Number, limit_order: kl.Number
) -> tuple[kl.Number, kl.Number]:
    """Move the first ``count`` elements to the front; return the new limit of keys and indices.

    Later elements of the row must come before the limit. With no more than ``count`` elements
    nothing changes.
    """
    if kl.unit_position() == 0:
        chosen.state[4] = kl.constant(0, int32)
        chosen.state[5] = kl.constant(0, int32)
    bits, word = chosen.plan.bits, chosen.plan.word
    shift: kl.Number = kl.constant(8 * chosen.plan.source.itemsize, word)
    prefix: kl.Number = kl.constant(0, word)
    need, few = count + 0, filled <= count
    exact, by_order, last = few, count < 0, kl.constant(0, word)
    while not exact:
        # Among equal keys the least indices are selected: indices are digits below the keys'.
        turn = shift == 0
        last = kl.select(turn, prefix, last)
        by_order = by_order | turn
        prefix = kl.select(turn, kl.constant(0, word), prefix)
        shift = kl.select(turn, kl.constant(32, word), shift) - bits
        count_held_digits(chosen, filled, prefix, shift, last, by_order)
        digit, need, exact = found_digit(chosen, need)
        prefix = (prefix << bits) | digit.to(word)
    low = kl.min(shift, 8 * word.itemsize - bits)
    upto = (prefix << low) | ((kl.constant(1, word) << low) - 1)
    limit = kl.select(few, limit, kl.select(by_order, last, upto))
    kept_order = kl.select(by_order, upto.to(uint32), kl.constant(_LAST, uint32))
    limit_order = kl.select(few, limit_order, kept_order)
    for i in kl.loop_range(kl.unit_position().to(int32), kl.select(few, 0, count), kl.cube_size()):
        if not is_selected(chosen, i, limit, limit_order):
            chosen.holes[chosen.state.atomic("add", 4, kl.constant(1, int32))] = i
    kl.barrier()
    for i in kl.loop_range(count + kl.unit_position().to(int32), filled, kl.cube_size()):
        if is_selected(chosen, i, limit, limit_order):
            to = chosen.holes[chosen.state.atomic("add", 5, kl.constant(1, int32))]
            chosen.keys[to] = chosen.keys[i]
            chosen.order[to] = chosen.order[i]
    kl.barrier()
    return limit, limit_order


def is_selected(
    chosen: Selection, i: kl.Number, limit: kl.Number, limit_order: kl.Number
) -> kl.Number:
    """Return whether an element in shared memory is selected."""
    key = chosen.keys[i]
    return (key < limit) | ((key == limit) & (chosen.order[i] <= limit_order))


@kl.helper
def count_held_digits(
    chosen: Selection,
    filled: kl.Number,
    prefix: kl.Number,
    shift: kl.Number,
    limit: kl.Number,
    by_order: kl.Number,
) -> None:
    """Count the digits at the bit ``shift`` of keys that begin with a prefix.

    ``by_order``: count digits of the indices of elements whose key is ``limit``.
    """
    plan = chosen.plan
    digits = 1 << plan.bits
    for i in kl.loop_range(kl.unit_position(), digits, kl.cube_size()):
        chosen.bins[i] = kl.constant(0, int32)
    kl.barrier()
    for i in kl.loop_range(kl.unit_position().to(int32), filled, kl.cube_size(), unroll=4):
        key = chosen.keys[i]
        upper = kl.select(by_order, chosen.order[i].to(plan.word), key) >> shift
        alike = ((upper >> plan.bits) == prefix) & ((key == limit) | (by_order ^ True))
        if alike:
            chosen.bins.atomic("add", (upper & (digits - 1)).to(int32), kl.constant(1, int32))
    kl.barrier()


@kl.helper
def found_digit(chosen: Selection, need: kl.Number) -> tuple[kl.Number, kl.Number, kl.Number]:
    """Return the digit of element number ``need``, from 1, by the counts of digits.

    Return also its number in the digit, and whether it is the last one there.
    """
    unit = kl.unit_position().to(int32)
    own = kl.constant(0, int32)
    if unit < 1 << chosen.plan.bits:
        own = chosen.bins[unit]
    before = exclusive_in_cube(own, chosen.slots)
    if (before < need) & (need <= before + own):
        chosen.state[1] = unit
        chosen.state[2] = need - before
        chosen.state[3] = own
    kl.barrier()
    return chosen.state[1], chosen.state[2], chosen.state[2] == chosen.state[3]


@kl.helper
def rank_of(chosen: Selection, key: kl.Number, own: kl.Number, count: kl.Number) -> kl.Number:
    """Return the rank of an element among the selected ones."""
    rank = kl.constant(0, int32)
    for j in kl.loop_range(kl.constant(0, int32), count, 1, unroll=4):
        other = chosen.keys[j]
        before = (other < key) | ((other == key) & (chosen.order[j] < own))
        rank = rank + before.to(int32)
    return rank
