"""A recurrent scan in one launch: cubes hold their weights and wait for each other in each step.

Requirements: all cubes run at the same time, one for each core at most. A feature's carries stay in
registers of one unit. In each step a unit computes the product's factors of its features and writes
them where all cubes read them, in the order of the matrix instruction's registers, so that a plane
reads whole lines. Two such places alternate: who writes one again has waited for all cubes after
they read it. Rows are read before the wait, and stacks written behind it, which would otherwise
wait for them too.
Planes divide the terms of the product, and their sums are added in their order. Words that cubes
wait for are 0 before and after the launch.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor.dtypes import float32
from calor_kernel import language as kl
from calor_kernel.library.arrivals import arrive, is_last, leave, wait_for
from calor_kernel.library.elementwise.values import Value
from calor_kernel.library.recurrence.cell import Cell
from calor_kernel.library.recurrence.plan import RecurrencePlan, place_in
from calor_kernel.library.recurrence.stacks import Extent, Feature, Late, Parts, Reader, feature

# Words: who left, and the count of arrivals.
LEFT, ARRIVED, WORDS = 0, 1, 2


@kl.kernel
def recur(
    weight: kl.In,
    first: tuple[kl.In, ...],
    rows: tuple[kl.In, ...],
    held: tuple[kl.In, ...],
    last: tuple[kl.Out, ...],
    stacks: tuple[kl.Out, ...],
    kept: tuple[kl.Out, ...],
    factors: kl.InOut,
    words: kl.InOut,
    extent: Extent[kl.Number],
    *,
    plan: RecurrencePlan,
    cell: Cell,
    blocks: tuple[int, ...],
    contexts: tuple[int, ...],
    widths: tuple[int, ...],
    reverse: bool,
) -> None:
    """Run all steps of a scan; each cube has some adjacent features of all samples.

    ``first``, ``last``: the carries before and after; ``kept``: stacks of those before each step,
    if they are kept. ``rows``, ``stacks``: of ``blocks`` and ``widths`` blocks each, for each row
    that is read and each that is written; ``contexts``: those of each capture. ``held``: what
    stays. ``factors``: room for two steps.
    """
    kl.launch_attributes(cubes_per_core=1, together=True)
    begin = kl.cube_position(0) * plan.features
    weights = Weights(weight, extent.features, begin, plan, cell)
    mine = [feature(plan, extent, begin, turn) for turn in range(plan.turns)]
    own = Reader(cell, rows, held, blocks, contexts, extent, begin)
    carries = [kl.registers(plan.turns, memory.dtype) for memory in first]
    for turn, one in enumerate(mine):
        for k, memory in enumerate(first):
            carries[k][turn] = memory.load(own.place(one), mask=one.exists)
    ahead = own.registers(plan.turns)
    own.read_all(ahead, mine, 0, reverse)
    stays = [own.stay(one) for one in mine]
    parts = Parts.of(cell, stacks, widths)
    late = Late(parts.late, cell, plan.turns)
    fill_edges(factors, extent, plan, cell)
    memory = kl.shared(plan.planes * plan.rows * plan.pitch, float32, align=16)
    for step in kl.loop_range(extent.length):
        row = extent.length - 1 - step if reverse else step
        target = factors.at(step % 2 * plan.room)
        known: list[Sequence[Value]] = []
        for turn, one in enumerate(mine):
            given = own.given(ahead, turn, [c[turn] for c in carries], stays[turn])
            made = cell.before.evaluate(given)
            for block in range(cell.factors):
                term = block * extent.features + begin + one.own
                place = place_of(plan, one.sample, term)
                target.store(place, made[block], mask=one.exists)
            known.append(made[cell.factors :])
        kl.barrier()
        if kl.unit_index() == 0:
            arrive(words, ARRIVED)
        # The rows of the last step are read again, which needs no branch.
        following = kl.min(step + 1, extent.length - 1)
        own.read_all(ahead, mine, following, reverse)
        wait_for(words, ARRIVED, (step + 1) * kl.cube_count(0))
        first_row = 0
        sums = products(target, weights, extent.samples, first_row, plan)
        while first_row + plan.at_once < plan.down:
            keep_sums(memory, sums, first_row, plan)
            first_row += plan.at_once
            sums = products(target, weights, extent.samples, first_row, plan)
        # A wait for other cubes, or what is told to them, would also wait for these.
        for turn, one in enumerate(mine):
            for k, stack in enumerate(kept):
                own.write(stack, row, one, carries[k][turn])
            for part in parts.early:
                own.write(part.stack, row, one, known[turn][part.number], part.count, part.block)
            late.write(own, turn, one, step - 1, carries, reverse, step > 0)
        keep_sums(memory, sums, first_row, plan)
        kl.barrier()
        for turn, one in enumerate(mine):
            totals = [total(memory, plan, one, block).to(cell.dtype) for block in range(cell.sums)]
            results = cell.after.evaluate([*known[turn], *totals])
            for k in range(cell.carries):
                carries[k][turn] = results[k]
            late.keep(turn, results)
    for turn, one in enumerate(mine):
        late.write(own, turn, one, extent.length - 1, carries, reverse)
        for k, target in enumerate(last):
            target.store(own.place(one), carries[k][turn], mask=one.exists)
    if is_last(words, LEFT, kl.cube_count(0)) & (kl.unit_index() == 0):
        leave(words, ARRIVED)


class Weights:
    """The weights of a plane's terms and of its cube's sums, 0 beyond them.

    Those of the first tiles of terms are in registers, the others in shared memory in the order in
    which lanes hold them; a lane reads there what it wrote itself.
    """

    def __init__(
        self,
        weight: kl.Pointer,
        features: kl.Number,
        begin: kl.Number,
        plan: RecurrencePlan,
        cell: Cell,
    ) -> None:
        self.plan = plan
        self.held: list[list[kl.Fragment]] = []
        self.memory = kl.shared(plan.stored, plan.dtype, align=16) if plan.stored else None
        for step in range(plan.steps):
            tiles = [
                weights_of(weight, features, begin, step, j, plan, cell) for j in range(plan.across)
            ]
            if self.memory is None or step < plan.held:
                self.held.append(tiles)
                continue
            for j, tile in enumerate(tiles):
                self.memory.store(self._place(step, j, tile.count), tile.parts[0])

    def _place(self, step: int, j: int, count: int) -> kl.Number:
        tile = ((step - self.plan.held) * self.plan.planes + kl.plane_position()) * self.plan.across
        made: kl.Number = ((tile + j) * self.plan.shape.lanes + kl.lane_position()) * count
        return made

    def of(self, step: int) -> list[kl.Fragment]:
        """Return the weights of a tile of terms, for the tiles of sums."""
        if self.memory is None or step < self.plan.held:
            return self.held[step]
        found = []
        for j in range(self.plan.across):
            tile = kl.fragment(self.plan.shape, "b")
            tile.parts[0] = self.memory.load(self._place(step, j, tile.count), tile.count)
            found.append(tile)
        return found


@kl.helper
def weights_of(
    weight: kl.Pointer,
    features: kl.Number,
    begin: kl.Number,
    step: int,
    j: int,
    plan: RecurrencePlan,
    cell: Cell,
) -> kl.Fragment:
    """Return the weights of a tile of a plane's terms and of a tile of sums."""
    shape = plan.shape
    terms, whole = cell.factors * features, cell.sums * features
    tile = kl.fragment(shape, "b")
    read = []
    for register in range(tile.count):
        down, right = tile.place(register)
        term = (kl.plane_position() + step * plan.planes) * shape.k + down
        number = right + j * shape.n
        block, own = number // plan.features, number % plan.features
        inside = (block < cell.sums) & (begin + own < features) & (term < terms)
        line = block * features + begin + own
        at = line * terms + term if cell.turned else term * whole + line
        read.append(weight.load(at, mask=inside))
    tile.parts[0] = kl.pack(read)
    return tile


