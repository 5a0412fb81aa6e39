"""Launches of attention by matrix instructions: requirements on operands, and tiles.

Requirements: operands of half types with dense, aligned rows, so that a copy is a whole access. The
first tiles that fill the device are the first choice, and the others are for timing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from calor.dtypes import bfloat16, float16, float32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Launch, Output, Request, Work
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.attention.mma_arguments import index_of, launch_of, wide
from calor_kernel.library.attention.mma_forward import attend_fragments
from calor_kernel.library.attention.mma_gradients import (
    key_gradient_fragments,
    query_gradient_fragments,
)
from calor_kernel.library.attention.mma_plan import Fragments
from calor_kernel.library.attention.mma_tiles import ACCESS, LINE
from calor_kernel.library.attention.operands import upstream_of
from calor_kernel.library.attention.problem import Attention, Operand
from calor_kernel.library.attention.warpgroup_tma_launch import forward_by_boxes, gradients_by_boxes
from calor_kernel.library.gemm.mma import instruction_for, loads_together, shape_of

_NEEDED = ("matrix", "barrier", "planes")
# Maximum of elements of a row, which must fit registers, and minimum of rows for a tile.
_MOST, _LEAST = 128, 16
_ROOMS = (16, 32, 64, 128)
# By the room of a row: planes, times 16 rows of a plane, rows of a step, whether operands stay in
# registers. The first that fills the device is chosen. No unit spills more than 8 bytes.
_Tiles = tuple[int, int, int, bool]
_Table = dict[int, tuple[_Tiles, ...]]
_FORWARD: _Table = {
    64: ((4, 2, 64, True), (4, 1, 64, True)),
    128: ((4, 2, 32, False), (4, 1, 64, False)),
}
_MORE: _Table = {
    64: ((4, 2, 64, False), (8, 1, 64, True), (4, 2, 128, False)),
    128: ((4, 2, 64, False), (8, 1, 64, True), (8, 1, 64, False)),
}
_QUERY: _Table = {
    64: ((4, 2, 64, False), (4, 1, 64, True)),
    128: ((4, 2, 32, False), (4, 1, 64, False)),
}
_KEY: _Table = {
    64: ((4, 2, 32, False), (4, 1, 64, True), (8, 1, 64, False)),
    128: ((4, 1, 64, False), (4, 1, 32, False), (8, 1, 64, False)),
}
# Tiles for warp groups; a cube has as many of them as registers allow.
_GROUPED: dict[str, _Table] = {
    "forward": {
        64: ((8, 1, 64, False), (12, 1, 128, False), (16, 1, 64, False), (8, 1, 128, False)),
        128: ((8, 1, 128, False), (4, 1, 64, False), (12, 1, 64, False), (8, 1, 64, False)),
    },
    "query": {
        64: ((8, 1, 64, False), (12, 1, 64, False), (4, 1, 64, False)),
        128: ((12, 1, 64, False), (8, 1, 64, False), (4, 1, 64, False)),
    },
    "key": {
        64: ((8, 1, 64, False), (12, 1, 64, False), (4, 1, 64, False)),
        128: ((8, 1, 64, False), (8, 1, 32, False), (4, 1, 64, False)),
    },
}
# Tiles for named instructions, for devices with 64 KiB or 32 KiB of shared memory.
_NAMED: dict[str, dict[str, _Table]] = {
    "mfma_32x32x8": {
        "forward": {64: ((4, 1, 64, True), (2, 1, 64, True)), 128: ((2, 1, 32, True),)},
        "query": {64: ((4, 1, 32, False), (2, 1, 32, False)), 128: ((1, 1, 32, False),)},
        "key": {64: ((4, 1, 32, False), (2, 1, 32, False)), 128: ((1, 1, 32, False),)},
    },
    "wmma_16x16x16": {
        "forward": {64: ((8, 1, 64, True), (4, 1, 64, True)), 128: ((4, 1, 32, True),)},
        "query": {64: ((8, 1, 32, False), (4, 1, 32, False)), 128: ((4, 1, 16, False),)},
        "key": {64: ((8, 1, 16, False), (4, 1, 16, False)), 128: ((4, 1, 16, False),)},
    },
    "simdgroup_8x8x8": {
        "forward": {64: ((4, 1, 32, True), (2, 1, 32, True)), 128: ((4, 1, 16, False),)},
        "query": {64: ((4, 1, 32, False), (2, 1, 32, False)), 128: ((2, 1, 16, False),)},
        "key": {64: ((4, 1, 32, False), (2, 1, 32, False)), 128: ((2, 1, 16, False),)},
    },
}


def suits(problem: Attention, request: Request) -> bool:
    """Return whether the device and the operands suit attention by matrix instructions."""
    p, info = problem, request.info
    if not all(map(info.has, _NEEDED)) or p.dtype not in (float16, bfloat16):
        return False
    if not loads_together(info) and not _named(p, info):
        return False
    sizes = (p.features, p.values)
    if any(not 0 < n <= _MOST or n % ACCESS for n in sizes):
        return False
    if p.queries < _LEAST or p.keys < _LEAST:
        return False
    if any(view.offset % ACCESS for view in request.inputs[:1]):
        return False
    return all(_in_accesses(o) for o in (p.query, p.key, p.value))


def _in_accesses(operand: Operand) -> bool:
    numbers = (*operand.strides[:3], operand.offset)
    return operand.strides[3] == 1 and all(n % ACCESS == 0 for n in numbers)


def forward_by_fragments(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the works of the forward pass, the likeliest first."""
    p = problem
    told = (Output(0), Output(1), p.values)
    declared = (Buffer(p.dtype, align=16), Buffer(float32))
    room = _room(max(p.features, p.values))
    flops = 2 * p.pairs * (p.features + p.values)
    sizes = (p.queries, p.heads)
    plans = _plans(p, "forward", _FORWARD, room, sizes, request, False)
    asked = request.candidates and not _named(p, request.info)
    more = [_plan(p, made) for made in _MORE[room]] if asked else []
    more = [plan for plan in more if _fits(plan, request.info, False)]
    boxes = [*forward_by_boxes(p, request)]
    if boxes and not request.candidates:
        yield boxes[0]
        return
    yield from boxes
    for plan in [*plans, *more] if request.candidates else plans[:1]:
        launch = _launch(
            attend_fragments, plan, p, request, (p.queries, p.heads), told, declared, flops
        )
        yield Work((launch,), variant=_name(plan), group=0 if plan in plans else 1)


