"""Scans as one launch, where their step is a cell and all cubes of the launch run together.

Requirements: a scan that is refused here is control flow, whose steps are lists of launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calor.dtypes import bfloat16, float16, float32, uint32
from calor.graph.graph import Graph
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Flags, Output, Refusal, Request, Scratch, Work
from calor_kernel.language import index_dtype
from calor_kernel.library.recurrence.cell import Cell, Unfit, cell_of
from calor_kernel.library.recurrence.persistent import WORDS, recur
from calor_kernel.library.recurrence.plan import RecurrencePlan, plan_of, plans_of
from calor_kernel.library.recurrence.stacks import Extent

_NEEDED: Final = ("barrier", "planes", "atomics", "matrix", "together")


def scan(request: Request) -> Sequence[Work] | Refusal:
    """Lower a scan whose inputs are captures, carries and stacked rows, all dense."""
    info, attributes = request.info, request.attributes
    lacking = [feature for feature in _NEEDED if not info.has(feature)]
    if lacking or info.planes[0] != 32:
        return Refusal(f"the device has no {lacking[0] if lacking else 'planes of 32 units'}")
    captures, carries = attributes["captures"], attributes["carries"]
    if not (attributes["length"] and all(view.size for view in request.inputs)):
        return Refusal("it is empty")
    body: Graph = attributes["body"]
    try:
        cell = cell_of(body, carries, captures)
    except Unfit as reason:
        return Refusal(str(reason))
    weight = request.inputs[cell.weight].dtype
    halves = cell.factor in (float16, bfloat16) and cell.dtype in (cell.factor, float32)
    single = cell.factor is cell.dtype is float32 and cell.rounded
    if weight is not cell.factor or not (halves or single):
        return Refusal("no matrix instruction of planes takes its factors")
    samples, features = request.inputs[captures].shape
    plan = plan_of(cell, samples, features, info)
    if plan is None:
        return Refusal("a cube for each core does not hold its weights and sums")
    plans = plans_of(cell, samples, features, info) if request.candidates else ()
    return [work_of(request, cell, one) for one in dict.fromkeys((plan, *plans))]


def work_of(request: Request, cell: Cell, plan: RecurrencePlan) -> Work:
    """Return the launch of a scan with its memory."""
    attributes, inputs = request.attributes, request.inputs
    captures, carries = attributes["captures"], attributes["carries"]
    samples, features = inputs[captures].shape
    given = [operand(number, view) for number, view in enumerate(inputs)]
    results = [Bound(Output(k), known.dtype) for k, known in enumerate(request.outputs)]
    stacks = len(attributes["body"].outputs) - carries
    rows = given[captures + carries :]
    cubes = -(-features // plan.features)
    # Of a width of a carry each.
    blocks = tuple(view.shape[-1] // features for view in inputs[captures + carries :])
    contexts = tuple((view.shape or (1,))[-1] // features for view in inputs[:captures])
    written = request.outputs[carries : carries + stacks]
    sizes = [view.offset + view.size for view in inputs] + [one.size for one in request.outputs]
    index = index_dtype(*sizes, 2 * plan.room)
    made = launch(
        recur,
        # Beside others of its kind there would be more cubes than run together.
        Grid((cubes, 1, 1), (plan.units, 1, 1), plan.shape.lanes, index, alone=True),
        _effort(request, cell),
        weight=given[cell.weight],
        first=given[captures : captures + carries],
        rows=rows,
        held=given[:captures],
        last=results[:carries],
        stacks=results[carries : carries + stacks],
        kept=results[carries + stacks :],
        factors=Bound(Scratch(0), plan.dtype, 16),
        words=Bound(Flags(WORDS), uint32),
        extent=Extent(attributes["length"], samples, features),
        plan=plan,
        cell=cell,
        blocks=blocks,
        contexts=contexts,
        widths=tuple(known.shape[-1] // features for known in written),
        reverse=attributes["reverse"],
    )
    room = 2 * plan.room * int(plan.dtype.itemsize)
    return Work((made,), (room,), variant=plan.title)


def _effort(request: Request, cell: Cell) -> Effort:
    """Return the work of a scan; weights are read once."""
    attributes = request.attributes
    samples, features = request.inputs[attributes["captures"]].shape
    terms, sums = cell.factors * features, cell.sums * features
    given = sum(view.size * view.dtype.itemsize for view in request.inputs)
    made = sum(known.nbytes for known in request.outputs)
    return Effort("recurrence", 2 * attributes["length"] * samples * terms * sums, given + made)