@kl.helper
def place_of(plan: RecurrencePlan, sample: kl.Index, term: kl.Index) -> kl.Number:
    """Return the place of a factor in the order of tiles, lanes and their registers."""
    shape = plan.shape
    tile = term // shape.k * plan.down + sample // shape.m
    lane, register = place_in(shape, "a", sample % shape.m, term % shape.k)
    count = shape.layout("a")[1].size
    made: kl.Number = (tile * shape.lanes + lane) * count + register  # type: ignore[assignment]
    return made


@kl.helper
def fill_edges(
    factors: kl.Pointer, extent: Extent[kl.Number], plan: RecurrencePlan, cell: Cell
) -> None:
    """Write zeros where tiles exceed samples or terms, for both places of the factors."""
    terms = cell.factors * extent.features
    zero = kl.constant(0, float32).to(factors.dtype)
    begin = kl.cube_position(0) * plan.units + kl.unit_index()
    for number in kl.loop_range(begin, plan.room, kl.cube_count(0) * plan.units):
        sample, term = number % plan.rows, number // plan.rows
        if (sample >= extent.samples) | (term >= terms):
            at = place_of(plan, sample, term)
            factors[at] = zero
            factors[at + plan.room] = zero


@kl.helper
def products(
    factors: kl.Pointer,
    weights: Weights,
    samples: kl.Number,
    first: int,
    plan: RecurrencePlan,
) -> list[list[kl.Fragment]]:
    """Return the sums of a plane's terms, for tiles of samples from one on and of sums across."""
    shape = plan.shape
    turns = range(first, min(first + plan.at_once, plan.down))
    sums = [[kl.fragment(shape, "c") for _ in range(plan.across)] for _ in turns]
    tile = kl.fragment(shape, "a")
    line, _ = tile.lane_place()
    count, lane = tile.count, kl.lane_position()
    for step in range(plan.steps):
        deep = kl.plane_position() + step * plan.planes
        if (step + 1) * plan.planes > plan.deep:
            # Behind the last tile is one of zeros.
            deep = kl.min(deep, plan.deep)
        rights = weights.of(step)
        for i, row in zip(turns, sums, strict=True):
            # Lanes without a sample read what the first one does, which is no further line.
            who = kl.select(line + i * shape.m < samples, lane, 0)
            at = ((deep * plan.down + i) * shape.lanes + who) * count
            left = kl.fragment(shape, "a")
            left.parts[0] = factors.load(at, count)
            for right, total in zip(rights, row, strict=True):
                kl.mma(left, right, total)
    return sums


@kl.helper
def keep_sums(
    memory: kl.Pointer, sums: Sequence[Sequence[kl.Fragment]], first: int, plan: RecurrencePlan
) -> None:
    """Write a plane's sums of tiles of samples from one on to shared memory."""
    plane = kl.plane_position()
    for i, row in enumerate(sums):
        for j, total in enumerate(row):
            line = plane * plan.rows + (first + i) * plan.shape.m
            total.store(memory.at(line * plan.pitch + j * plan.shape.n), (plan.pitch, 1))


@kl.helper
def total(memory: kl.Pointer, plan: RecurrencePlan, one: Feature, block: int) -> kl.Number:
    """Return a feature's sum of a block, over all planes."""
    at = one.sample * plan.pitch + block * plan.features + one.own
    # Units without a feature add those of the first sample.
    at = kl.select(one.exists, at, 0)
    found = memory[at]
    for plane in range(1, plan.planes):
        found = found + memory[plane * plan.rows * plan.pitch + at]
    return found