def gradients_by_fragments(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the works of the gradients of query, key and value, the likeliest first."""
    p, up = problem, upstream_of(request, problem)
    boxes = [*gradients_by_boxes(p, request)]
    if boxes and not request.candidates:
        yield boxes[0]
        return
    yield from boxes
    room = _room(max(p.features, p.values))
    read = tuple(Buffer(b.dtype, writable=False, align=16) for b in up.declared)
    result = Buffer(p.dtype, align=16)
    of_queries = _plans(p, "query", _QUERY, room, (p.queries, p.heads), request, True)
    of_keys = _plans(p, "key", _KEY, room, (p.keys, p.key_heads), request, True)
    for first, second in product(of_queries, of_keys):
        for_query = _launch(
            query_gradient_fragments, first, p, request, (p.queries, p.heads),
            (*up.arguments, Output(0), p.values), (*read, result),
            2 * p.pairs * (2 * p.features + p.values),
        )  # fmt: skip
        for_key = _launch(
            key_gradient_fragments, second, p, request, (p.keys, p.key_heads),
            (*up.arguments, Output(1), Output(2), p.values), (*read, result, result),
            4 * p.pairs * (p.features + p.values),
        )  # fmt: skip
        # Each plan of one pass is timed beside the likeliest plan of the other pass.
        if first is of_queries[0] or second is of_keys[0]:
            name = f"{_name(first)}, {_name(second)}"
            yield Work((for_query, for_key), variant=name, group=0)
        if not request.candidates:
            return


def _named(problem: Attention, info: DeviceInfo) -> str:
    """Return the name of a suitable instruction of the device, "" for none."""
    name = instruction_for({problem.dtype}, info)
    return name if name.rpartition("_")[0] in _NAMED else ""


def _room(width: int) -> int:
    return next(room for room in (64, 128) if width <= room)


def _plan(problem: Attention, made: _Tiles, grouped: bool = False, named: str = "") -> Fragments:
    p = problem
    least = LINE if grouped else shape_of(named, p.dtype, 0).m
    rooms = [room for room in _ROOMS if room >= least]
    features, values = (next(room for room in rooms if n <= room) for n in (p.features, p.values))
    planes, high, block, held = made
    return Fragments(p.dtype, planes, high, block, features, values, held, grouped, named)


def _plans(
    problem: Attention,
    kind: str,
    tiles: _Table,
    room: int,
    sizes: tuple[int, int],
    request: Request,
    gradient: bool,
) -> list[Fragments]:
    """Return tiles that fit; the first one fills the device, or else is the smallest.

    Warp groups come before planes if a device has their instruction.
    """
    info, (count, heads) = request.info, sizes

    def fills(plan: Fragments) -> bool:
        return bool(-(-count // plan.rows) * heads * problem.batch >= info.cores)

    found: list[Fragments] = []
    named = _named(problem, info)
    for grouped in (True, False) if info.has("async_matrix") and not named else (False,):
        table = _GROUPED[kind] if grouped else tiles
        if named:
            table = _NAMED[named.rpartition("_")[0]][kind]
        plans = [_plan(problem, made, grouped, named) for made in table[room]]
        plans = [plan for plan in plans if _fits(plan, info, gradient)]
        least = min(plan.rows for plan in plans) if plans else 0
        chosen = [plan for plan in plans if plan.rows == least or fills(plan)][:1]
        found += chosen + [plan for plan in plans if plan not in chosen]
    return found


def _fits(plan: Fragments, info: DeviceInfo, gradient: bool) -> bool:
    return plan.units <= info.max_units and plan.shared_bytes(gradient) <= info.shared_bytes


def _name(plan: Fragments) -> str:
    kind = "groups" if plan.grouped else "fragments"
    held = " held" if plan.held else ""
    return f"{kind} {plan.rows}x{plan.block} by {plan.units}{held}"


def _launch(
    function: KernelFunction,
    plan: Fragments,
    problem: Attention,
    request: Request,
    sizes: tuple[int, int],
    own: Sequence[Argument],
    declared: Sequence[Buffer],
    flops: int,
) -> Launch:
    """Return the launch of a body over rows of queries or keys, heads and batches."""
    count, heads = sizes
    cubes = (-(-count // plan.rows), heads, problem.batch)
    index = index_of(problem, request)
    parameters: list[Buffer | Scalar] = [*declared, wide(index)]
    return launch_of(function, plan, problem, request, cubes, own, parameters, flops)
