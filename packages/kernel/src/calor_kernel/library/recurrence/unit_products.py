"""Products of a recurrent scan by units: their weights, sums and exchanges.

Requirements: weights are read once, and stay in registers as far as these go and else in shared
memory; a plan may leave the last ones in memory, where each step reads them. Each vector of factors
that a unit reads serves all its columns. Units that share features exchange half of their sums at
each distance, so an exchange of all sums moves each about once.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel import language as kl
from calor_kernel.library.recurrence.cell import Cell
from calor_kernel.library.recurrence.stacks import Extent
from calor_kernel.library.recurrence.unit_plan import UnitPlan


@kl.helper
def lane(plan: UnitPlan) -> kl.Number:
    """Return a unit's number among those that share its features."""
    return kl.unit_index() % plan.lanes


class UnitWeights:
    """The weights of a unit's terms and columns, 0 beyond them.

    Those of the first vectors of terms are in registers, the next ones in shared memory, where a
    unit reads what it wrote itself, and the last ones in the order of :func:`pack_weights`.
    """

    def __init__(
        self,
        weight: kl.Pointer,
        features: kl.Number,
        begin: kl.Number,
        packed: kl.Pointer | None,
        plan: UnitPlan,
        cell: Cell,
    ) -> None:
        self.plan = plan
        self.given = weight, features, begin
        self.packed = packed
        self.cell = cell
        self.held = kl.registers((max(plan.held, 1), plan.columns), plan.dtype, plan.width)
        self.memory = kl.shared(plan.stored, plan.dtype, align=16) if plan.stored else None
        for vector in range(plan.held):
            made = weights_of(weight, features, begin, vector, plan, cell)
            for column, one in enumerate(made):
                self.held[vector, column] = one
        if self.memory is not None:
            self._store()

    @kl.helper
    def _store(self) -> None:
        plan, memory = self.plan, self.memory
        assert memory is not None
        for vector in kl.loop_range(plan.held, plan.vectors - plan.streamed):
            made = weights_of(*self.given, vector, plan, self.cell)
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
        if plan.streamed:
            self._add_streamed(sums, factors)
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
        for vector in kl.loop_range(plan.held, plan.vectors - plan.streamed):
            columns = range(plan.columns)
            read = [memory.load(self._place(vector, c), plan.width) for c in columns]
            self._add(sums, factors, vector, read)

    @kl.helper
    def _add_streamed(self, sums: kl.Registers, factors: kl.Pointer) -> None:
        plan, packed = self.plan, self.packed
        assert packed is not None
        for vector in kl.loop_range(plan.streamed):
            columns = range(plan.columns)
            read = [packed.load(packed_place(plan, vector, c), plan.width) for c in columns]
            self._add(sums, factors, vector + (plan.vectors - plan.streamed), read)

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


@kl.kernel
def pack_weights(
    weight: kl.In, packed: kl.Out, extent: Extent[kl.Number], *, plan: UnitPlan, cell: Cell
) -> None:
    """Write the weights that are read at each step in the order in which units read them.

    A cube, with the units of a cube of the scan, has a vector of all units and columns. Where the
    weights are given, adjacent units may be lines apart.
    """
    vector = kl.cube_position(0)
    begins = vector + (plan.vectors - plan.streamed)
    for column, one in enumerate(weights_of(weight, extent.features, 0, begins, plan, cell)):
        packed.store(packed_place(plan, vector, column), one)


def packed_place(plan: UnitPlan, vector: kl.Index, column: int) -> kl.Number:
    """Return where a unit's vector of a column lies among those that are read at each step."""
    line = vector * plan.columns + column
    made: kl.Number = (line * plan.units + kl.unit_index()) * plan.width
    return made


@kl.helper
def weights_of(
    weight: kl.Pointer,
    features: kl.Number,
    begin: kl.Index,
    vector: kl.Index,
    plan: UnitPlan,
    cell: Cell,
) -> list[kl.Number]:
    """Return the weights of a vector of a unit's terms, for each of its columns.

    Columns that do not exist have any weights, as nothing reads their sums. What is adjacent in
    memory is read at once, if the plan says that it lies at whole accesses.
    """
    whole = cell.sums * features
    first = kl.unit_index() // plan.lanes * plan.own
    begins = (vector * plan.lanes + lane(plan)) * plan.width
    # A line has adjacent elements: terms of a column, or a unit's features of a term.
    columns = [(own, block) for own in range(plan.own) for block in range(plan.sums)]
    across = 1 if cell.turned or not plan.wide else min(plan.own, plan.width)
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
                value = read[n] if count > 1 else read
                if plan.pitch > plan.terms:
                    value = kl.select(term < plan.terms, value, kl.constant(0, read.dtype))
                place = (own, block, k + n) if cell.turned else (own + n, block, k)
                found[place] = value.to(plan.dtype)
    return [kl.pack([found[own, block, k] for k in range(plan.width)]) for own, block in columns]
