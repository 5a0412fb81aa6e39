"""Launches of attention by TMA, and the problems that it suits.

Requirements: TMA takes dense, aligned rows with positive strides. Operands that broadcast along an
axis have no such stride and take another way. The tiles after the first are for timing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from calor.dtypes import float32
from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.work import Argument, Launch, Output, Request, Work
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.attention.mma_arguments import index_of, launch_of, wide
from calor_kernel.library.attention.mma_plan import Fragments
from calor_kernel.library.attention.mma_tiles import ACCESS
from calor_kernel.library.attention.operands import upstream_of
from calor_kernel.library.attention.problem import Attention, Operand
from calor_kernel.library.attention.warpgroup_tma_forward import attend_boxes
from calor_kernel.library.attention.warpgroup_tma_gradients import (
    key_gradient_boxes,
    query_gradient_boxes,
)
from calor_kernel.library.attention.warpgroup_tma_plan import LINE, AttentionBoxes

_NEEDED = ("async_matrix", "tensor_copy", "mbarrier", "barrier", "planes")
# By the room of a row: warp groups, keys of a step, stages, whether warp groups alternate, the
# number of tiles whose own rows are in shared memory, and registers of producers. In gradients of
# keys, producers also load numbers of rows, and spill some registers with 24. With rows of 128,
# consumers need all 240 registers, or their products are serialised.
_Tiles = (
    tuple[int, int, int, bool]
    | tuple[int, int, int, bool, int]
    | tuple[int, int, int, bool, int, int]
)
FORWARD: dict[int, tuple[_Tiles, ...]] = {
    64: ((2, 128, 3, True, 2), (3, 128, 2, False, 2), (2, 128, 3, False, 2), (1, 128, 2, False)),
    128: ((2, 128, 2, True, 2), (2, 128, 2, False, 2), (2, 160, 2, False), (1, 128, 2, False)),
}
QUERY: dict[int, tuple[_Tiles, ...]] = {
    64: ((2, 128, 3, True, 2), (2, 64, 4, True, 2), (1, 64, 3, False)),
    128: ((2, 64, 3, True), (2, 64, 3, False), (1, 64, 3, False)),
}
KEY: dict[int, tuple[_Tiles, ...]] = {
    64: ((2, 64, 4, True, 2, 40), (2, 64, 4, True, 2), (2, 64, 4, False, 2), (1, 64, 3, False)),
    128: ((2, 64, 3, True), (2, 64, 3, False), (1, 64, 3, False)),
}
# The part of the device's cache for data that active heads read repeatedly.
_KEPT = 2
# The maximum share of empty rows in a head's last tile.
_EMPTY = 0.1


def forward_by_boxes(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the works of the forward pass by TMA, the likeliest first."""
    if not _suits(problem, request):
        return
    p = _whole(problem)
    for plan in _plans(p, FORWARD, p.queries, p.heads, request.info.cores):
        own = (Output(0), Output(1), p.values, *_band(p, request, False))
        to = _steps(p.heads, p.queries, p.values)
        flops = 2 * p.pairs * (p.features + p.values)
        declared = (Buffer(p.dtype, align=16), Buffer(float32))
        launch = _launch(attend_boxes, plan, p, request, (*own, *to), declared, flops)
        yield Work((launch,), variant=_name(plan))


