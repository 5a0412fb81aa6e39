"""Operands of an epilogue in shared memory, copied while the products of a tile run.

Requirements: few warp groups are on a core, so reads beside the sums hide no latency, and memory
stands still between products. Each unit copies its own pieces of matrices, some parts of a tile
ahead, and waits for them alone. A number for each row is read before the products of a tile, held
in a register, and shared by the units of the row after them. The copies take shared memory from the
stages of the products. An operand may be the memory of a result: a unit copies a piece before it
writes it, and no other unit reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from calor_cuda.kernels.matmul.warpgroup_tma_plan import Ahead, TmaPlan
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.gemm.epilogue import After, Epilogue, Tail, Writer

# Bytes of a piece of the result, and of one copy at most.
PIECE = 16
# Pieces of a line of a part, and turns of a warp group's units to take those of 64 lines.
PIECES, TURNS = 8, 4
_GROUP = 128
# Instructions of an expression up to which turns are written out, and the registers of a unit for
# operands beside its sums.
LIGHT, HELD = 16, 16
# Parts on their way, at most and at least; the stages that products need at least.
_MOST, _LEAST, _STAGES = 4, 2, 3
# Bytes of a piece of an operand.
_COPIED = (4, 8, 16, 32)


def with_operands_ahead(plan: TmaPlan, tail: Tail | None, info: DeviceInfo) -> TmaPlan:
    """Return the plan that copies an epilogue's operands ahead.

    The same plan if registers hold them ahead, or if memory lacks.
    """
    if tail is None or plan.by_units or not info.has("async_copy"):
        return plan
    item = int(plan.result.itemsize)
    if tail.expression.weight <= LIGHT and 2 * tail.matrices * TURNS * item <= HELD:
        return plan
    wide = PIECE // item
    rows = tuple(k for k, x in enumerate(tail.extras) if x.strides[1] != 0 and x.strides[2] == 0)
    matrices = tuple(
        k
        for k, x in enumerate(tail.extras)
        if x.strides[1] != 0
        and x.strides[2] == 1
        and wide * x.dtype.itemsize in _COPIED
        and not any(n % wide for n in (x.offset, *x.strides[:2]))
    )
    shared = sum(plan.numbers * int(tail.extras[k].dtype.itemsize) for k in rows)
    each = sum(64 * plan.part * int(tail.extras[k].dtype.itemsize) for k in matrices)
    if not matrices and not rows:
        return plan
    for stages in range(plan.stages, min(_STAGES, plan.stages) - 1, -1):
        made = replace(plan, stages=stages, ahead=Ahead(0, (), rows, shared * plan.groups))
        room = info.shared_bytes - made.shared_bytes
        parts = min(_MOST, room // (each * plan.groups)) if each else 0
        if parts >= _LEAST or (not each and room >= 0):
            nbytes = (shared + parts * each) * plan.groups
            return replace(made, ahead=Ahead(parts, matrices, rows, nbytes))
    return plan


class Place(Protocol):
    """Where a warp group's units are in the result."""

    def place(self, turn: kl.Index, part: int) -> tuple[kl.Index, kl.Index]:
        """Return row and column of the unit's piece in the result."""

    def row(self, number: kl.Index) -> kl.Index:
        """Return the row of the result with a number among the tile's."""


@dataclass(frozen=True, slots=True)
class Room:
    """Shared memory for the operands of all warp groups: parts of matrices, and numbers of rows."""

    matrices: tuple[kl.Pointer, ...]
    rows: tuple[kl.Pointer, ...]


def room_of(epilogue: Epilogue | None, after: After | None, plan: TmaPlan) -> Room | None:
    """Allocate the shared memory of a plan, None if it copies nothing."""
    ahead = plan.ahead
    if ahead is None or epilogue is None or after is None:
        return None
    size = plan.groups * ahead.parts * 64 * plan.part
    return Room(
        tuple(kl.shared(size, after.sources[k].dtype, align=PIECE) for k in ahead.matrices),
        tuple(
            kl.shared(plan.groups * plan.numbers, after.sources[k].dtype, align=PIECE)
            for k in ahead.rows
        ),
    )


