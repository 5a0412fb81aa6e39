"""A scan in one launch whose cubes have a line of the carries each: steps by line programs.

Requirements: a step costs its computation and a few barriers of one cube. Carries whose positions
read each other are in shared memory, at two places that alternate, and all others in registers.
Rows are read a step ahead, and written where nothing waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel import language as kl
from calor_kernel.library.elementwise.operations import apply
from calor_kernel.library.elementwise.values import Complex
from calor_kernel.library.recurrence.cell import Source
from calor_kernel.library.recurrence.line_program import (
    Choice,
    Item,
    LineProgram,
    Piece,
    Read,
    Result,
)
from calor_kernel.library.recurrence.stacks import constant


@kl.kernel
def scan_lines(
    first: tuple[kl.In, ...],
    rows: tuple[kl.In, ...],
    held: tuple[kl.In, ...],
    last: tuple[kl.Out, ...],
    stacks: tuple[kl.Out, ...],
    kept: tuple[kl.Out, ...],
    length: kl.Size,
    count: kl.Size,
    *,
    program: LineProgram,
    units: int,
    turns: int,
    reverse: bool,
) -> None:
    """Run all steps of a scan for one line, or for some positions of one that share nothing.

    Parameters
    ----------
    first, rows, held : tuple of In
        The carries before the first step, shape (count, width) each; stacked rows, shape (length,
        count, width); captures.
    last, stacks, kept : tuple of Out
        The carries after the last step; stacked results; the carries before each step, or none.
    length, count : Size
        The steps, and the lines.
    program : LineProgram
        A step.
    units, turns : int
        The units of a cube, and the positions of each unit.
    reverse : bool
        Whether steps begin with the last row.
    """
    line = kl.cube_position(0)
    begin = kl.cube_position(1) * (units * turns)
    places = [begin + kl.unit_index() + turn * units for turn in range(turns)]
    memory = _Memory(program, rows, held, line, count)
    carried = _Carried(program, turns)
    carried.begin(first, line, places)
    start = length - 1 if reverse else 0
    for target, one in zip(kept, carried.all(), strict=False):
        one.copy(target, (start * count + line) * one.width, places)
    stays = [memory.stay(place) for place in places]
    ahead = [kl.registers(turns, item.dtype) for item in memory.of("row")]
    memory.read(ahead, places, start)
    between = [kl.shared(one.width, one.dtype) for one in program.lines]
    if program.shares:
        kl.barrier()
    for step in kl.loop_range(length):
        row = length - 1 - step if reverse else step
        given = [[register[turn] for register in ahead] for turn in range(turns)]
        # The rows of the last step are read again, which needs no branch.
        following = kl.min(step + 1, length - 1)
        after = length - 1 - following if reverse else following
        memory.read(ahead, places, after)
        points = [
            _Point(program, places[turn], step, turn, carried, between, memory.given(*known))
            for turn, known in enumerate(zip(given, stays, strict=True))
        ]
        for stage in range(max(program.stages) + 1):
            if stage:
                kl.barrier()
            for point in points:
                point.compute(stage)
        for point in points:
            for target, made in zip(stacks, program.stacks, strict=True):
                point.write(target, (row * count + line) * made.width, made)
            for target, made in zip(kept, program.carries, strict=False):
                point.write(target, (after * count + line) * made.width, made, step + 1 < length)
        for point in points:
            point.carry()
        if program.shares:
            kl.barrier()
    for target, one in zip(last, carried.all(), strict=True):
        one.copy(target, line * one.width, places, length)


@kl.helper
def inside(place: kl.Number, width: int) -> kl.Number:
    """Return whether a position is one of a line of so many."""
    return (place >= 0) & (place < width)


class _Memory:
    """The rows and captures of a line."""

    def __init__(
        self,
        program: LineProgram,
        rows: Sequence[kl.Pointer],
        held: Sequence[kl.Pointer],
        line: kl.Number,
        count: kl.Number,
    ) -> None:
        self.program, self.line, self.count = program, line, count
        self.memories = {"row": rows, "held": held}

    def of(self, kind: str) -> list[Read]:
        """Return what is read of rows, or of captures."""
        items = self.program.items
        return [item for item in items if isinstance(item, Read) and item.kind == kind]

    def _load(self, item: Read, place: kl.Number, row: kl.Index) -> kl.Number:
        whole = row * self.count + self.line if item.across else row
        memory = self.memories[item.kind][item.number]
        return memory[whole * item.width + where(item, place)]

    def read(
        self, ahead: Sequence[kl.Registers], places: Sequence[kl.Number], row: kl.Index
    ) -> None:
        """Read a row of a step."""
        for item, register in zip(self.of("row"), ahead, strict=True):
            for turn, place in enumerate(places):
                register[turn] = self._load(item, place, row)

    def stay(self, place: kl.Number) -> list[kl.Number]:
        """Return what is the same in all steps."""
        return [self._load(item, place, 0) for item in self.of("held")]

    def given(self, rows: Sequence[kl.Number], held: Sequence[kl.Number]) -> dict[Read, kl.Number]:
        """Return the numbers of a step by what reads them."""
        return dict(zip((*self.of("row"), *self.of("held")), (*rows, *held), strict=True))


class _Own:
    """A carry in registers: each position has its own number."""

    def __init__(self, made: Result, turns: int) -> None:
        self.width, self.held = made.width, kl.registers(turns, made.dtype)

    def begin(self, first: kl.Pointer, start: kl.Index, places: Sequence[kl.Number]) -> None:
        """Read the carry before the first step."""
        for turn, place in enumerate(places):
            self.held[turn] = first[start + kl.select(inside(place, self.width), place, 0)]

    def copy(
        self,
        target: kl.Pointer,
        start: kl.Index,
        places: Sequence[kl.Number],
        step: kl.Index = 0,
    ) -> None:
        """Write the carry before a step to memory."""
        for turn, place in enumerate(places):
            target.store(start + place, self.held[turn], mask=inside(place, self.width))

    def at(self, turn: int, place: kl.Number, item: Read, step: kl.Index) -> kl.Number:
        """Return what a position reads of the carry before a step."""
        return self.held[turn]

    def put(
        self, turn: int, place: kl.Number, piece: Piece, value: kl.Number, step: kl.Index
    ) -> None:
        """Keep a number for the next step."""
        self.held[turn] = value


class _Shared:
    """A carry in shared memory, at two places that alternate."""

    def __init__(self, made: Result, units: kl.Index) -> None:
        self.width, self.units = made.width, units
        self.memory = kl.shared(2 * made.width, made.dtype)

    def begin(self, first: kl.Pointer, start: kl.Index, places: Sequence[kl.Number]) -> None:
        """Read the carry before the first step."""
        self._copy(first, start, self.memory, 0)

    def copy(
        self,
        target: kl.Pointer,
        start: kl.Index,
        places: Sequence[kl.Number],
        step: kl.Index = 0,
    ) -> None:
        """Write the carry before a step to memory."""
        self._copy(self.memory, step % 2 * self.width, target, start)

    @kl.helper
    def _copy(
        self, source: kl.Pointer, begin: kl.Index, target: kl.Pointer, start: kl.Index
    ) -> None:
        for number in kl.loop_range(kl.unit_index(), self.width, self.units):
            target[start + number] = source[begin + number]

    def at(self, turn: int, place: kl.Number, item: Read, step: kl.Index) -> kl.Number:
        """Return what a position reads of the carry before a step."""
        return self.memory[step % 2 * self.width + where(item, place)]

    def put(
        self, turn: int, place: kl.Number, piece: Piece, value: kl.Number, step: kl.Index
    ) -> None:
        """Keep a number for the next step."""
        at = (step + 1) % 2 * self.width + piece.offset + place
        self.memory.store(at, value, mask=inside(place, piece.width))


def where(item: Read, place: kl.Number) -> kl.Index:
    """Return the position that a position reads; the first one where there is none."""
    if item.fixed or item.width == 1:
        return item.shift
    at = place + item.shift
    made: kl.Number = kl.select(inside(at, item.width), at, 0)
    return made


class _Carried:
    """The carries of a line, each where its positions need it."""

    def __init__(self, program: LineProgram, turns: int) -> None:
        units = kl.cube_size()
        self.carries = [
            _Own(made, turns) if made.own else _Shared(made, units) for made in program.carries
        ]

    def all(self) -> Sequence[_Own | _Shared]:
        """Return all carries in order."""
        return self.carries

    def begin(
        self, first: Sequence[kl.Pointer], line: kl.Number, places: Sequence[kl.Number]
    ) -> None:
        """Read the carries before the first step."""
        for one, memory in zip(self.carries, first, strict=True):
            one.begin(memory, line * one.width, places)


class _Point:
    """A position of a line in a step: its numbers, stage by stage."""

    def __init__(
        self,
        program: LineProgram,
        place: kl.Number,
        step: kl.Index,
        turn: int,
        carried: _Carried,
        between: Sequence[kl.Pointer],
        given: dict[Read, kl.Number],
    ) -> None:
        self.program, self.place, self.step, self.turn = program, place, step, turn
        self.carried, self.between, self.given = carried, between, given
        self.values: dict[int, kl.Number] = {}

    def compute(self, stage: int) -> None:
        """Compute the items of a stage, and share the lines that are made in it."""
        program = self.program
        for number, item in enumerate(program.items):
            if program.stages[number] == stage:
                self.values[number] = self._value(item)
        for line, memory in zip(program.lines, self.between, strict=True):
            if program.stages[line.value] == stage:
                exists = inside(self.place, line.width)
                memory.store(self.place, self.values[line.value], mask=exists)

    def _value(self, item: Item) -> kl.Number:
        if isinstance(item, Source):
            return constant(item)
        if isinstance(item, Choice):
            chosen = (self.place >= item.begin) & (self.place < item.end)
            made: kl.Number = kl.select(chosen, self.values[item.inside], self.values[item.outside])
            return made
        if not isinstance(item, Read):
            dtypes = [self.program.items[n].dtype for n in item.operands]
            computed = apply(item, [self.values[n] for n in item.operands], dtypes)
            assert not isinstance(computed, Complex)
            return computed
        if item.kind == "carry":
            carry = self.carried.carries[item.number]
            return carry.at(self.turn, self.place, item, self.step)
        if item.kind == "line":
            return self.between[item.number][where(item, self.place)]
        return self.given[item]

    def write(
        self, target: kl.Pointer, start: kl.Index, made: Result, mask: kl.Mask = True
    ) -> None:
        """Write the pieces of a result to memory."""
        for piece in made.pieces:
            exists = inside(self.place, piece.width)
            exists = exists if mask is True else exists & mask
            target.store(start + piece.offset + self.place, self.values[piece.value], mask=exists)

    def carry(self) -> None:
        """Keep the carries for the next step."""
        for one, made in zip(self.carried.carries, self.program.carries, strict=True):
            for piece in made.pieces:
                value = self.values[piece.value]
                one.put(self.turn, self.place, piece, value, self.step)