def gradients_by_boxes(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the works of the gradients by TMA, the likeliest first."""
    if not _suits(problem, request):
        return
    p, up = _whole(problem), upstream_of(request, problem)
    read = tuple(Buffer(b.dtype, writable=False, align=16) for b in up.declared)
    result = Buffer(p.dtype, align=16)
    cores = request.info.cores
    for_queries = _plans(p, QUERY, p.queries, p.heads, cores)
    for_keys = _plans(p, KEY, p.keys, p.key_heads, cores)
    ups = _steps(p.heads, p.queries, p.values)
    for first, second in product(for_queries, for_keys):
        # Each plan of one pass is timed beside the likeliest plan of the other pass.
        if first is not for_queries[0] and second is not for_keys[0]:
            continue
        to = _steps(p.heads, p.queries, p.features)
        own = (*up.arguments, Output(0), p.values, *_band(p, request, False), *ups, *to)
        flops = 2 * p.pairs * (2 * p.features + p.values)
        of_query = _launch(query_gradient_boxes, first, p, request, own, (*read, result), flops)
        to_key, to_value = (_steps(p.key_heads, p.keys, n) for n in (p.features, p.values))
        places = (Output(1), Output(2), p.values, *_band(p, request, True))
        both = (*up.arguments, *places, *ups, *to_key, *to_value)
        flops = 4 * p.pairs * (p.features + p.values)
        results = (*read, result, result)
        of_key = _launch(key_gradient_boxes, second, p, request, both, results, flops)
        yield Work((of_query, of_key), variant=f"{_name(first)}; {_name(second)}")


def _suits(problem: Attention, request: Request) -> bool:
    info, p = request.info, problem
    if not all(map(info.has, _NEEDED)) or info.planes[0] != 32:
        return False
    sizes = (p.batch, p.heads), (p.batch, p.key_heads), (p.batch, p.key_heads)
    return all(
        n == 1 or step > 0
        for operand, size in zip((p.query, p.key, p.value), sizes, strict=True)
        for n, step in zip((*size, 2), operand.strides[:3], strict=True)
    )


def _whole(problem: Attention) -> Attention:
    """Return the problem with strides that TMA accepts for axes of one element."""
    p = problem

    def above(operand: Operand) -> Operand:
        steps = tuple(step if step > 0 else ACCESS for step in operand.strides[:3])
        return replace(operand, strides=(*steps, 1))

    return replace(p, query=above(p.query), key=above(p.key), value=above(p.value))


def _plans(
    problem: Attention, table: dict[int, tuple[_Tiles, ...]], rows: int, heads: int, cores: int
) -> list[AttentionBoxes]:
    """Return a table's tiles: first those with few empty rows that fill the device.

    If none fills it, those with the fewest rows come first.
    """
    p = problem
    features, values = (-(-n // LINE) * LINE for n in (p.features, p.values))
    found = [
        AttentionBoxes(
            Fragments(p.dtype, 4 * groups, 1, block, features, values, grouped=True),
            stages,
            turns,
            *own,
        )
        for groups, block, stages, turns, *own in table[max(features, values)]
    ]

    def serves(one: AttentionBoxes) -> bool:
        fills = -(-rows // one.rows) * heads * p.batch >= cores
        return bool(fills and -rows % one.rows <= _EMPTY * rows)

    least_rows = min(one.rows for one in found)
    chosen = [one for one in found if serves(one) or one.rows == least_rows][:1]
    return chosen + [one for one in found if one not in chosen]


def _name(plan: AttentionBoxes) -> str:
    turns = " in turn" if plan.turns else ""
    asking = f", {plan.asking} registers ask" if plan.asking else ""
    return f"boxes {plan.rows}x{plan.block}, {plan.stages} stages{turns}{asking}"


def _band(problem: Attention, request: Request, of_keys: bool) -> tuple[int, int]:
    """Return how many batches, and heads of all batches, the cache holds at the same time."""
    p, info = problem, request.info
    rows, heads = (p.queries * p.group, p.key_heads) if of_keys else (p.keys, p.heads)
    a_head = greatest(rows * (p.features + p.values) * int(p.dtype.itemsize), 1)
    kept = greatest((info.caches[-1] if info.caches else 0) // _KEPT // a_head, 1)
    # Heads that share keys count once.
    shared = 1 if of_keys else p.group
    return p.batch, least(kept * shared, greatest(p.batch * heads, 1))


def _steps(heads: int, rows: int, width: int) -> tuple[int, int]:
    """Return the strides of heads and batches of a dense operand."""
    return rows * width, heads * rows * width


def _launch(
    function: KernelFunction,
    plan: AttentionBoxes,
    problem: Attention,
    request: Request,
    own: Sequence[Argument],
    declared: Sequence[Buffer],
    flops: int,
) -> Launch:
    """Return a launch whose own arguments are buffers, a width, two sizes, and strides."""
    p, index = problem, index_of(problem, request)
    size = Scalar(index, nonnegative=True)
    strides = len(own) - len(declared) - 3
    parameters: list[Buffer | Scalar] = [*declared, wide(index), size, size]
    parameters += [wide(index)] * strides
    by_keys = function is key_gradient_boxes
    rows, heads = (p.keys, p.key_heads) if by_keys else (p.queries, p.heads)
    cubes = (least(-(-rows // plan.rows) * heads * p.batch, request.info.cores), 1, 1)
    return launch_of(function, plan, p, request, cubes, own, parameters, flops)
