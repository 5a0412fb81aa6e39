"""The fuser of reductions, softmax and norms with the elementwise work around them.

Requirements: values before a reduction are computed when it reads them, and values after it when
its pass, or the next one, writes. Several reductions along the same rows are one program.
Intermediate values are not stored, unless other nodes read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Final, TypedDict, cast

from calor.graph.graph import Graph, Node
from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.cost import Ceilings, ceilings_of, moved
from calor_kernel.contract.fuser import Fuser, Group
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.movement import in_shape, view_of
from calor_kernel.contract.work import (
    Input,
    Output,
    Refusal,
    Request,
    View,
    Work,
    lowering,
)
from calor_kernel.library.elementwise.operations import ROWS, Step
from calor_kernel.library.reduce.composites import COMPOSITES, composite
from calor_kernel.library.reduce.fusion_groups import FOLDS, Role, Rows, Search
from calor_kernel.library.reduce.job import Job, Placed
from calor_kernel.library.reduce.program import Program, Recipe, Schedule
from calor_kernel.library.reduce.program_launch import planned
from calor_kernel.library.reduce.reduction_ops import working

PROGRAM: Final = "row_program"
# Instructions from which a later pass reads a value instead of recomputing it; maximum of kept
# values.
_HEAVY, _KEPT = 8, 2


class RowAttributes(TypedDict):
    """The attributes of a row program's op: the program on a ``shape`` along its ``axes``.

    ``operands``: the input of each operand in memory. ``numbers``: the program's scalars.
    """

    program: Program
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    operands: tuple[int, ...]
    numbers: tuple[float, ...]


@lowering(PROGRAM, strided=True, pitched=True)
def lower_row_program(request: Request) -> Sequence[Work] | Refusal:
    """Lower a row program, whose attributes are those of :class:`RowAttributes`."""
    found = job_of(cast(RowAttributes, request.attributes), request.inputs)
    if found is None:
        return Refusal("an operand that varies along rows has no strides in their shape")
    program, job = found
    pitched = _with_pitches(program, job, request)
    if pitched is None:
        return Refusal("lines of a result with a pitch are no rows")
    work = planned(program, pitched, request.info)
    return Refusal("a launch writes dense results alone") if work is None else [work]


def _with_pitches(program: Program, job: Job, request: Request) -> Job | None:
    """Return the job whose results have the request's pitches, None if their lines are no rows."""
    if not request.pitches:
        return job
    along = Schedule(program).along
    targets = []
    for k, (n, target) in enumerate(zip(program.results, job.targets, strict=True)):
        (length, pitch), view = request.pitches[k], target.view
        made = view.pitched(length, pitch) if length else view
        if made is None or (length and not along[n]):
            return None
        targets.append(replace(target, view=made))
    return replace(job, targets=tuple(targets), pitched=True)


def job_of(attributes: RowAttributes, inputs: Sequence[View]) -> tuple[Program, Job] | None:
    """Return a program with the memory of its operands and results, from the op's attributes.

    None if an operand that varies along the rows has another shape, and no strides in theirs.
    """
    shape, axes, given = attributes["shape"], attributes["axes"], attributes["program"]
    views: list[View] = []
    for number, k in zip(given.memory, attributes["operands"], strict=True):
        moves = given.operands[number].role == "along"
        view = in_shape(inputs[k], shape) if moves else inputs[k]
        if view is None:
            return None
        views.append(view)
    program = with_rows(given, views, axes)
    rows = tuple(n for a, n in enumerate(shape) if a not in axes)
    sources = []
    for number, k, view in zip(program.memory, attributes["operands"], views, strict=True):
        if program.operands[number].role == "row":
            view = as_rows(view, rows) if view.shape != shape else without(view, axes)
        sources.append(Placed(Input(k), view))
    along = Schedule(program).along
    targets = [
        Placed(Output(k), View.dense(spec_of(shape if along[n] else rows, program.dtype(n))))
        for k, n in enumerate(program.results)
    ]
    return program, Job(
        shape, axes, tuple(sources), tuple(targets), attributes["numbers"], "rows.program"
    )


def with_rows(program: Program, views: Sequence[View], axes: Sequence[int]) -> Program:
    """Return a program in which operands that are the same along each row are one value a row."""
    operands = list(program.operands)
    for number, view in zip(program.memory, views, strict=True):
        if operands[number].role == "along" and all(view.strides[a] == 0 for a in axes):
            operands[number] = replace(operands[number], role="row")
    made = replace(program, operands=tuple(operands))
    # What varies along rows must do so still where it is reduced, written or kept.
    places = {*made.results, *made.kept, *(made.fold(n).operands[0] for n in made.folds)}
    before, after = Schedule(program).along, Schedule(made).along
    return made if all(before[n] == after[n] for n in places) else program


