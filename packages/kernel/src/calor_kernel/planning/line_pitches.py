"""Pitches: intermediates whose lines begin at whole cache lines, where that saves time.

Requirements: a matrix with an odd number of columns, as the scores of 50,257 words, begins its
lines where no copy engine and no vector access can. Each product that reads it would copy it first.
So its producer writes the lines with a pitch, and its readers take it by strides, if the families
of all of them do so and their launches then move less. A value that dies where such a matrix is
made gets the same pitch, so that both can share memory. The pixels of a channel are a line too:
convolutions copy images of 14 x 14 pixels in half types for that reason. Elements keep their bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from calor_kernel.contract.choices import is_size
from calor_kernel.contract.cost import Ceilings, ceilings_of, work_seconds
from calor_kernel.contract.work import PITCHED, Line, Refusal
from calor_kernel.planning.lowering import Lowerings
from calor_kernel.planning.values import Piece, Task, Value

# Bytes of a line's start, the least bytes of a matrix, and how many times longer its lines are.
_LINE: Final = 128
_LEAST: Final = 1 << 20
_LONG: Final = 64
# The ops whose time by the cost model tells what copies of operands cost.
_READERS: Final = frozenset(("dot_general", "product_chain", "row_program"))
# Bytes of an access of a copy engine: lines at multiples of it need no pitch.
_ACCESS: Final = 16
# The ops that read images, whose lines are the pixels of a channel, and other readers of images;
# a pitch is at most so many parts more than a line.
_IMAGES: Final = frozenset(("conv", "conv_chain", "conv_input_gradient", "conv_weight_gradient"))
_BESIDE: Final = _IMAGES | {"row_program"}
_MORE: Final = 16


def with_pitches(
    tasks: Sequence[Task], outputs: Sequence[Piece], lowerings: Lowerings, deterministic: bool
) -> list[Task]:
    """Return tasks of which some write and read intermediates with a pitch."""
    made = list(tasks)
    search = _Search(made, outputs, lowerings, deterministic)
    for number, task in enumerate(tasks):
        for piece in task.outputs:
            if search.line(number, piece) is not None:
                search.settle(piece)
    return made


def odd(length: int, item: int) -> bool:
    """Return whether lines of so many items begin where no copy engine can read them."""
    return length * item % _ACCESS != 0


def _rounded(count: int, unit: int) -> int:
    return -(-count // unit) * unit


class _Search:
    """Tasks, of which those that get pitches are replaced."""

    def __init__(
        self, tasks: list[Task], outputs: Sequence[Piece], lowerings: Lowerings, settled: bool
    ) -> None:
        self.tasks, self.lowerings, self.deterministic = tasks, lowerings, settled
        self.kept = frozenset(outputs)
        self.ceilings: Ceilings = ceilings_of(lowerings.info)
        self.maker = {p: n for n, task in enumerate(tasks) for p in task.outputs}
        self.readers: dict[Piece, dict[int, None]] = {}
        for number, task in enumerate(tasks):
            for value in task.inputs:
                self.readers.setdefault(value.piece, {})[number] = None

    def line(self, number: int, piece: Piece) -> Line | None:
        """Return a line of a large result and its pitch, None unless lines begin at odd places."""
        task = self.tasks[number]
        spec = task.results[task.outputs.index(piece)]
        if is_size(piece.nbytes) or task.op not in PITCHED or piece in self.kept or piece.line[0]:
            return None
        if piece.nbytes < _LEAST or len(spec.shape) < 2 or piece.nbytes != spec.nbytes:
            return None
        item, read = spec.dtype.itemsize, {self.tasks[n].op for n in self.readers.get(piece, ())}
        if _ACCESS % item:
            return None
        if read <= _READERS:
            length = spec.shape[-1]
            pitch = _rounded(length, _LINE // item)
            return (length, pitch) if length * item >= _LONG * _LINE and odd(length, item) else None
        if not read <= _BESIDE or len(spec.shape) < 3:
            return None
        length = prod(spec.shape[2:])
        pitch = _rounded(length, _ACCESS // item)
        return (length, pitch) if length < pitch <= length + length // _MORE else None

    def settle(self, piece: Piece) -> None:
        """Give a result a pitch, and what it may be written over, if that saves time."""
        found = self.asked([piece])
        if found is None or not self.saves(found):
            return
        # The result may lie over an operand of its task, if that has a pitch as well.
        number = self.maker[piece]
        for value in found[number].inputs:
            below = value.piece
            if below in self.maker and below.nbytes == piece.nbytes:
                dies = max(self.readers[below]) == number
                if dies and self.line(self.maker[below], below) is not None:
                    both = self.asked([piece, below])
                    found = found if both is None else both
        self.take(found)

    def take(self, found: Mapping[int, Task]) -> None:
        """Replace tasks by those with pitches."""
        for n, task in found.items():
            pairs = zip(self.tasks[n].outputs, task.outputs, strict=True)
            for old, new in pairs:
                self.maker[new] = n
                self.readers[new] = self.readers.get(old, {})
            self.tasks[n] = task

    def asked(self, pieces: Sequence[Piece]) -> dict[int, Task] | None:
        """Return the tasks that make and read some pieces with pitches; None if one refuses."""
        pitched = {piece: self.pitched(piece) for piece in pieces}
        numbers = {self.maker[p]: None for p in pieces}
        for piece in pieces:
            numbers |= self.readers[piece]
        found: dict[int, Task] = {}
        for number in numbers:
            task = self.moved(self.tasks[number], pitched)
            if task is None:
                return None
            found[number] = task
        return found

    def pitched(self, piece: Piece) -> Piece:
        """Return the memory of a result with a pitch."""
        line = self.line(self.maker[piece], piece)
        assert line is not None
        return Piece("made", piece.nbytes // line[0] * line[1], line=line)

    def moved(self, task: Task, pitched: Mapping[Piece, Piece]) -> Task | None:
        """Return a task on pieces with pitches, None if its family refuses it."""
        inputs = []
        for k, value in enumerate(task.inputs):
            piece = pitched.get(value.piece)
            if piece is None:
                inputs.append(value)
                continue
            view = value.view.pitched(*piece.line)
            if view is None or self.lowerings.dense(task.op, k):
                return None
            inputs.append(Value(piece, view))
        outputs = tuple(pitched.get(piece, piece) for piece in task.outputs)
        lines = tuple(piece.line for piece in outputs)
        pitches = lines if any(length for length, _ in lines) else ()
        if pitches and task.op not in PITCHED:
            return None
        given = task.attributes, tuple(v.view for v in inputs), task.results, self.deterministic
        works = self.lowerings.ask(task.op, *given, pitches=pitches)
        if isinstance(works, Refusal):
            return None
        if pitches:
            # Its candidates are not timed, since a trial has dense results.
            works = works[:1]
        return replace(task, works=works, inputs=tuple(inputs), outputs=outputs, pitches=pitches)

    def saves(self, found: Mapping[int, Task]) -> bool:
        """Return whether the tasks take less time than they do on dense memory."""
        before = sum(work_seconds(self.tasks[n].works[0], self.ceilings) for n in found)
        after = sum(work_seconds(task.works[0], self.ceilings) for task in found.values())
        return after < before * (1 - 1 / 64)
