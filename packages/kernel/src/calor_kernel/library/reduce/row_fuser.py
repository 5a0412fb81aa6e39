"""The fuser of reductions, softmax and norms with the elementwise work around them.

Requirements: values before a reduction are computed when it reads them, and values after it when
its pass, or the next one, writes. Several reductions along the same rows are one program.
Intermediate values are not stored, unless other nodes read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final

from calor.graph.graph import Graph
from calor_kernel.contract.cost import Ceilings, ceilings_of, moved
from calor_kernel.contract.fuser import Fuser, Group
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Input,
    Output,
    Refusal,
    Request,
    View,
    Work,
    lowering,
    row_major,
)
from calor_kernel.library.reduce.fusion_groups import Rows, Search
from calor_kernel.library.reduce.launch_operands import Job, Placed
from calor_kernel.library.reduce.program import Program, Schedule
from calor_kernel.library.reduce.program_launch import Plan
from calor_kernel.library.reduce.program_writer import Writer, with_kept

PROGRAM: Final = "row_program"


@lowering(PROGRAM, strided=True)
def lower_row_program(request: Request) -> Sequence[Work] | Refusal:
    """Lower a ``program`` on a ``shape`` along its ``axes``.

    ``operands``: the input of each operand in memory. ``numbers``: the program's scalars.
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
    """Return a view of one value a row, possibly with more axes of size 1, in the rows' shape."""
    strides = iter([s for n, s in zip(view.shape, view.strides, strict=True) if n != 1])
    return View(rows, tuple(0 if n == 1 else next(strides) for n in rows), view.dtype, view.offset)


class RowFuser(Fuser):
    """Finds reductions along the same rows, and the elementwise ops around them."""

    name = "rows"

    def groups(self, graph: Graph, info: DeviceInfo) -> Iterable[Group]:
        """Return groups that do not overlap, in the order of their first reductions."""
        search, ceilings = Search(graph), ceilings_of(info)
        taken: set[int] = set()
        for number in range(len(graph.nodes)):
            if number in taken:
                continue
            found = search.grow(number, taken)
            if found is not None:
                taken.update(found.nodes)
                yield made(search, found, ceilings)


def made(search: Search, found: Rows, ceilings: Ceilings) -> Group:
    """Return a group with its program, in the planner's form."""
    writer = Writer(search, found)
    for number in sorted(found.computing):
        writer.add(number)
    inputs, outputs = search.inputs(found), search.results(found)
    program = with_kept(writer.recipe.program([writer.values[v] for v in outputs], writer.kept))
    order = [v for v, _ in writer.operands]
    cost = ceilings.seconds(
        moved(search.graph, inputs, outputs), prod(found.shape) * len(program.steps)
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
