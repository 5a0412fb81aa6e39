"""A recurrent scan in one launch: cubes hold their weights and wait for each other in each step.

Requirements: all cubes run at the same time, one for each core at most. A feature's carries stay in
registers of one unit. In each step a unit computes the product's factors of its features and writes
them where all cubes read them, in the order of the matrix instruction's registers, so that a plane
reads whole lines. Two such places alternate: who writes one again has waited for all cubes after
they read it. The rows of the next step are read before the wait. Planes divide the terms of the
product, and their sums are added in their order. Words that cubes wait for are 0 before and after
the launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from calor.dtypes import float32
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.library.arrivals import arrive, is_last, leave, wait_for
from calor_kernel.library.elementwise.values import Value
from calor_kernel.library.recurrence.cell import SHARED, Cell, Source
from calor_kernel.library.recurrence.plan import RecurrencePlan, place_in

# Words: who left, and the count of arrivals or the step of each cube.
LEFT, FIRST = 0, 1


@dataclass(frozen=True, slots=True)
class Extent(Generic[N]):
    """The steps of a scan, and the samples and features of a carry."""

    length: kl.SizeOf[N]
    samples: kl.SizeOf[N]
    features: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of a sample: its sample, its number in the cube, whether it exists."""

    sample: kl.Number
    own: kl.Number
    exists: kl.Number


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
    widths: tuple[int, ...],
    reverse: bool,
) -> None:
    """Run all steps of a scan; each cube has some adjacent features of all samples.

    ``first``, ``last``: the carries before and after; ``kept``: stacks of those before each step,
    if they are kept. ``rows``, ``stacks``: of ``blocks`` and ``widths`` blocks each, for each row
    that is read and each that is written. ``held``: vectors. ``factors``: room for two steps.
    """
    kl.launch_attributes(cubes_per_core=1, together=True)
    begin = kl.cube_position(0) * plan.features
    weights = weights_in_registers(weight, extent.features, begin, plan, cell)
    mine = [feature(plan, extent, begin, turn) for turn in range(plan.turns)]
    own = Reader(cell, rows, held, blocks, extent, begin)
    carries = [kl.registers(plan.turns, memory.dtype) for memory in first]
    for turn, one in enumerate(mine):
        at = one.sample * extent.features + begin + one.own
        for k, memory in enumerate(first):
            carries[k][turn] = memory.load(at, mask=one.exists)
    ahead = own.registers(plan.turns)
    own.read_all(ahead, mine, 0, reverse)
    stays = [own.stay(one) for one in mine]
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
            at = (row * extent.samples + one.sample) * extent.features + begin + one.own
            for k, stack in enumerate(kept):
                stack.store(at, carries[k][turn], mask=one.exists)
        tell(words, step, plan)
        # The rows of the last step are read again, which needs no branch.
        following = kl.min(step + 1, extent.length - 1)
        if plan.early:
            own.read_all(ahead, mine, following, reverse)
        await_all(words, step, plan)
        sums = products(target, weights, extent.samples, plan)
        if not plan.early:
            # A wait for other cubes would also wait for these.
            own.read_all(ahead, mine, following, reverse)
        plane = kl.plane_position()
        for i in range(plan.down):
            for j in range(plan.across):
                corner = (plane * plan.rows + i * plan.shape.m) * plan.pitch + j * plan.shape.n
                sums[i][j].store(memory.at(corner), (plan.pitch, 1))
        kl.barrier()
        for turn, one in enumerate(mine):
            totals = [total(memory, plan, one, block).to(cell.dtype) for block in range(cell.sums)]
            results = cell.after.evaluate([*known[turn], *totals])
            for k in range(cell.carries):
                carries[k][turn] = results[k]
            number = cell.carries
            for stack, count in zip(stacks, widths, strict=True):
                for block in range(count):
                    line = (row * extent.samples + one.sample) * count + block
                    at = line * extent.features + begin + one.own
                    stack.store(at, results[number], mask=one.exists)
                    number += 1
    for turn, one in enumerate(mine):
        at = one.sample * extent.features + begin + one.own
        for k, target in enumerate(last):
            target.store(at, carries[k][turn], mask=one.exists)
    cubes = kl.cube_count(0)
    if is_last(words, LEFT, cubes):
        for word in kl.loop_range(
            kl.unit_index(), cubes if plan.signal == "words" else 1, plan.units
        ):
            leave(words, FIRST + word)


@kl.helper
def feature(
    plan: RecurrencePlan, extent: Extent[kl.Number], begin: kl.Number, turn: int
) -> Feature:
    """Return one of a unit's features of samples; adjacent units have those of a sample."""
    number = kl.unit_index() + turn * plan.units
    sample, own = number // plan.features, number % plan.features
    exists = (sample < extent.samples) & (begin + own < extent.features)
    return Feature(sample, own, exists)


