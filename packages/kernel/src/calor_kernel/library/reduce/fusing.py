"""Reductions, softmax and norms with the elementwise work around them, as one launch: the fuser.

Requirements: what is computed before a reduction is computed where it reads, and what becomes of it
where its walk, or the next one, writes; several reductions along the same rows are one program;
values between never lie in memory, unless something else reads them too; groups are convex, and
what the planner would have to move on the way is none of a group's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Final, Literal

from calor.graph.graph import Graph, Node
from calor_kernel.library.elementwise.expression import Step
from calor_kernel.library.elementwise.operations import ROWS
from calor_kernel.library.reduce.composites import COMPOSITES, composite
from calor_kernel.library.reduce.kinds import EXTREMES, TOTALS, TRUTHS, working
from calor_kernel.library.reduce.lower_program import Plan
from calor_kernel.library.reduce.placing import Job, Placed
from calor_kernel.library.reduce.program import Fold, Program, Recipe, Schedule
from calor_kernel.library.work import (
    Input,
    Output,
    Refusal,
    Request,
    View,
    Work,
    lowering,
    row_major,
)
from calor_kernel.planning.cost import ceilings_of, moved
from calor_kernel.planning.fuser import Fuser, Group
from calor_kernel.planning.views import MOVEMENTS, view_of
from calor_kernel.runtime.device import DeviceInfo

PROGRAM: Final = "row_program"
Role = Literal["along", "row"]
_FOLDS: Final = frozenset((*TOTALS, *EXTREMES, *TRUTHS))
# Registers and parameters are not endless, and a walk computes its values anew.
_OPERANDS, _RESULTS, _STEPS = 12, 4, 48
# Instructions of a step that a later walk rather reads than computes again, and how many are kept.
_HEAVY, _KEPT = 8, 2


@lowering(PROGRAM, strided=True)
def lower_row_program(request: Request) -> Sequence[Work] | Refusal:
    """Lower a ``program`` on a ``shape`` along its ``axes``.

    ``operands``: the input that each operand in memory is. ``numbers``: those of the program.
    """
    program: Program = request.attributes["program"]
    shape, axes = request.attributes["shape"], request.attributes["axes"]
    rows = tuple(n for a, n in enumerate(shape) if a not in axes)
    sources = []
    for number, k in zip(program.memory, request.attributes["operands"], strict=True):
        view = request.inputs[k]
        if program.operands[number].place == "row":
            view = as_rows(view, rows)
        sources.append(Placed(Input(k), view))
    along = Schedule.of(program).along
    targets = [
        Placed(Output(k), View(*_dense(shape if along[n] else rows), program.dtype(n)))
        for k, n in enumerate(program.results)
    ]
    plan = Plan(request.info)
    numbers = request.attributes["numbers"]
    plan.add(program, Job(shape, axes, tuple(sources), tuple(targets), numbers, "rows.program"))
    return [plan.work()]


def _dense(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return shape, row_major(shape)


def as_rows(view: View, rows: tuple[int, ...]) -> View:
    """Return a view of a value a row, whose shape may have more axes of size 1, as one of rows."""
    strides = iter([s for n, s in zip(view.shape, view.strides, strict=True) if n != 1])
    return View(rows, tuple(0 if n == 1 else next(strides) for n in rows), view.dtype, view.offset)


class RowFuser(Fuser):
    """Finds reductions along the same rows, and the elementwise ops around them."""

    name = "rows"

    def groups(self, graph: Graph, info: DeviceInfo) -> Iterable[Group]:
        """Return groups that do not overlap, in the order of their first reductions."""
        search = _Search(graph, info)
        taken: set[int] = set()
        for number in range(len(graph.nodes)):
            if number in taken:
                continue
            found = search.grow(number, taken)
            if found is not None:
                taken.update(found.nodes)
                yield search.group(found)


@dataclass(slots=True)
class _Rows:
    """What is taken so far.

    ``roles``: per value that the group computes. ``computing``: the nodes that compute them.
    ``between``: movement on the way.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    roles: dict[int, Role] = field(default_factory=dict)
    computing: set[int] = field(default_factory=set)
    between: set[int] = field(default_factory=set)

    @property
    def rows(self) -> tuple[int, ...]:
        """The shape of a value a row."""
        return tuple(n for a, n in enumerate(self.shape) if a not in self.axes)

    @property
    def nodes(self) -> set[int]:
        """All nodes of the group."""
        return self.computing | self.between

    def copy(self) -> _Rows:
        """Return a group that may grow on its own."""
        return replace(
            self,
            roles=dict(self.roles),
            computing=set(self.computing),
            between=set(self.between),
        )


