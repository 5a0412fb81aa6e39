"""Rows of a recurrent scan: what a unit's features read and write of the stacks.

Requirements: rows are read a step ahead, and written where nothing waits for them. A row has blocks
of the width of a carry, and a unit has the same features of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from calor.dtypes import float32
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.library.elementwise.values import Value
from calor_kernel.library.recurrence.cell import SAMPLE, SHARED, Cell, Source
from calor_kernel.library.recurrence.plan import RecurrencePlan


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


@dataclass(frozen=True, slots=True)
class Item:
    """A feature of a sample of a unit, and the number of the sample in its group."""

    whole: Feature
    sample: kl.Index


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
        contexts: Sequence[int],
        extent: Extent[kl.Number],
        begin: kl.Number,
    ) -> None:
        self.cell = cell
        self.rows, self.held = rows, held
        self.blocks, self.contexts = blocks, contexts
        self.extent, self.begin = extent, begin

    def _of(self, *kinds: str) -> list[Source]:
        return [source for source in self.cell.sources if source.kind in kinds]

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
        row = self.extent.length - 1 - step if reverse else step
        for target, source in zip(ahead, self._of("row"), strict=True):
            count, memory = self.blocks[source.number], self.rows[source.number]
            for turn, one in enumerate(mine):
                # What does not exist reads the first element, which needs no branch.
                if source.block == SHARED:
                    target[turn] = memory[row]
                elif source.block == SAMPLE:
                    sample = kl.select(one.exists, one.sample, 0)
                    target[turn] = memory[row * self.extent.samples + sample]
                else:
                    place = kl.select(one.exists, self.place(one, count, source.block), 0)
                    target[turn] = memory[self.start(row, count) + place]

    def start(self, row: kl.Index, count: int) -> kl.Index:
        """Return where a row of ``count`` blocks begins in a stack."""
        return row * (self.extent.samples * self.extent.features * count)

    def place(self, one: Feature, count: int = 1, block: int = 0) -> kl.Number:
        """Return the place of a feature in a row; loops do not change it."""
        return (one.sample * count + block) * self.extent.features + self.begin + one.own

    def write(
        self,
        stack: kl.Pointer,
        row: kl.Index,
        one: Feature,
        value: Value,
        count: int = 1,
        block: int = 0,
        mask: kl.Mask = True,
    ) -> None:
        """Write one of the ``count`` blocks of a row of a stack."""
        at = self.start(row, count) + self.place(one, count, block)
        exists = one.exists if mask is True else one.exists & mask
        stack.store(at, value, mask=exists)

    def stay(self, one: Feature) -> list[kl.Number]:
        """Return what is the same in all steps."""
        found = []
        for source in self._of("held", "context"):
            memory = self.held[source.number]
            if source.block == SHARED:
                found.append(memory[0])
                continue
            if source.block == SAMPLE:
                found.append(memory.load(one.sample, mask=one.exists))
                continue
            if source.kind == "context":
                at = self.place(one, self.contexts[source.number], source.block)
                found.append(memory.load(at, mask=one.exists))
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
            elif source.kind in ("held", "context"):
                found.append(next(held))
            else:
                found.append(constant(source))
        return found


@dataclass(frozen=True, slots=True)
class Part:
    """A block of a stacked row: which of the ``count`` blocks of which stack, and its number.

    ``number``: among what is kept from before the product, or among the results behind it.
    """

    stack: kl.Pointer
    count: int
    block: int
    number: int


@dataclass(frozen=True, slots=True)
class Parts:
    """The blocks of stacked rows that are known before the product, and the others."""

    early: list[Part]
    late: list[Part]

    @staticmethod
    def of(cell: Cell, stacks: Sequence[kl.Pointer], widths: Sequence[int]) -> Parts:
        """Return the blocks of all stacks."""
        early, late, number = list[Part](), list[Part](), cell.carries
        for stack, count in zip(stacks, widths, strict=True):
            for block in range(count):
                value = cell.after.results[number]
                if value < len(cell.after.operands) - cell.sums:
                    early.append(Part(stack, count, block, value))
                else:
                    late.append(Part(stack, count, block, number))
                number += 1
        return Parts(early, late)


class Late:
    """The results behind the product that stacks have: they wait for the next step's product."""

    def __init__(self, parts: Sequence[Part], cell: Cell, turns: int) -> None:
        self.parts, self.cell = parts, cell
        results, dtypes = cell.after.results, cell.after.outputs
        carried = {results[k]: k for k in range(cell.carries)}
        # What is a carry too is there already.
        self.carries = {
            p.number: carried[results[p.number]] for p in parts if results[p.number] in carried
        }
        own = dict.fromkeys(results[p.number] for p in parts if p.number not in self.carries)
        self.held = {value: kl.registers(turns, dtypes[results.index(value)]) for value in own}

    def keep(self, turn: int, results: Sequence[Value]) -> None:
        """Keep the results of a step."""
        for value, register in self.held.items():
            register[turn] = results[self.cell.after.results.index(value)]

    def write(
        self,
        own: Reader,
        turn: int,
        one: Feature,
        step: kl.Index,
        carries: Sequence[kl.Registers],
        reverse: bool,
        mask: kl.Mask = True,
    ) -> None:
        """Write the results of a step, which are the last ones that were kept."""
        row = own.extent.length - 1 - step if reverse else step
        for part in self.parts:
            k = self.carries.get(part.number)
            held = self.held[self.cell.after.results[part.number]] if k is None else carries[k]
            own.write(part.stack, row, one, held[turn], part.count, part.block, mask)


def constant(source: Source) -> kl.Number:
    """Return a constant; half types have none of their own."""
    if source.dtype.kind == "float" and source.dtype.itemsize < 4:
        return kl.cast(kl.constant(source.value, float32), source.dtype)
    return kl.constant(source.value, source.dtype)