class Reader:
    """The numbers that a unit's features read: rows one step ahead, and what stays."""

    def __init__(
        self,
        cell: Cell,
        rows: Sequence[kl.Pointer],
        held: Sequence[kl.Pointer],
        blocks: Sequence[int],
        extent: Extent[kl.Number],
        begin: kl.Number,
    ) -> None:
        self.cell = cell
        self.rows, self.held, self.blocks = rows, held, blocks
        self.extent, self.begin = extent, begin

    def _of(self, kind: str) -> list[Source]:
        return [source for source in self.cell.sources if source.kind == kind]

    def registers(self, turns: int) -> list[kl.Registers]:
        """Return registers for the blocks of rows of a step."""
        return [kl.registers(turns, source.dtype) for source in self._of("row")]

    def read_all(
        self,
        ahead: Sequence[kl.Registers],
        mine: Sequence[Feature],
        step: kl.Index,
        reverse: bool,
    ) -> None:
        """Read the rows of a step."""
        extent = self.extent
        row = extent.length - 1 - step if reverse else step
        for target, source in zip(ahead, self._of("row"), strict=True):
            count = self.blocks[source.number]
            for turn, one in enumerate(mine):
                line = (row * extent.samples + one.sample) * count + source.block
                at = line * extent.features + self.begin + one.own
                target[turn] = self.rows[source.number].load(at, mask=one.exists)

    def stay(self, one: Feature) -> list[kl.Number]:
        """Return what is the same in all steps."""
        found = []
        for source in self._of("held"):
            memory = self.held[source.number]
            if source.block == SHARED:
                found.append(memory[0])
                continue
            at = source.block * self.extent.features + self.begin + one.own
            found.append(memory.load(at, mask=one.exists))
        return found

    def given(
        self,
        ahead: Sequence[kl.Registers],
        turn: int,
        carries: Sequence[kl.Number],
        stays: Sequence[kl.Number],
    ) -> list[kl.Number]:
        """Return the numbers of a step in the order of the cell's sources."""
        rows = iter([register[turn] for register in ahead])
        held = iter(stays)
        found = []
        for source in self.cell.sources:
            if source.kind == "carry":
                found.append(carries[source.number])
            elif source.kind == "row":
                found.append(next(rows))
            elif source.kind == "held":
                found.append(next(held))
            else:
                found.append(constant(source))
        return found


def constant(source: Source) -> kl.Number:
    """Return a constant; half types have none of their own."""
    if source.dtype.kind == "float" and source.dtype.itemsize < 4:
        return kl.cast(kl.constant(source.value, float32), source.dtype)
    return kl.constant(source.value, source.dtype)


@kl.helper
def weights_in_registers(
    weight: kl.Pointer,
    features: kl.Number,
    begin: kl.Number,
    plan: RecurrencePlan,
    cell: Cell,
) -> list[list[kl.Fragment]]:
    """Return the weights of a plane's terms and of its cube's sums, 0 beyond them."""
    shape, found = plan.shape, []
    terms, whole = cell.factors * features, cell.sums * features
    for step in range(plan.steps):
        tiles = []
        for j in range(plan.across):
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
            tiles.append(tile)
        found.append(tiles)
    return found


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
def tell(words: kl.Pointer, step: kl.Number, plan: RecurrencePlan) -> None:
    """Tell all cubes that this one has written its factors of a step."""
    kl.barrier()
    if kl.unit_index() == 0:
        if plan.signal == "count":
            arrive(words, FIRST)
        else:
            kl.fence("device", "release")
            number = (step + 1).to(words.dtype)
            words.store(FIRST + kl.cube_position(0), number, order="relaxed", scope="device")


@kl.helper
def await_all(words: kl.Pointer, step: kl.Number, plan: RecurrencePlan) -> None:
    """Wait until all cubes have written their factors of a step."""
    cubes = kl.cube_count(0)
    if plan.signal == "count":
        wait_for(words, FIRST, (step + 1) * cubes)
    else:
        number = (step + 1).to(words.dtype)
        for word in kl.loop_range(kl.unit_index(), cubes, plan.units):
            while words.load(FIRST + word, order="relaxed", scope="device") < number:
                pass
            kl.fence("device", "acquire")
        kl.barrier()


@kl.helper
def products(
    factors: kl.Pointer,
    weights: Sequence[Sequence[kl.Fragment]],
    samples: kl.Number,
    plan: RecurrencePlan,
) -> list[list[kl.Fragment]]:
    """Return the sums of a plane's terms, for tiles of samples down and of sums across."""
    shape = plan.shape
    sums = [[kl.fragment(shape, "c") for _ in range(plan.across)] for _ in range(plan.down)]
    tile = kl.fragment(shape, "a")
    line, _ = tile.lane_place()
    count, lane = tile.count, kl.lane_position()
    for step in range(plan.steps):
        deep = kl.plane_position() + step * plan.planes
        if (step + 1) * plan.planes > plan.deep:
            # Behind the last tile is one of zeros.
            deep = kl.min(deep, plan.deep)
        for i in range(plan.down):
            # Lanes without a sample read what the first one does, which is no further line.
            who = kl.select(line + i * shape.m < samples, lane, 0)
            at = ((deep * plan.down + i) * shape.lanes + who) * count
            left = kl.fragment(shape, "a")
            left.parts[0] = factors.load(at, count)
            for j in range(plan.across):
                kl.mma(left, weights[step][j], sums[i][j])
    return sums


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