@dataclass(frozen=True, slots=True)
class Operands:
    """A warp group's operands of a tile.

    ``starts``: of each operand of the epilogue, for the product. ``whole``: rows and columns of the
    result.
    """

    room: Room
    after: After
    starts: Sequence[kl.Index]
    plan: TmaPlan
    whole: tuple[kl.Index, kl.Index]
    group: kl.Index
    unit: kl.Index

    @property
    def ahead(self) -> Ahead:
        """What the plan copies."""
        assert self.plan.ahead is not None
        return self.plan.ahead

    @property
    def wide(self) -> int:
        """The elements of a piece."""
        return PIECE // int(self.plan.result.itemsize)

    @staticmethod
    def of(
        room: Room | None,
        ends: Writer,
        plan: TmaPlan,
        whole: tuple[kl.Index, kl.Index],
        group: kl.Index,
        unit: kl.Index,
    ) -> Operands | None:
        """Return the operands of a product, None if nothing is in shared memory."""
        if room is None:
            return None
        return Operands(room, ends.after, ends.starts, plan, whole, group, unit)

    def start(self, at: Place) -> list[kl.Number]:
        """Start the copies of a tile's first parts; return numbers of its rows, for ``put``."""
        for part in range(self.ahead.parts):
            self.copy(at, part)
        found = []
        for k in self.ahead.rows:
            source, step = self.after.sources[k], self.after.steps[k].row
            for first in range(0, self.plan.numbers, _GROUP):
                number = kl.min(self.unit + first, self.plan.numbers - 1)
                row = kl.min(at.row(number), self.whole[0] - 1)
                found.append(source[self.starts[k] + row * step])
        return found

    @kl.helper
    def put(self, found: Sequence[kl.Number]) -> None:
        """Store the numbers of rows; units see them after a barrier.

        The units have read those of the tile before.
        """
        count = self.plan.numbers
        turns = -(-count // _GROUP)
        for q in range(len(found)):
            room, number = self.room.rows[q // turns], self.unit + q % turns * _GROUP
            if number < count:
                room[self.group * count + number] = found[q]

    @kl.helper
    def copy(self, at: Place, part: int) -> None:
        """Start the copies of the unit's pieces in a part, a group of them."""
        if part < self.plan.columns // self.plan.part:
            for q in range(len(self.ahead.matrices)):
                k = self.ahead.matrices[q]
                source, step = self.after.sources[k], self.after.steps[k].row
                size = min(self.wide, PIECE // int(source.dtype.itemsize))
                for turn in range(TURNS):
                    row, column = at.place(turn, part)
                    inside = (row < self.whole[0]) & (column < self.whole[1])
                    place = self.starts[k] + row * step + column
                    place = kl.assume_multiple(place, self.wide)
                    to = self._piece(turn, part)
                    for piece in range(0, self.wide, size):
                        kl.copy_ahead(
                            self.room.matrices[q], to + piece, source, place + piece, size, inside
                        )
        if self.ahead.parts:
            kl.commit_ahead()

    def read(self, turn: kl.Index, part: int, line: kl.Index) -> dict[int, kl.Number]:
        """Return the operands of the unit's piece, by their numbers."""
        found = {}
        for k, room in zip(self.ahead.matrices, self.room.matrices, strict=True):
            at = self._piece(turn, part)
            found[k] = room.load(at, self.wide, align=min(PIECE, self.wide * room.dtype.itemsize))
        for k, room in zip(self.ahead.rows, self.room.rows, strict=True):
            number = part * self.plan.part + line % self.plan.part if self.plan.transposed else line
            found[k] = kl.splat(room[self.group * self.plan.numbers + number], self.wide)
        return found

    def _piece(self, turn: kl.Index, part: int) -> kl.Index:
        """Return the index of the unit's piece of a part in its memory."""
        slot = self.group * self.ahead.parts + part % max(self.ahead.parts, 1)
        piece = (slot * TURNS + turn) * _GROUP + self.unit
        at: kl.Index = kl.assume_multiple(piece * self.wide, self.wide)
        return at
