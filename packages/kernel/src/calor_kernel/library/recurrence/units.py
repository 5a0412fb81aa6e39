"""A recurrent scan in one launch by multiply-adds of units, which hold its weights.

Requirements: groups of cubes have samples of their own. Adjacent units share a feature: each sums
some terms, and they exchange their sums so that each has whole sums of some samples, of which it
computes the cell. So a step has one barrier, behind the factors. Factors lie in shared memory, at
two places that alternate; cubes of a group tell each other theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel import language as kl
from calor_kernel.library.elementwise.values import Value
from calor_kernel.library.recurrence.cell import Cell
from calor_kernel.library.recurrence.stacks import Extent, Feature, Item, Late, Parts, Reader
from calor_kernel.library.recurrence.unit_plan import UnitPlan
from calor_kernel.library.recurrence.unit_products import UnitWeights, lane
from calor_kernel.library.recurrence.unit_words import Told


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
    packed: kl.In | None,
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

    ``words``: room for the factors of all groups in two steps. ``packed``: the weights that are
    read at each step, by :func:`calor_kernel.library.recurrence.unit_products.pack_weights`.
    Other arguments as for
    :func:`calor_kernel.library.recurrence.persistent.recur`.
    """
    kl.launch_attributes(cubes_per_core=1, together=plan.waits)
    group = kl.cube_position(1)
    begin = kl.cube_position(0) * plan.features
    mine = [item(plan, extent, begin, group, turn) for turn in range(plan.turns)]
    places = [one.whole for one in mine]
    own = Reader(cell, rows, held, blocks, contexts, extent, begin)
    factors = kl.shared(2 * plan.room, plan.dtype, align=16)
    told = Told(words, flags, group, extent, plan, cell)
    if plan.waits:
        told.clear(mine, begin)
    clear(factors, plan)
    weights = UnitWeights(weight, extent.features, begin, packed, plan, cell)
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
