"""An epilogue on the sums of warp groups: through shared memory, in whole accesses.

Requirements: the instructions keep a row's sums apart in many units, so sums are stored to shared
memory first, rounded to the product's dtype. Each unit then takes pieces of 16 bytes, reads the
operands beside them in whole accesses, and writes the results. Operands that the plan does not copy
ahead are read before those of the part before are used, if registers suffice, since few units hide
latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calor_cuda.kernels.matmul.epilogue_operands import (
    HELD,
    LIGHT,
    PIECE,
    PIECES,
    TURNS,
    Operands,
    Room,
)
from calor_cuda.kernels.matmul.register_a import store_turned
from calor_cuda.kernels.matmul.tma_store import store_part
from calor_cuda.kernels.matmul.warpgroup_tma_plan import PARTS, TmaPlan
from calor_kernel import language as kl
from calor_kernel.library.gemm.epilogue import Writer

Read = Sequence[Mapping[int, kl.Number]]


@dataclass(frozen=True, slots=True)
class End:
    """A warp group's part in a tile: the epilogue, the tile's place, and the unit's.

    ``there``: the product, row and column of the tile; ``whole``: rows and columns of the result.
    ``ahead``: the operands in shared memory.
    """

    ends: Writer
    plan: TmaPlan
    there: tuple[kl.Index, kl.Index, kl.Index]
    whole: tuple[kl.Index, kl.Index]
    group: kl.Index
    unit: kl.Index
    ahead: Operands | None

    @property
    def wide(self) -> int:
        """The elements of a piece."""
        return PIECE // int(self.plan.result.itemsize)

    @property
    def known(self) -> tuple[int, ...]:
        """The numbers of the operands in shared memory."""
        ahead = self.plan.ahead
        return () if ahead is None or self.ahead is None else (*ahead.matrices, *ahead.rows)

    @property
    def held(self) -> int:
        """The registers for the operands of a part that differ between its lines."""
        known = self.known
        matrices = sum(along.rows for k, along in enumerate(self.ends.by.along) if k not in known)
        return matrices * TURNS * int(self.plan.result.itemsize)

    @property
    def light(self) -> bool:
        """Whether all turns are written out: their code is short, and registers hold operands."""
        return self.ends.by.expression.weight <= LIGHT and self.held <= HELD

    @property
    def early(self) -> bool:
        """Whether registers suffice for the operands of two parts."""
        return 2 * self.held <= HELD

    def line(self, turn: kl.Index) -> kl.Index:
        """Return the line of the unit's piece in a turn."""
        return self.unit // PIECES + turn * (128 // PIECES)

    def row(self, number: kl.Index) -> kl.Index:
        """Return the row of the result with a number among the warp group's."""
        _, row, column = self.there
        return column + number if self.plan.transposed else row + self.plan.top(self.group) + number

    def place(self, turn: kl.Index, part: int) -> tuple[kl.Index, kl.Index]:
        """Return row and column of the unit's piece in the result."""
        _, row, column = self.there
        line, within = self.line(turn), self.unit % PIECES * self.wide
        top, start, size = self.plan.top(self.group), part * self.plan.part, self.plan.part
        if not self.plan.transposed:
            return row + top + line, column + start + within
        # Boxes of columns of the product, each a line along its rows.
        return column + start + line % size, row + top + line // size * size + within

    def read(
        self, turn: kl.Index, part: int, shared: Mapping[int, kl.Number]
    ) -> dict[int, kl.Number]:
        """Return the operands of a piece that are not in shared memory, by their numbers.

        Those beyond the result repeat its last ones. ``shared``: the operands of another turn, some
        of which are the same.
        """
        row, column = self.place(turn, part)
        row = kl.min(row, self.whole[0] - 1)
        column = kl.assume_multiple(kl.min(column, self.whole[1] - self.wide), self.wide)
        others = [k for k in range(len(self.ends.by.along)) if k not in self.known]
        return self.ends.some(others, row, column, self.wide, shared)

    @kl.helper
    def write(
        self, turn: kl.Index, part: int, place: kl.Pointer, read: Mapping[int, kl.Number]
    ) -> None:
        """Write what follows a piece of the sums in shared memory."""
        line, wide = self.line(turn), self.wide
        piece = self.unit % PIECES ^ line % PIECES
        at = kl.assume_multiple(line * self.plan.part + piece * wide, wide)
        known = {} if self.ahead is None else self.ahead.read(turn, part, line)
        given = {**read, **known}
        values = self.ends.results(
            place.load(at, wide, align=PIECE), [given[k] for k in range(len(given))]
        )
        row, column = self.place(turn, part)
        if (row < self.whole[0]) & (column < self.whole[1]):
            start = (self.there[0] * self.whole[0] + row) * self.whole[1] + column
            self.ends.store(start, values, aligned=wide)