def without(view: View, axes: Sequence[int]) -> View:
    """Return a view without axes."""
    left = [a for a in range(len(view.shape)) if a not in axes]
    shape, strides = (tuple(s[a] for a in left) for s in (view.shape, view.strides))
    return View(shape, strides, view.dtype, view.offset)


def as_rows(view: View, rows: tuple[int, ...]) -> View:
    """Return a view of one value a row, possibly with more axes of size 1, in the rows' shape."""
    strides = iter([s for n, s in zip(view.shape, view.strides, strict=True) if n != 1])
    return View(rows, tuple(0 if n == 1 else next(strides) for n in rows), view.dtype, view.offset)


class RowFuser(Fuser):
    """Finds reductions along the same rows, and the elementwise ops around them."""

    name = "rows"

    def groups(self, graph: Graph, info: DeviceInfo) -> Iterable[Group]:
        """Return groups that do not overlap, in the order of their first reductions."""
        return self.among(graph, info, range(len(graph.nodes)))

    def among(
        self, graph: Graph, info: DeviceInfo, units: Sequence[int | Group]
    ) -> Iterable[Group]:
        """Return groups of free nodes that do not overlap."""
        search, ceilings = Search(graph, units, info.arguments), ceilings_of(info)
        for found in search.found():
            yield group_of(search, found, ceilings)


def group_of(search: Search, found: Rows, ceilings: Ceilings) -> Group:
    """Return a group with its program, in the planner's form."""
    return _Writer(search, found).group(ceilings)


class _Writer:
    """Writes a group and its program."""

    def __init__(self, search: Search, found: Rows) -> None:
        self.search, self.found = search, found
        self.recipe = Recipe()
        self.values: dict[int, int] = {}
        self.operands: dict[tuple[int, Role], int] = {}
        self.numbers: list[float] = []
        self.kept: list[int] = []

    def group(self, ceilings: Ceilings) -> Group:
        """Return the group with its program, in the planner's form."""
        search, found = self.search, self.found
        for number in sorted(found.computing):
            self.add(number)
        inputs, outputs = search.inputs(found), search.results(found)
        program = self.recipe.program([self.values[v] for v in outputs], self.kept)
        attributes = {
            "program": _with_kept(program),
            "shape": found.shape,
            "axes": found.axes,
            "operands": tuple(inputs.index(v) for v, _ in self.operands),
            "numbers": tuple(self.numbers),
        }
        flops = prod(found.shape) * len(program.steps)
        cost = ceilings.seconds(moved(search.graph, inputs, outputs), flops)
        nodes = tuple(sorted(found.nodes))
        return Group(nodes, PROGRAM, tuple(inputs), tuple(outputs), cost, attributes)

    def add(self, number: int) -> None:
        """Add a node."""
        graph, recipe = self.search.graph, self.recipe
        node = graph.nodes[number]
        name, result = node.op.name, graph.specs[node.outputs[0]]
        role, links = self.search.reads(self.found, number), self.search.links(self.found, number)
        assert role is not None
        assert links is not None
        read = [
            self._operand(value, role) if found is None else self.values[found[0]]
            for value, found in zip(node.inputs, links, strict=True)
        ]
        if name in COMPOSITES:
            terms = prod(self.found.shape[a] for a in self.found.axes)
            eps = node.attributes.get("eps", 0.0)
            made = composite(recipe, name, read[0], terms, eps)
            self.values.update(zip(node.outputs, made.results, strict=True))
            self.numbers += made.numbers
            self.kept += made.kept
        elif (split := self._picking(node, read[0])) is not None:
            picked, taken = split
            total = recipe.fold(name, picked)
            self.values[node.outputs[0]] = recipe.step("sub", total, taken)
        elif name in FOLDS:
            wide = working(name, recipe.dtype(read[0]), result.dtype)
            total = recipe.fold(name, recipe.cast(read[0], wide))
            self.values[node.outputs[0]] = recipe.cast(total, result.dtype)
        else:
            items = tuple(sorted(node.attributes.items()))
            self.values[node.outputs[0]] = recipe.add(Step(name, tuple(read), result.dtype, items))

    def _picking(self, node: Node, value: int) -> tuple[int, int] | None:
        """Return what a sum picks of a row, and a number of the row that is subtracted from it.

        A sum that is 0 but for one place, as of a class, is known a reading earlier if what all
        places subtract is subtracted behind it. It has the same bits.
        """
        recipe = self.recipe
        chosen = recipe.made(value)
        if node.op.name != "sum" or not isinstance(chosen, Step) or chosen.op != "where":
            return None
        place, inside, outside = chosen.operands
        made = recipe.made(inside)
        if not isinstance(made, Step) or made.op != "sub":
            return None
        known, taken = made.operands
        dtypes = {recipe.dtype(n) for n in (known, taken, outside)}
        alike = dtypes == {self.search.graph.specs[node.outputs[0]].dtype} and made.dtype in dtypes
        if not alike or not recipe.along(known) or recipe.along(taken):
            return None
        if not self._is_zero(outside) or not self._is_one_place(place):
            return None
        return recipe.step("where", place, known, outside, dtype=made.dtype), taken

    def _is_zero(self, value: int) -> bool:
        """Return whether an operand is the number 0 at all places."""
        node, _ = self._source(value)
        return (
            node is not None and node.op.name == "full" and not any(node.attributes["value"].bits)
        )

    def _is_one_place(self, value: int) -> bool:
        """Return whether a truth value holds at one place of each row.

        It does where positions along the row equal one of them, which the row has once.
        """
        made, axes = self.recipe.made(value), self.found.axes
        if not isinstance(made, Step) or made.op != "equal" or len(axes) != 1:
            return False
        (axis,), sources = axes, [self._source(n) for n in made.operands]
        if any(node is None or len(strides) <= axis for node, strides in sources):
            return False
        (picked, repeats), (positions, steps) = sorted(sources, key=lambda found: found[1][axis])
        assert picked is not None
        assert positions is not None
        if (repeats[axis], steps[axis]) != (0, 1):
            return False
        if positions.op.name != "iota" or positions.attributes["length"] != self.found.shape[axis]:
            return False
        alone = not any(s for a, s in enumerate(steps) if a != axis and self.found.shape[a] > 1)
        return alone and picked.op.name == "gather" and picked.inputs[0] == positions.outputs[0]

    def _source(self, value: int) -> tuple[Node | None, tuple[int, ...]]:
        """Return the node that makes what moves turn into an operand, and the operand's strides."""
        graph, maker = self.search.graph, self.search.maker
        of = {number: key[0] for key, number in self.operands.items()}
        if value not in of:
            return None, ()
        path, number = list[Node](), maker.get(of[value])
        while number is not None and graph.nodes[number].op.name in ("expand", "reshape"):
            path.append(graph.nodes[number])
            number = maker.get(path[-1].inputs[0])
        if number is None:
            return None, ()
        node = graph.nodes[number]
        view: View | None = View.dense(graph.specs[node.outputs[0]])
        for move in reversed(path):
            known = graph.specs[move.outputs[0]]
            view = None if view is None else view_of(move.op.name, view, move.attributes, known)
        return (None, ()) if view is None else (node, view.strides)

    def _operand(self, value: int, role: Role) -> int:
        key = (value, role)
        if key not in self.operands:
            dtype = self.search.graph.specs[value].dtype
            self.operands[key] = self.recipe.operand(dtype, role)
        return self.operands[key]


