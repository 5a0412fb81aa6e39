"""A recurrent scan in one launch by multiply-adds of units, which hold its weights.

Requirements: groups of cubes have samples of their own. Adjacent units share a feature: each sums
some terms, and they exchange their sums so that each has whole sums of some samples, of which it
computes the cell. So a step has one barrier, behind the factors. Factors lie in shared memory, at
two places that alternate.
Cubes of a group tell each other their factors by *words* in memory: a number in the lower half, and
the number of the step in the upper one. Who reads a word with the step's number has the number
itself, so there is no count of arrivals and no fence. Words are cleared before the first step, and
a cube writes a word again when it has read those of the step after from all cubes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calor.dtypes import int32, uint32, uint64
from calor_kernel import language as kl
from calor_kernel.library.arrivals import arrive, is_last, leave, ticket, wait_for
from calor_kernel.library.elementwise.values import Value
from calor_kernel.library.recurrence.cell import Cell
from calor_kernel.library.recurrence.stacks import Extent, Feature, Late, Parts, Reader
from calor_kernel.library.recurrence.unit_plan import UnitPlan

# Flags of a group: who left, and the count of arrivals. Behind those of all groups: who left, and
# who started.
LEFT, ARRIVED, FLAGS = 0, 1, 2
# Words that a unit reads together.
_TOGETHER = 8


@kl.kernel
def recur_by_units(
    weight: kl.In,
    first: tuple[kl.In, ...],
    rows: tuple[kl.In, ...],
    held: tuple[kl.In, ...],
    last: tuple[kl.Out, ...],
    stacks: tuple[kl.Out, ...],
    kept: tuple[kl.Out, ...],
    words: kl.InOut | None,
    flags: kl.InOut | None,
    extent: Extent[kl.Number],
    *,
    plan: UnitPlan,
    cell: Cell,
    blocks: tuple[int, ...],
    contexts: tuple[int, ...],
    widths: tuple[int, ...],
    reverse: bool,
) -> None:
    """Run all steps of a scan; each cube has some adjacent features of the samples of its group.

    ``words``: room for the factors of all groups in two steps; other arguments as for
    :func:`calor_kernel.library.recurrence.persistent.recur`.
    """
    kl.launch_attributes(cubes_per_core=1, together=plan.waits)
    which, group = place_of_cube(flags, plan)
    begin = which * plan.features
    mine = [item(plan, extent, begin, group, turn) for turn in range(plan.turns)]
    places = [one.whole for one in mine]
    own = Reader(cell, rows, held, blocks, contexts, extent, begin)
    factors = kl.shared(2 * plan.room, plan.dtype, align=16)
    told = Told(words, flags, group, extent, plan, cell)
    if plan.waits:
        told.clear(mine, begin)
    clear(factors, plan)
    weights = UnitWeights(weight, extent.features, begin, plan, cell)
    carries = [kl.registers(plan.turns, memory.dtype) for memory in first]
    for turn, one in enumerate(places):
        for k, memory in enumerate(first):
            carries[k][turn] = memory.load(own.place(one), mask=one.exists)
    ahead = own.registers(plan.turns)
    own.read_all(ahead, places, 0, reverse)
    stays = [own.stay(one) for one in places]
    parts = Parts.of(cell, stacks, widths)
    late = Late(parts.late, cell, plan.turns)
    kl.barrier()
    if plan.waits:
        told.wait()
    for step in kl.loop_range(extent.length):
        row = extent.length - 1 - step if reverse else step
        target = factors.at(step % 2 * plan.room)
        known: list[Sequence[Value]] = []
        for turn, unit in enumerate(mine):
            given = own.given(ahead, turn, [c[turn] for c in carries], stays[turn])
            made = cell.before.evaluate(given)
            for block in range(cell.factors):
                term = block * extent.features + begin + unit.whole.own
                value = kl.cast(made[block], plan.dtype)
                if plan.waits:
                    told.tell(unit, term, value, step)
                else:
                    target.store(unit.sample * plan.pitch + term, value, mask=unit.whole.exists)
            known.append(made[cell.factors :])
        # The rows of the last step are read again, which needs no branch.
        following = kl.min(step + 1, extent.length - 1)
        own.read_all(ahead, places, following, reverse)
        for turn, one in enumerate(places):
            for k, stack in enumerate(kept):
                own.write(stack, row, one, carries[k][turn])
            for part in parts.early:
                own.write(part.stack, row, one, known[turn][part.number], part.count, part.block)
            late.write(own, turn, one, step - 1, carries, reverse, step > 0)
        if plan.waits:
            told.hear(target, step)
        kl.barrier()
        totals = weights.products(target)
        for turn in range(plan.turns):
            sums = [total.to(cell.dtype) for total in totals[turn]]
            results = cell.after.evaluate([*known[turn], *sums])
            for k in range(cell.carries):
                carries[k][turn] = results[k]
            late.keep(turn, results)
    for turn, one in enumerate(places):
        late.write(own, turn, one, extent.length - 1, carries, reverse)
        for k, target in enumerate(last):
            target.store(own.place(one), carries[k][turn], mask=one.exists)
    if plan.waits:
        told.leave()


@dataclass(frozen=True, slots=True)
class Item:
    """A feature of a sample of a unit, and the number of the sample in its group."""

    whole: Feature
    sample: kl.Index


@kl.helper
def lane(plan: UnitPlan) -> kl.Number:
    """Return a unit's number among those that share its features."""
    return kl.unit_index() % plan.lanes