def end_of(
    ends: Writer | None,
    room: Room | None,
    plan: TmaPlan,
    there: tuple[kl.Index, kl.Index, kl.Index],
    whole: tuple[kl.Index, kl.Index],
    group: kl.Index,
    unit: kl.Index,
) -> End | None:
    """Return a warp group's part in the end of a tile, None if it writes sums by other means."""
    if ends is None or plan.by_units:
        return None
    ahead = Operands.of(room, ends, plan, whole, group, unit)
    return End(ends, plan, there, whole, group, unit, ahead)


def start_tile(end: End) -> list[kl.Number]:
    """Start what an epilogue reads ahead of its sums; return numbers for ``end_tile``."""
    return [] if end.ahead is None else end.ahead.start(end)


@kl.helper
def end_tile(end: End, parts: kl.Pointer, sums: kl.Fragment, numbers: Sequence[kl.Number]) -> None:
    """Write what follows a warp group's sums."""
    plan = end.plan
    count = plan.columns // plan.part
    if count % PARTS or numbers:
        # The first part of the next tile has the memory of this one's last part, and numbers of
        # rows have that of the tile before.
        kl.barrier("warpgroup")
    if end.ahead is not None:
        end.ahead.put(numbers)
    ahead = all_turns(end, 0)
    for part in range(count):
        now = ahead
        if end.early and part + 1 < count:
            ahead = all_turns(end, part + 1)
        end_part(end, now, parts, sums, part)
        if not end.early and part + 1 < count:
            ahead = all_turns(end, part + 1)


@kl.helper
def end_part(end: End, read: Read, parts: kl.Pointer, sums: kl.Fragment, part: int) -> None:
    """Write what follows a part of a warp group's columns.

    Units that store this part have read the part before the last: there is a barrier between.
    """
    plan = end.plan
    start, size = part * plan.part, plan.part
    place = parts.at((end.group * PARTS + part % PARTS) * (64 * size))
    if plan.transposed:
        store_turned(sums, place, start, plan)
    else:
        store_part(sums, place, start, size, plan.swizzle(plan.result))
    if plan.ahead is not None and plan.ahead.parts:
        kl.wait_ahead(plan.ahead.parts - 1)
    kl.barrier("warpgroup")
    if end.light:
        for turn in range(TURNS):
            end.write(turn, part, place, read[turn])
    else:
        for turn in kl.loop_range(TURNS):
            shared = {} if plan.transposed else read[0]
            end.write(turn, part, place, end.read(turn, part, shared))
    if end.ahead is not None and end.ahead.ahead.parts:
        # Behind the last use of what the memory has.
        end.ahead.copy(end, part + end.ahead.ahead.parts)


def all_turns(end: End, part: int) -> Read:
    """Return the operands of a part for each turn, or of the first turn if turns are a loop."""
    read: list[dict[int, kl.Number]] = []
    for turn in range(TURNS if end.light else 1):
        # What is the same in all rows is so for all turns, unless lines are columns of the product.
        shared = read[0] if read and not end.plan.transposed else {}
        read.append(end.read(turn, part, shared))
    return read
