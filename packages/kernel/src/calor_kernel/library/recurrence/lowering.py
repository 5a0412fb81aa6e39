"""Scans as one launch: cells by matrix instructions or by units, elementwise steps by lines.

Requirements: a scan that is refused here is control flow, whose steps are lists of launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import index
from typing import Final

from calor.dtypes import DType, bfloat16, float16, float32, float64, uint32, uint64
from calor.graph.graph import Graph
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Flags, Output, Refusal, Request, Scratch, View, Work
from calor_kernel.language import index_dtype
from calor_kernel.library.recurrence.cell import PRODUCT, Cell, Unfit, cell_of
from calor_kernel.library.recurrence.line_lowering import scan_by_lines
from calor_kernel.library.recurrence.persistent import WORDS, recur
from calor_kernel.library.recurrence.plan import RecurrencePlan, cycles_of, plans_of
from calor_kernel.library.recurrence.stacks import Extent
from calor_kernel.library.recurrence.unit_plan import UnitPlan, unit_plans
from calor_kernel.library.recurrence.unit_products import pack_weights
from calor_kernel.library.recurrence.unit_words import FLAGS
from calor_kernel.library.recurrence.units import recur_by_units

_BY_MATRICES: Final = ("atomics", "matrix", "together")
_REAL: Final = (float16, bfloat16, float32)
# Plans by units that are measured.
_CANDIDATES: Final = 8
# Cycles of a step as a list of launches, beside its products, and the share of a core's
# multiply-adds, 128 a cycle, that these reach. Where launches are dear, cycles of a step for each
# nanosecond of a launch: there are two or three launches, of which a part is counted already. Where
# cubes do not run together, such as in WebGPU, the host hands over each step: 45 us of an H200's.
_STEP, _REACHED, _DEAR, _HANDED = 9000, 0.6, 2, 60_000

Plan = RecurrencePlan | UnitPlan


def scan(request: Request) -> Sequence[Work] | Refusal:
    """Lower a scan whose inputs are captures, carries and stacked rows, all dense."""
    attributes = request.attributes
    if not request.info.has("barrier"):
        return Refusal("the device has no barrier")
    if not (attributes["length"] and all(view.size for view in request.inputs)):
        return Refusal("it is empty")
    if not any(node.op.name == PRODUCT for node in attributes["body"].nodes):
        return scan_by_lines(request)
    return _scan_of_cells(request)


def _scan_of_cells(request: Request) -> Sequence[Work] | Refusal:
    """Lower a scan around a product."""
    info, attributes = request.info, request.attributes
    if not info.has("planes") or info.planes[0] != 32:
        return Refusal("the device has no planes of 32 units")
    captures, carries = attributes["captures"], attributes["carries"]
    body: Graph = attributes["body"]
    try:
        cell = cell_of(body, carries, captures)
    except Unfit as reason:
        return Refusal(str(reason))
    dtypes = {request.inputs[cell.weight].dtype, cell.factor, cell.dtype}
    if not (dtypes.issubset(_REAL) or dtypes == {float64}):
        return Refusal("its product is none of real numbers")
    # A plan is of these sizes, as a kernel is of the features.
    samples, features = map(index, request.inputs[captures].shape)
    plans = _plans(cell, request.inputs[cell.weight].dtype, samples, features, info)
    if not plans:
        return Refusal("cubes that run together do not hold its weights and sums")
    if not request.candidates:
        plans = plans[:1]
    works = [work_of(request, cell, one) for one in plans]
    count = max(len(launch.arguments) for launch in works[0].launches)
    if count > info.arguments:
        return Refusal(f"its launch has {count} arguments, the device passes {info.arguments}")
    return works


def _plans(cell: Cell, weight: DType, samples: int, features: int, info: DeviceInfo) -> list[Plan]:
    """Return the plans of a scan, the first one by the models first."""
    halves = cell.factor in (float16, bfloat16) and cell.dtype in (cell.factor, float32)
    single = cell.factor is cell.dtype is float32 and cell.rounded
    matrices = weight is cell.factor and (halves or single) and all(map(info.has, _BY_MATRICES))
    found: list[tuple[float, Plan]] = []
    if matrices:
        made = plans_of(cell, samples, features, info)
        found += [(cycles_of(plan, cell, features), plan) for plan in made]
    products = samples * cell.factors * cell.sums * features**2
    most = _STEP + _DEAR * info.launch_ns + products / (info.cores * 128 * _REACHED)
    most += 0 if info.has("together") else _HANDED
    by_units = unit_plans(cell, samples, features, info)
    found += [pair for pair in by_units[:_CANDIDATES] if pair[0] < most]
    return [plan for _, plan in sorted(found, key=lambda pair: pair[0])]


def work_of(request: Request, cell: Cell, plan: Plan) -> Work:
    """Return the launch of a scan with its memory."""
    attributes, inputs = request.attributes, request.inputs
    captures, carries = attributes["captures"], attributes["carries"]
    samples, features = map(index, inputs[captures].shape)
    given = [operand(number, view) for number, view in enumerate(inputs)]
    results = [Bound(Output(k), known.dtype) for k, known in enumerate(request.outputs)]
    stacks = len(attributes["body"].outputs) - carries
    cubes = -(-features // plan.features)
    if isinstance(plan, UnitPlan):
        plan = replace(plan, wide=_wide(inputs[cell.weight], cell, plan, request.info))
    written = request.outputs[carries : carries + stacks]
    sizes = [view.offset + view.size for view in inputs] + [one.size for one in request.outputs]
    said = {
        "weight": given[cell.weight],
        "first": given[captures : captures + carries],
        "rows": given[captures + carries :],
        "held": given[:captures],
        "last": results[:carries],
        "stacks": results[carries : carries + stacks],
        "kept": results[carries + stacks :],
        "extent": Extent(attributes["length"], samples, features),
        "plan": plan,
        "cell": cell,
        # Of a width of a carry each.
        "blocks": tuple(view.shape[-1] // features for view in inputs[captures + carries :]),
        "contexts": tuple((view.shape or (1,))[-1] // features for view in inputs[:captures]),
        "widths": tuple(known.shape[-1] // features for known in written),
        "reverse": attributes["reverse"],
    }
    effort = _effort(request, cell)
    if isinstance(plan, UnitPlan):
        groups = plan.groups(samples)
        room = 2 * plan.room * groups
        grid = Grid(
            *((cubes, groups, 1), (plan.units, 1, 1), 32),
            *(index_dtype(*sizes, room),),
            alone=plan.waits,
        )
        words = Bound(Scratch(0), uint64, 16) if plan.waits else None
        flags = Bound(Flags(FLAGS * groups), uint32) if plan.waits else None
        # A plan whose cubes wait for each other reads no weights at each step.
        packed = Bound(Scratch(0), plan.dtype, 16) if plan.streamed else None
        made = launch(recur_by_units, grid, effort, words=words, flags=flags, packed=packed, **said)
        if packed is None:
            return Work((made,), (room * 8,) if plan.waits else (), variant=plan.title)
        size = plan.streamed * plan.line
        once = Grid((plan.streamed, 1, 1), (plan.units, 1, 1), 32, index_dtype(*sizes, size))
        nbytes = size * int(plan.dtype.itemsize)
        of_weights = {"weight": said["weight"], "extent": said["extent"], "cell": cell}
        before = launch(
            pack_weights, once, Effort("packed weights", 0, 2 * nbytes),
            packed=packed, plan=plan, **of_weights,
        )  # fmt: skip
        return Work((replace(before, prepares=True), made), (nbytes,), variant=plan.title)
    room = 2 * plan.room
    kind = index_dtype(*sizes, room)
    # Beside others of its kind there would be more cubes than run together.
    grid = Grid((cubes, 1, 1), (plan.units, 1, 1), plan.shape.lanes, kind, alone=True)
    factors, words = Bound(Scratch(0), plan.dtype, 16), Bound(Flags(WORDS), uint32)
    made = launch(recur, grid, effort, factors=factors, words=words, **said)
    return Work((made,), (room * int(plan.dtype.itemsize),), variant=plan.title)


def _wide(weight: View, cell: Cell, plan: UnitPlan, info: DeviceInfo) -> bool:
    """Return whether the adjacent weights of a unit lie at whole accesses."""
    count = plan.width if cell.turned else min(plan.own, plan.width)
    nbytes = count * int(weight.dtype.itemsize)
    begins = weight.offset * int(weight.dtype.itemsize) % nbytes == info.starts % nbytes == 0
    if cell.turned:
        return bool(begins and plan.terms % count == 0)
    return bool(begins and plan.terms // cell.factors % count == plan.features % count == 0)


def _effort(request: Request, cell: Cell) -> Effort:
    """Return the work of a scan; weights are read once."""
    attributes = request.attributes
    samples, features = request.inputs[attributes["captures"]].shape
    terms, sums = cell.factors * features, cell.sums * features
    given = sum(view.size * view.dtype.itemsize for view in request.inputs)
    made = sum(known.nbytes for known in request.outputs)
    return Effort("recurrence", 2 * attributes["length"] * samples * terms * sums, given + made)