@kl.helper
def place_of_cube(flags: kl.Pointer | None, plan: UnitPlan) -> tuple[kl.Number, kl.Number]:
    """Return a cube's number in its group, and the group's.

    Where all groups may not run at the same time, cubes take their places as they start. So what
    runs is a part of a group, and earlier groups, which end without later ones.
    """
    if not plan.queued or flags is None:
        return kl.cube_position(0), kl.cube_position(1)
    slot, count = kl.shared(1, int32), kl.cube_count(0)
    number = ticket(flags, slot, kl.cube_count(1) * FLAGS + ARRIVED).to(count.dtype)
    return number % count, number // count


@kl.helper
def item(
    plan: UnitPlan, extent: Extent[kl.Number], begin: kl.Number, group: kl.Number, turn: int
) -> Item:
    """Return one of a unit's features of samples, whose sums it has after the exchange."""
    which, number = divmod(turn, plan.each)
    left, count = plan.lanes, plan.items
    place: kl.Index = number
    while left > 1 and count > 1:
        left, count = left // 2, count // 2
        place = place + lane(plan) // left % 2 * count
    # Units with the same sums have blocks of their own.
    block = which * plan.alike + lane(plan) % plan.alike
    sample, feature = block * plan.at_once + place // plan.own, place % plan.own
    unit = kl.unit_index() // plan.lanes
    own = unit * plan.own + feature
    whole = group * plan.samples + sample
    exists = (whole < extent.samples) & (own < plan.features) & (begin + own < extent.features)
    exists = exists & (unit < plan.across) & (block < plan.blocks)
    return Item(Feature(whole, own, exists), sample)


@kl.helper
def clear(factors: kl.Pointer, plan: UnitPlan) -> None:
    """Write zeros, which terms beyond the last one keep."""
    for number in kl.loop_range(kl.unit_index(), 2 * plan.room, plan.units):
        factors[number] = kl.constant(0, plan.dtype)


