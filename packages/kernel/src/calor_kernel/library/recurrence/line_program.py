"""Line programs: what a step of a scan computes for lines that lie along the last axis.

Requirements: a line of the carries depends on the same line only, so a cube has a line of its own
and needs no other one. Values are elementwise, or parts, joins and paddings along the line: a
number at some position reads numbers at the same position, and at others by a fixed shift. What is
read at a shift is in memory that the units of a cube share: the carries, and *lines* that a step
makes between, each behind a barrier. All has the bits of the single ops.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from operator import index
from typing import Any, Literal

from calor.dtypes import DType
from calor.graph.graph import Graph, Node
from calor_kernel.library.elementwise.operations import ROWS, Step
from calor_kernel.library.recurrence.cell import REAL, SHARED, Source, Unfit, number_of

Kind = Literal["carry", "row", "held", "line"]


@dataclass(frozen=True, slots=True)
class Read:
    """A number that a position reads of a carry, a row of the step, a capture, or a line.

    ``number``: which one. ``shift``: from the position to the one that is read. ``width``: the
    positions that there are. ``across``: whether each line has numbers of its own. ``fixed``:
    whether all positions read the one that is numbered by the shift.
    """

    kind: Kind
    number: int
    shift: int
    width: int
    across: bool
    dtype: DType
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """The value ``inside`` at positions from ``begin`` to ``end``, else the value ``outside``."""

    begin: int
    end: int
    inside: int
    outside: int
    dtype: DType


Item = Read | Choice | Source | Step


@dataclass(frozen=True, slots=True)
class Piece:
    """Adjacent positions of a result: ``width`` of them from ``offset`` on have a value."""

    offset: int
    width: int
    value: int


@dataclass(frozen=True, slots=True)
class Line:
    """A value that a step shares among the positions of a line, for reads at a shift."""

    value: int
    width: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Result:
    """A carry or a stacked row: its positions, and the pieces of which they are made.

    ``own``: whether each position reads only what the same position wrote, of a carry.
    """

    width: int
    dtype: DType
    pieces: tuple[Piece, ...]
    own: bool = False


@dataclass(frozen=True, slots=True)
class LineProgram:
    """A step of a scan for a position of a line.

    ``items`` are numbered values, of which each reads some before it; ``stages`` tell how many
    barriers of the step lie before each. Constants are sources.
    """

    items: tuple[Item, ...]
    stages: tuple[int, ...]
    lines: tuple[Line, ...]
    carries: tuple[Result, ...]
    stacks: tuple[Result, ...]

    @property
    def shares(self) -> bool:
        """Whether positions of a line read each other's numbers."""
        return bool(self.lines) or not all(carry.own for carry in self.carries)

    @property
    def width(self) -> int:
        """The positions for which a step computes."""
        widths = [piece.width for one in (*self.carries, *self.stacks) for piece in one.pieces]
        return max((*widths, *(line.width for line in self.lines)))

    @property
    def dtypes(self) -> frozenset[DType]:
        """The dtypes with which a step computes."""
        return frozenset(item.dtype for item in self.items)


def line_program(body: Graph, carries: int, captures: int) -> LineProgram:
    """Return the step of a scan as a line program.

    Parameters
    ----------
    body : Graph
        The scan's body; its inputs are carries, rows and captures, its outputs carries and rows.
    carries, captures : int
        How many inputs are carries, and how many stay.

    Returns
    -------
    LineProgram
        The step.

    Raises
    ------
    Unfit
        If a line of the carries needs other lines, or an op is not elementwise.
    """
    return _Search(body, carries, captures).program()


@dataclass(frozen=True, slots=True)
class _Extent:
    """Whether each line has numbers of its own, and how many positions a value has."""

    across: bool
    width: int