class _Search:
    """A graph with what growing groups asks of it."""

    def __init__(self, graph: Graph, info: DeviceInfo) -> None:
        self.graph, self.info = graph, info
        self.ceilings = ceilings_of(info)
        self.maker = {o: i for i, n in enumerate(graph.nodes) for o in n.outputs}
        self.readers: dict[int, list[int]] = {}
        for i, node in enumerate(graph.nodes):
            for value in dict.fromkeys(node.inputs):
                self.readers.setdefault(value, []).append(i)
        self.wanted = frozenset(graph.outputs)
        self.above: list[int] = []
        for node in graph.nodes:
            bits = 0
            for value in node.inputs:
                if value in self.maker:
                    bits |= self.above[self.maker[value]] | 1 << self.maker[value]
            self.above.append(bits)

    # What nodes are.
    def _reduction(self, number: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return the shape and the axes that a node reduces, None where it is no reduction."""
        node = self.graph.nodes[number]
        name, attributes = node.op.name, node.attributes
        if name not in _FOLDS and name not in COMPOSITES:
            return None
        x = self.graph.specs[node.inputs[0]]
        if not x.size or any(
            self.graph.specs[v].dtype.is_complex for v in (*node.inputs, *node.outputs)
        ):
            return None
        axes = (attributes["axis"],) if "axis" in attributes else tuple(sorted(attributes["axes"]))
        return x.shape, axes

    def _move(self, number: int) -> Node | None:
        """Return a node if it only says where elements are."""
        node = self.graph.nodes[number]
        if node.op.name not in MOVEMENTS or len(node.inputs) != 1:
            return None
        x, result = self.graph.specs[node.inputs[0]], self.graph.specs[node.outputs[0]]
        if x.dtype is not result.dtype:
            return None
        return node if view_of(node.op.name, View.dense(x), node.attributes, result) else None

    def _elementwise(self, number: int) -> bool:
        node = self.graph.nodes[number]
        if node.op.name not in ROWS or self._move(number) is not None:
            return False
        return not any(
            self.graph.specs[v].dtype.is_complex or self.graph.specs[v].dtype.kind == "storage"
            for v in (*node.inputs, *node.outputs)
        )

    def role(self, group: _Rows, value: int) -> Role | None:
        """Return what a value is to a group by its shape."""
        shape = self.graph.specs[value].shape
        if shape == group.shape:
            return "along"
        squeezed = [n for n in shape if n != 1]
        return "row" if squeezed == [n for n in group.rows if n != 1] else None

    def behind(self, value: int) -> tuple[int, list[int]]:
        """Return the value that lies behind movement, and the nodes that move it."""
        between: list[int] = []
        while value in self.maker and self._move(self.maker[value]) is not None:
            between.insert(0, self.maker[value])
            value = self.graph.nodes[self.maker[value]].inputs[0]
        return value, between

    def link(self, group: _Rows, value: int, role: Role) -> tuple[int, list[int]] | None:
        """Return the group's value that an operand is, with the movement between; None for none.

        Raises ValueError for one that the group has, but not in this way.
        """
        source, between = self.behind(value)
        if source not in group.roles:
            return None
        view: View | None = View.dense(self.graph.specs[source])
        for number in between:
            node = self.graph.nodes[number]
            spec = self.graph.specs[node.outputs[0]]
            view = view and view_of(node.op.name, view, node.attributes, spec)
        if view is None or not self._fits(group, view, group.roles[source], role):
            raise ValueError("moved on the way")
        return source, between

    @staticmethod
    def _fits(group: _Rows, view: View, source: Role, role: Role) -> bool:
        if source == role:
            return view.is_dense and not view.offset
        if source == "along":
            return False
        strides = iter(row_major(group.rows))
        expected = [0 if a in group.axes else next(strides) for a in range(len(group.shape))]
        pairs = zip(view.shape, view.strides, expected, strict=True)
        return not view.offset and all(n == 1 or s == e for n, s, e in pairs)

    # Growing.
    def grow(self, seed: int, taken: set[int]) -> _Rows | None:
        """Return the group around a reduction, None where there is none or nothing around it."""
        kind = self._reduction(seed)
        if kind is None or not kind[1]:
            return None
        group = self._with(_Rows(*kind), seed)
        if group is None:
            return None
        closed = group
        tried: set[int] = set()
        waiting = self._around(group)
        while waiting:
            number = waiting.pop(0)
            if number in taken or number in group.computing or number in tried:
                continue
            grown = self._with(group, number)
            if grown is None:
                tried.add(number)
                continue
            group = grown
            if self._closed(group):
                closed = group
            tried.clear()
            waiting = self._around(group)
        return closed if len(closed.computing) > 1 else None

    def _around(self, group: _Rows) -> list[int]:
        """Return nodes that read what a group computes, and those that compute what it reads."""
        found: set[int] = set()
        todo = list(group.roles)
        while todo:
            for reader in self.readers.get(todo.pop(), ()):
                node = self._move(reader)
                if node is not None:
                    todo += node.outputs
                else:
                    found.add(reader)
        for number in group.computing:
            found.update(self.maker[v] for v in self.graph.nodes[number].inputs if v in self.maker)
        return sorted(found - group.nodes)

    def _with(self, group: _Rows, number: int) -> _Rows | None:
        """Return a group with one more node, None where that is not right."""
        node, grown = self.graph.nodes[number], group.copy()
        reduction = self._reduction(number)
        if reduction is not None:
            if reduction != (group.shape, group.axes):
                return None
            whole = node.op.name in COMPOSITES
            roles: list[Role | None] = ["along" if whole else "row"]
            roles += ["row"] * (len(node.outputs) - 1)
            reads: Role | None = "along"
        elif self._elementwise(number):
            reads = self.role(group, node.outputs[0])
            roles = [reads]
        else:
            return None
        if reads is None:
            return None
        try:
            links = [self.link(group, v, reads) for v in node.inputs]
        except ValueError:
            return None
        read_by = [r for v in node.outputs for r in self.readers.get(v, ()) if r in group.computing]
        if reads == "row" and not any(links):
            return None
        if group.computing and not any(links) and not read_by:
            return None
        for found in links:
            if found is not None:
                grown.between.update(found[1])
        grown.computing.add(number)
        grown.roles.update((v, r) for v, r in zip(node.outputs, roles, strict=True) if r)
        return grown if self._right(grown) else None

    def _right(self, group: _Rows) -> bool:
        """Return whether a group may be one launch, once it is closed."""
        if len(group.computing) > _STEPS or len(self.results(group)) > _RESULTS:
            return False
        if not all(self._linked(group, number) for number in group.computing):
            return False
        outside = self.inputs(group)
        if len(outside) > _OPERANDS:
            return False
        mine = sum(1 << n for n in group.nodes)
        makers = {self.maker[v] for v in outside if v in self.maker}
        return not any(self.above[n] & mine for n in makers)

    def _closed(self, group: _Rows) -> bool:
        """Return whether nothing else reads what movement of the group makes."""
        nodes = group.nodes
        values = [v for n in group.between for v in self.graph.nodes[n].outputs]
        return not any(
            v in self.wanted or any(r not in nodes for r in self.readers.get(v, ())) for v in values
        )

    def _linked(self, group: _Rows, number: int) -> bool:
        """Return whether a node of a group reads the group's values as they are."""
        node = self.graph.nodes[number]
        reduces = self._reduction(number) is not None
        role = "along" if reduces else self.role(group, node.outputs[0])
        try:
            return role is not None and all(self.link(group, v, role) or True for v in node.inputs)
        except ValueError:
            return False

    def inputs(self, group: _Rows) -> list[int]:
        """Return the values that a group reads and does not compute."""
        made = {o for n in group.nodes for o in self.graph.nodes[n].outputs}
        read = {v for n in group.computing for v in self.graph.nodes[n].inputs}
        return sorted(read - made)

    def results(self, group: _Rows) -> list[int]:
        """Return the values that something else reads."""
        nodes = group.nodes
        return sorted(
            v
            for v in group.roles
            if v in self.wanted or any(r not in nodes for r in self.readers.get(v, ()))
        )

    # The group for the planner.
    def group(self, found: _Rows) -> Group:
        """Return a group with its program."""
        writer = _Writer(self, found)
        for number in sorted(found.computing):
            writer.add(number)
        inputs, outputs = self.inputs(found), self.results(found)
        program = with_kept(writer.recipe.program([writer.values[v] for v in outputs], writer.kept))
        order = [v for v, _ in writer.operands]
        cost = self.ceilings.seconds(
            moved(self.graph, inputs, outputs), prod(found.shape) * len(program.steps)
        )
        attributes = {
            "program": program,
            "shape": found.shape,
            "axes": found.axes,
            "operands": tuple(inputs.index(v) for v in order),
            "numbers": tuple(writer.numbers),
        }
        nodes = tuple(sorted(found.nodes))
        return Group(nodes, PROGRAM, tuple(inputs), tuple(outputs), cost, attributes)


class _Writer:
    """Writes the program of a group."""

    def __init__(self, search: _Search, group: _Rows) -> None:
        self.search, self.group = search, group
        self.recipe = Recipe()
        self.values: dict[int, int] = {}
        self.operands: dict[tuple[int, Role], int] = {}
        self.numbers: list[float] = []
        self.kept: list[int] = []

    def add(self, number: int) -> None:
        """Add a node."""
        graph, recipe = self.search.graph, self.recipe
        node = graph.nodes[number]
        name, result = node.op.name, graph.specs[node.outputs[0]]
        reduces = name in _FOLDS or name in COMPOSITES
        role: Role | None = "along" if reduces else self.search.role(self.group, node.outputs[0])
        assert role is not None
        read = [self._operand(v, role) for v in node.inputs]
        if name in COMPOSITES:
            terms = prod(self.group.shape[a] for a in self.group.axes)
            made, numbers = composite(recipe, name, read[0], terms, node.attributes)
            self.values.update(zip(node.outputs, made.results, strict=True))
            self.numbers += numbers
            self.kept += made.kept
        elif name in _FOLDS:
            wide = working(name, recipe.dtype(read[0]), result.dtype)
            total = recipe.fold(name, recipe.cast(read[0], wide))
            self.values[node.outputs[0]] = recipe.cast(total, result.dtype)
        else:
            items = tuple(sorted(node.attributes.items()))
            self.values[node.outputs[0]] = recipe.add(Step(name, tuple(read), result.dtype, items))

    def _operand(self, value: int, role: Role) -> int:
        found = self.search.link(self.group, value, role)
        if found is not None:
            return self.values[found[0]]
        key = (value, role)
        if key not in self.operands:
            dtype = self.search.graph.specs[value].dtype
            self.operands[key] = self.recipe.operand(dtype, role)
        return self.operands[key]


def with_kept(program: Program) -> Program:
    """Return a program that keeps what is dear to compute and needed by a later walk."""
    schedule = Schedule.of(program)
    last: dict[int, int] = {}
    for n in range(program.values):
        step = program.step(n)
        if step is None:
            continue
        read = [step.operand] if isinstance(step, Fold) else step.operands
        for v in read:
            last[v] = max(last.get(v, 0), schedule.walks[n])
    kept = list(program.kept)
    for n in range(program.values):
        step = program.step(n)
        if step is None or isinstance(step, Fold) or not schedule.along[n] or n in kept:
            continue
        weight: Any = ROWS[step.op].weight if step.op in ROWS else 1
        if weight >= _HEAVY and last.get(n, 0) > schedule.walks[n]:
            kept.append(n)
    same = [n for n in kept if program.dtype(n) is program.dtype(kept[0])]
    return replace(program, kept=tuple(same[:_KEPT]))