class UnitWeights:
    """The weights of a unit's terms and columns, 0 beyond them.

    Those of the first vectors of terms are in registers, the others in shared memory, where a unit
    reads what it wrote itself.
    """

    def __init__(
        self,
        weight: kl.Pointer,
        features: kl.Number,
        begin: kl.Number,
        plan: UnitPlan,
        cell: Cell,
    ) -> None:
        self.plan = plan
        self.held = kl.registers((max(plan.held, 1), plan.columns), plan.dtype, plan.width)
        self.memory = kl.shared(plan.stored, plan.dtype, align=16) if plan.stored else None
        for vector in range(plan.held):
            made = weights_of(weight, features, begin, vector, plan, cell)
            for column, one in enumerate(made):
                self.held[vector, column] = one
        if self.memory is not None:
            self._store(weight, features, begin, cell)

    @kl.helper
    def _store(self, weight: kl.Pointer, features: kl.Number, begin: kl.Number, cell: Cell) -> None:
        plan, memory = self.plan, self.memory
        assert memory is not None
        for vector in kl.loop_range(plan.held, plan.vectors):
            made = weights_of(weight, features, begin, vector, plan, cell)
            for column, one in enumerate(made):
                memory.store(self._place(vector, column), one)

    def _place(self, vector: kl.Index, column: int) -> kl.Number:
        line = (vector - self.plan.held) * self.plan.columns + column
        made: kl.Number = (line * self.plan.units + kl.unit_index()) * self.plan.width
        return made

    def products(self, factors: kl.Pointer) -> list[list[kl.Number]]:
        """Return the sums of a unit's features of samples."""
        plan = self.plan
        found: list[list[kl.Number]] = []
        for first in range(0, plan.blocks, plan.alike):
            count = min(plan.alike, plan.blocks - first)
            if count == 1:
                found += self._block(factors, first)
                continue
            kept = kl.registers((plan.each, plan.sums), plan.dtype)
            self._blocks(kept, factors, first, count)
            found += [[kept[k, n] for n in range(plan.sums)] for k in range(plan.each)]
        return found

    @kl.helper
    def _blocks(self, kept: kl.Registers, factors: kl.Pointer, first: int, count: int) -> None:
        """Keep the sums of a unit's own block, of some that units add together."""
        plan = self.plan
        for block in kl.loop_range(count):
            mine = lane(plan) % plan.alike == block
            for k, numbers in enumerate(self._block(factors, block + first)):
                for n, number in enumerate(numbers):
                    kept[k, n] = kl.select(mine, number, kept[k, n])

    def _block(self, factors: kl.Pointer, block: kl.Index) -> list[list[kl.Number]]:
        """Return the sums of a block of samples that a unit has after the exchange."""
        plan = self.plan
        factors = factors.at(block * (plan.at_once * plan.pitch))
        # Chains of multiply-adds, of which several run at the same time.
        sums = kl.registers((plan.at_once, plan.columns, plan.chains), plan.dtype)
        for vector in range(plan.held):
            self._add(sums, factors, vector, [self.held[vector, c] for c in range(plan.columns)])
        if self.memory is not None:
            self._add_stored(sums, factors)
        # The columns are blocks of a unit's features.
        count = plan.sums
        items = [
            [
                added([sums[sample, own * count + n, k] for k in range(plan.chains)])
                for n in range(count)
            ]
            for sample in range(plan.at_once)
            for own in range(plan.own)
        ]
        return exchanged(items, plan.lanes)

    @kl.helper
    def _add_stored(self, sums: kl.Registers, factors: kl.Pointer) -> None:
        plan, memory = self.plan, self.memory
        assert memory is not None
        for vector in kl.loop_range(plan.held, plan.vectors):
            columns = range(plan.columns)
            read = [memory.load(self._place(vector, c), plan.width) for c in columns]
            self._add(sums, factors, vector, read)

    def _add(
        self,
        sums: kl.Registers,
        factors: kl.Pointer,
        vector: kl.Index,
        weights: Sequence[kl.Number],
    ) -> None:
        plan = self.plan
        at = (vector * plan.lanes + lane(plan)) * plan.width
        for sample in range(plan.at_once):
            read = factors.load(sample * plan.pitch + at, plan.width)
            for k in range(plan.width):
                for column, one in enumerate(weights):
                    at_once = sample, column, k % plan.chains
                    sums[at_once] = kl.fma(read[k], one[k], sums[at_once])


def added(parts: Sequence[kl.Number]) -> kl.Number:
    """Return the sum of a power of two of numbers, in pairs."""
    while len(parts) > 1:
        parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def exchanged(items: Sequence[Sequence[kl.Number]], lanes: int) -> list[list[kl.Number]]:
    """Return the items of a unit, whose numbers are added over adjacent units.

    At each distance a unit gives half of its items away, and adds those that it keeps; the last one
    is added by both.
    """
    left = [[*one] for one in items]
    while lanes > 1:
        lanes //= 2
        half = len(left) // 2
        if not half:
            left = [[x + kl.plane_shuffle(x, lanes, "xor") for x in one] for one in left]
            continue
        upper = kl.unit_index() // lanes % 2 == 1
        left = [
            [
                kl.select(upper, b, a) + kl.plane_shuffle(kl.select(upper, a, b), lanes, "xor")
                for a, b in zip(low, high, strict=True)
            ]
            for low, high in zip(left[:half], left[half:], strict=True)
        ]
    return left


@kl.helper
def weights_of(
    weight: kl.Pointer,
    features: kl.Number,
    begin: kl.Number,
    vector: kl.Index,
    plan: UnitPlan,
    cell: Cell,
) -> list[kl.Number]:
    """Return the weights of a vector of a unit's terms, for each of its columns.

    What is adjacent in memory is read at once, if the plan says that it lies at whole accesses.
    """
    whole = cell.sums * features
    first = kl.unit_index() // plan.lanes * plan.own
    begins = (vector * plan.lanes + lane(plan)) * plan.width
    # A line has adjacent elements: terms of a column, or a unit's features of a term.
    columns = [(own, block) for own in range(plan.own) for block in range(plan.sums)]
    across = 1 if cell.turned or not plan.wide else plan.own
    along = plan.width if cell.turned and plan.wide else 1
    found: dict[tuple[int, int, int], kl.Number] = {}
    for own, block in columns:
        if own % across:
            continue
        feature = first + own
        exists = (feature < plan.features) & (begin + feature < features)
        line = block * features + begin + feature
        for k in range(0, plan.width, along):
            term = begins + k
            there = exists & (term < plan.terms)
            at = line * plan.terms + term if cell.turned else term * whole + line
            count = across * along
            read = weight.load(
                kl.select(there, at, 0), count, align=count * int(weight.dtype.itemsize)
            )
            for n in range(count):
                value = kl.select(there, read[n] if count > 1 else read, kl.constant(0, read.dtype))
                place = (own, block, k + n) if cell.turned else (own + n, block, k)
                found[place] = value.to(plan.dtype)
    return [kl.pack([found[own, block, k] for k in range(plan.width)]) for own, block in columns]