class _Search:
    """The items of a body, found from the outputs on."""

    def __init__(self, body: Graph, carries: int, captures: int) -> None:
        self.body, self.carries = body, carries
        self.held = len(body.inputs) - captures
        self.makers = {v: node for node in body.nodes for v in node.outputs}
        if not carries or not body.specs[body.inputs[0]].ndim:
            raise Unfit("its carries have no lines")
        # Carries may differ in what lies along a line; before it all are alike.
        self.before = self._before(body.inputs[0])
        self.items: list[Item] = []
        self.stages: list[int] = []
        self.lines: list[Line] = []
        self.numbers: dict[Item, int] = {}
        self.found: dict[tuple[int, int, bool], int] = {}
        self.shared: dict[int, int] = {}

    def _before(self, value: int) -> tuple[int, ...]:
        sizes = self.body.specs[value].shape[:-1]
        while sizes and sizes[0] == 1:
            sizes = sizes[1:]
        return tuple(sizes)

    def program(self) -> LineProgram:
        """Return the whole."""
        results = []
        for number, value in enumerate(self.body.outputs):
            extent = self._extent(value)
            if self.before and not extent.across:
                raise Unfit("a step makes one line for all")
            dtype = self.body.specs[value].dtype
            results.append((extent.width, dtype, self._pieces(value, 0)))
            if number < self.carries and dtype.name == "bool":
                raise Unfit("a carry is of truth values")
        carried = [r for r in self.items if isinstance(r, Read) and r.kind == "carry"]
        shifted = {read.number for read in carried if read.shift or read.fixed}
        widest = max(width for width, _, pieces in results)
        made = [
            Result(
                *(width, dtype, pieces),
                own=number not in shifted
                and len(pieces) == 1
                # All positions of a line read a number that the line has once.
                and (width > 1 or widest == 1),
            )
            for number, (width, dtype, pieces) in enumerate(results)
        ]
        items, stages = tuple(self.items), tuple(self.stages)
        rows = made[self.carries :]
        return LineProgram(
            items, stages, tuple(self.lines), tuple(made[: self.carries]), tuple(rows)
        )

    def _extent(self, value: int) -> _Extent:
        known = self.body.specs[value]
        if known.dtype.kind not in REAL:
            raise Unfit(f"a step computes with {known.dtype}")
        width = index(known.shape[-1]) if known.ndim else 1
        if prod(known.shape[:-1]) == 1:
            return _Extent(False, width)
        if self._before(value) != self.before:
            raise Unfit(f"a step has a value of {known}")
        return _Extent(True, width)

    def _pieces(self, value: int, offset: int) -> tuple[Piece, ...]:
        """Return the pieces of a result, each a value from its own first position on."""
        node, width = self.makers.get(value), self._extent(value).width
        if node is not None and node.op.name == "pad":
            inner, fill = node.inputs
            low, count = self._padding(node), self._extent(inner).width
            ends = (0, low), (low + count, width)
            outside = [
                Piece(offset + begin, end - begin, self.at(fill, 0))
                for begin, end in ends
                if begin < end
            ]
            return (*self._pieces(inner, offset + low), *outside)
        if node is not None and node.op.name == "concat":
            found = list[Piece]()
            for part, begin in self._parts(node):
                found += self._pieces(part, offset + begin)
            return tuple(found)
        return (Piece(offset, width, self.at(value, 0)),)

    def at(self, value: int, shift: int, fixed: bool = False) -> int:
        """Return the item of a value, read by each position at a shift, or ``fixed`` by all."""
        extent = self._extent(value)
        key = (value, shift, fixed) if extent.width > 1 else (value, 0, False)
        number = self.found.get(key)
        if number is None:
            node = self.makers.get(value)
            made = self._given if node is None else self._made(node)
            number = self.found[key] = made(*key, extent)
        return number

    def _made(self, node: Node) -> Any:
        name = node.op.name
        known = {"slice": self._slice, "pad": self._pad, "concat": self._concat,
                 "expand": self._same, "reshape": self._same, "full": self._full}  # fmt: skip
        if name in known:
            return known[name]
        if name not in ROWS or len(node.outputs) > 1:
            raise Unfit(f"a step computes {name}")
        return self._computed

    def _put(self, item: Item, stage: int) -> int:
        number = self.numbers.setdefault(item, len(self.items))
        if number == len(self.items):
            self.items.append(item)
            self.stages.append(stage)
        return number

    def _given(self, value: int, shift: int, fixed: bool, extent: _Extent) -> int:
        body, number = self.body, value
        if value in body.host:
            raise Unfit("a step reads a number of the host")
        kind: Kind = "carry"
        if value >= self.held:
            kind, number = "held", value - self.held
        elif value >= self.carries:
            kind, number = "row", value - self.carries
        across = extent.across or kind == "carry"
        dtype = body.specs[value].dtype
        read = Read(kind, number, shift, extent.width, across, dtype, fixed)
        return self._put(read, 0)

    def _full(self, value: int, shift: int, fixed: bool, extent: _Extent) -> int:
        dtype, node = self.body.specs[value].dtype, self.makers[value]
        return self._put(Source("constant", 0, SHARED, dtype, number_of(node, dtype)), 0)

    def _same(self, value: int, shift: int, fixed: bool, extent: _Extent) -> int:
        """Return the item of a value that spreads another, or has axes of 1 beside its own."""
        (source,) = self.makers[value].inputs
        given = self._extent(source)
        spreads = self.makers[value].op.name == "expand"
        if given != extent and not (spreads and given.width in (1, extent.width)):
            raise Unfit(f"a step makes {self.body.specs[value]} of {self.body.specs[source]}")
        return self.at(source, shift, fixed)

    def _slice(self, value: int, shift: int, fixed: bool, extent: _Extent) -> int:
        node = self.makers[value]
        (source,) = node.inputs
        shape, said = self.body.specs[source].shape, node.attributes
        whole = tuple(said["starts"][:-1]) == (0,) * (len(shape) - 1)
        whole = whole and tuple(said["stops"][:-1]) == tuple(shape[:-1])
        if not whole or any(step != 1 for step in said["steps"]):
            raise Unfit("a step reads some lines of a value, or some positions")
        fixed = fixed or extent.width == 1
        return self.at(source, shift + index(said["starts"][-1]), fixed)

    def _padding(self, node: Node) -> int:
        """Return the positions before the inner value of a pad."""
        low, high, between = (node.attributes[name] for name in ("low", "high", "interior"))
        if any(low[:-1]) or any(high[:-1]) or any(between) or low[-1] < 0 or high[-1] < 0:
            raise Unfit("a step pads between its positions, or takes some away")
        return index(low[-1])

    def _pad(self, value: int, shift: int, fixed: bool, extent: _Extent) -> int:
        inner, fill = self.makers[value].inputs
        begin = self._padding(self.makers[value]) - shift
        count = self._extent(inner).width
        if fixed:
            within = begin <= 0 < begin + count
            return self.at(inner, -begin, fixed) if within else self.at(fill, 0)
        return self._chosen(begin, begin + count, self.at(inner, -begin), self.at(fill, 0))

    def _parts(self, node: Node) -> list[tuple[int, int]]:
        """Return the parts of a concat along the line, with their first positions."""
        if node.attributes["axis"] != self.body.specs[node.outputs[0]].ndim - 1:
            raise Unfit("a step joins lines")
        widths = [self._extent(v).width for v in node.inputs]
        return [(v, sum(widths[:n])) for n, v in enumerate(node.inputs)]

    def _concat(self, value: int, shift: int, fixed: bool, extent: _Extent) -> int:
        parts = self._parts(self.makers[value])
        if fixed:
            part, begin = [one for one in parts if one[1] <= shift][-1]
            return self.at(part, shift - begin, fixed)
        part, begin = parts.pop()
        made = self.at(part, shift - begin)
        for part, begin in reversed(parts):
            end = begin + self._extent(part).width
            made = self._chosen(begin - shift, end - shift, self.at(part, shift - begin), made)
        return made

    def _chosen(self, begin: int, end: int, inside: int, outside: int) -> int:
        choice = Choice(begin, end, inside, outside, self.items[inside].dtype)
        return self._put(choice, max(self.stages[inside], self.stages[outside]))

    def _computed(self, value: int, shift: int, fixed: bool, extent: _Extent) -> int:
        node, dtype = self.makers[value], self.body.specs[value].dtype
        if not shift and not fixed:
            operands = tuple(self.at(v, 0) for v in node.inputs)
            attributes = tuple(sorted(node.attributes.items()))
            stage = max((self.stages[n] for n in operands), default=0)
            return self._put(Step(node.op.name, operands, dtype, attributes), stage)
        number = self.at(value, 0)
        if dtype.name == "bool":
            raise Unfit("a step shares truth values")
        if value not in self.shared:
            self.shared[value] = len(self.lines)
            self.lines.append(Line(number, extent.width, dtype))
        read = Read("line", self.shared[value], shift, extent.width, True, dtype, fixed)
        return self._put(read, self.stages[number] + 1)