def _with_kept(program: Program) -> Program:
    """Return a program that keeps expensive values for later passes.

    A value is expensive if it is computed by a step of many instructions, or from such a step's
    value that nothing else brings to a later pass.
    """
    schedule = Schedule(program)
    last: dict[int, int] = {}
    for n, step in program.numbered():
        for v in step.operands:
            last[v] = max(last.get(v, 0), schedule.walks[n])
    steps = [n for n, step in program.numbered() if isinstance(step, Step) and schedule.along[n]]
    later = [n for n in steps if last.get(n, 0) > schedule.walks[n]]
    kept = list(program.kept)
    kept += [n for n in later if n not in kept and _is_heavy(program, n)]
    # What two of them are made of is kept in their place.
    apart = {n: [*kept, *(m for m in later if m != n)] for n in later if n not in kept}
    times = Counter(h for n, others in apart.items() for h in _heavy_below(schedule, n, others))
    kept += sorted(n for n, count in times.items() if count > 1)
    for n in later:
        if n not in kept and _heavy_below(schedule, n, kept):
            kept.append(n)
    same = [n for n in kept if program.dtype(n) is program.dtype(kept[0])]
    return replace(program, kept=tuple(same[:_KEPT]))


def _is_heavy(program: Program, number: int) -> bool:
    """Return whether a value is computed by a step of many instructions."""
    step = program.step(number)
    return isinstance(step, Step) and step.op in ROWS and ROWS[step.op].weight >= _HEAVY


def _heavy_below(schedule: Schedule, number: int, kept: Collection[int]) -> set[int]:
    """Return the values of heavy steps from which a value along the row is recomputed."""
    program, found, seen, todo = schedule.program, set[int](), set[int](), [number]
    while todo:
        n = todo.pop()
        step = program.step(n)
        if n in seen or n in kept or not schedule.along[n] or not isinstance(step, Step):
            continue
        seen.add(n)
        if _is_heavy(program, n):
            found.add(n)
        todo += step.operands
    return found