class Told:
    """What the cubes of a group tell each other: words with factors and the step's number."""

    def __init__(
        self,
        words: kl.Pointer | None,
        flags: kl.Pointer | None,
        group: kl.Number,
        extent: Extent[kl.Number],
        plan: UnitPlan,
        cell: Cell,
    ) -> None:
        self.plan, self.cell, self.extent = plan, cell, extent
        self.group = group
        self.flags = flags
        self.words = None if words is None else words.at(self.group * (2 * plan.room))

    def clear(self, mine: Sequence[Item], begin: kl.Number) -> None:
        """Clear a cube's own words, and tell the others."""
        words, flags = self.words, self.flags
        assert words is not None
        assert flags is not None
        zero = kl.constant(0, uint64)
        for one in mine:
            for block in range(self.cell.factors):
                term = block * self.extent.features + begin + one.whole.own
                at = one.sample * self.plan.pitch + term
                for place in (at, at + self.plan.room):
                    words.store(place, zero, mask=one.whole.exists, order="relaxed", scope="device")
        arrived(flags, self.group * FLAGS + ARRIVED)

    def wait(self) -> None:
        """Wait until all cubes of the group have cleared their words."""
        assert self.flags is not None
        wait_for(self.flags, self.group * FLAGS + ARRIVED, kl.cube_count(0))

    def tell(self, one: Item, term: kl.Number, value: kl.Number, step: kl.Number) -> None:
        """Write a factor of a step."""
        assert self.words is not None
        word = kl.bitcast(value, uint32).to(uint64) | ((step + 1).to(uint64) << 32)
        at = step % 2 * self.plan.room + one.sample * self.plan.pitch + term
        self.words.store(at, word, mask=one.whole.exists, order="relaxed", scope="device")

    def hear(self, target: kl.Pointer, step: kl.Number) -> None:
        """Read the factors of a step into shared memory, as soon as they are there."""
        assert self.words is not None
        plan = self.plan
        source = self.words.at(step % 2 * plan.room)
        turns = -(-plan.room // plan.units)
        for begin in range(0, turns, _TOGETHER):
            some = range(begin, min(begin + _TOGETHER, turns))
            numbers = [kl.unit_index() + turn * plan.units for turn in some]
            exist = [self._exists(number) for number in numbers]
            places = [
                kl.select(there, number, 0) for there, number in zip(exist, numbers, strict=True)
            ]
            read = kl.registers(len(some), uint64)
            wait_for_words(read, source, places, (step + 1).to(uint64))
            for k, number in enumerate(numbers):
                value = kl.bitcast(read[k].to(uint32), plan.dtype)
                target.store(number, value, mask=exist[k])

    def _exists(self, number: kl.Number) -> kl.Mask:
        plan = self.plan
        sample, term = number // plan.pitch, number % plan.pitch
        inside = (term < self.cell.factors * self.extent.features) & (number < plan.room)
        return inside & (self.group * plan.samples + sample < self.extent.samples)

    def leave(self) -> None:
        """Reset the count of arrivals, as the last cube of the group."""
        assert self.flags is not None
        gone(self.flags, self.group * FLAGS, kl.cube_count(0))
        if self.plan.queued:
            gone(self.flags, kl.cube_count(1) * FLAGS, kl.cube_count(0) * kl.cube_count(1))


@kl.helper
def arrived(flags: kl.Pointer, place: kl.Index) -> None:
    """Count a cube, with what its units stored."""
    kl.barrier()
    if kl.unit_index() == 0:
        arrive(flags, place)


@kl.helper
def gone(flags: kl.Pointer, place: kl.Index, count: kl.Number) -> None:
    """Reset a count of arrivals, as the last of ``count`` cubes; ``place``: of its flags."""
    if is_last(flags, place + LEFT, count) & (kl.unit_index() == 0):
        leave(flags, place + ARRIVED)


@kl.helper
def wait_for_words(
    read: kl.Registers, source: kl.Pointer, places: Sequence[kl.Number], tag: kl.Number
) -> None:
    """Read words until all have the tag."""
    differ = kl.constant(1, uint64)
    while differ != 0:
        # All are read before one is looked at.
        for k, place in enumerate(places):
            read[k] = source.load(place, order="relaxed", scope="device")
        differ = kl.constant(0, uint64)
        for k in range(len(places)):
            differ = differ | ((read[k] >> 32) ^ tag)
