"""Launches of attention by TMA, and the problems that it suits.

Requirements: TMA takes dense, aligned rows with positive strides. Operands that broadcast along an
axis have no such stride and take another way. The tiles after the first are for timing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from calor.dtypes import float32
from calor_cuda.kernels.attention.warpgroup_tf32_plan import ROOM, Tf32Plan
from calor_cuda.kernels.attention.warpgroup_tma import (
    attend_tma,
    key_gradient_tma,
    query_gradient_tma,
)
from calor_cuda.kernels.attention.warpgroup_tma_plan import OWN, HeadSteps, TmaPlan, line_of
from calor_kernel.contract.choices import choice, greatest, is_size, least
from calor_kernel.contract.launching import Bound, Multiple
from calor_kernel.contract.work import Launch, Output, Request, View, Work
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.attention.gradient_parts import parts_of
from calor_kernel.library.attention.mma_launch import launch_of, mma_refusal, paired
from calor_kernel.library.attention.operands import results_of, upstream_of
from calor_kernel.library.attention.problem import Attention, Operand

_NEEDED = ("async_matrix", "tensor_copy", "mbarrier", "barrier", "planes")
# By the room of a row: warp groups, keys of a step, stages, whether warp groups alternate, the
# number of tiles whose own rows are in shared memory, and registers of producers. In gradients of
# keys, producers also load numbers of rows, and spill some registers with 24. With rows of 128,
# consumers need all 240 registers, or their products are serialised.
_Tiles = tuple[int, ...]
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
# The same in TF32, of rows of up to 64 elements. Of 256 queries or more the passes over keys take
# less time if warp groups do not alternate.
TF32_FORWARD: tuple[_Tiles, ...] = ((2, 64, 3, False, 1), (2, 64, 3, True, 1), (1, 64, 3, False, 2))
TF32_QUERY: tuple[_Tiles, ...] = ((2, 64, 2, False, 1), (2, 64, 2, True, 1), (1, 64, 3, False, 2))
TF32_KEY: tuple[_Tiles, ...] = ((2, 64, 2, True, 1), (2, 64, 2, False, 1), (1, 64, 2, False, 2))
# The part of the device's cache for data that active heads read repeatedly.
_KEPT = 2
# Minimum of rows, and the bytes of which the steps of a tensor map are multiples.
_LEAST, _ACCESS = 16, 16
# Of causal tiles: the least cubes that read the same rows, the most tiles whose division is tried,
# and how much longer than the best one a division may take.
_READING, _SIMULATED, _EVEN = 4, 1 << 14, 1.03
# Parts of the keys of few tiles that outweigh a launch that joins them.
_PARTS = 4
# Keys of a step of the products with values, and the share of a block that a shorter one is of it.
_TERMS, _FULL = 16, 0.9
# The maximum share of empty rows in a head's last tile beyond those of other tiles. Times of a row
# of a warp group alone, which waits for its own exponentials, and of one beside others.
_EMPTY, _ALONE, _BESIDE = 0.1, 8, 5


def tma_refusal(problem: Attention, request: Request) -> str | None:
    """Return why the device or the operands do not suit TMA."""
    info, p = request.info, problem
    refusal = mma_refusal(p, request)
    if refusal is not None:
        return refusal
    if not all(map(info.has, _NEEDED)) or info.planes[0] != 32:
        return "the device has no TMA or no warp-group matrix instructions"
    if p.access * p.dtype.itemsize < _ACCESS:
        return f"rows are not whole accesses of {_ACCESS} bytes"
    widest = ROOM if p.dtype is float32 else max(FORWARD)
    if max(p.features, p.values) > widest:
        return f"rows have more than {widest} elements"
    if p.queries < _LEAST or p.keys < _LEAST:
        return f"there are less than {_LEAST} queries or keys"
    sizes = (p.batch, p.heads), (p.batch, p.key_heads), (p.batch, p.key_heads)
    for operand, size in zip((p.query, p.key, p.value), sizes, strict=True):
        for n, step in zip((*size, 2), operand.strides[:3], strict=True):
            if n != 1 and step <= 0:
                return "an operand broadcasts or is reversed along an axis"
    return None


def forward_refusal(problem: Attention, request: Request) -> str | None:
    """Return why the device or the operands of a forward pass do not suit TMA."""
    refusal = tma_refusal(problem, request)
    if refusal is not None:
        return refusal
    p = problem
    tiles = -(-p.queries // OWN) * p.heads * p.batch
    if parts_of(tiles, -(-p.keys // OWN), request.info.cores) >= _PARTS:
        return "tiles are few, and several cubes share the keys of one"
    return None


def gradient_refusal(problem: Attention, request: Request) -> str | None:
    """Return why the device or the operands of gradients do not suit TMA."""
    refusal = tma_refusal(problem, request)
    if refusal is not None:
        return refusal
    p, cores = problem, request.info.cores
    upstream = request.inputs[0]
    for n, step in zip(upstream.shape[:3], upstream.strides[:3], strict=True):
        if n != 1 and step <= 0:
            return "the upstream gradient broadcasts or is reversed along an axis"
    for rows, others, heads, group in (
        (p.queries, p.keys, p.heads, 1),
        (p.keys, p.queries, p.key_heads, p.group),
    ):
        if parts_of(-(-rows // OWN) * heads * p.batch, -(-others // OWN) * group, cores) > 1:
            return "tiles are few, and several cubes share the loop of one"
    return None


def forward_by_tma(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the works of the forward pass, the likeliest first."""
    p = _whole(problem)
    own = {
        **results_of(p, request, 16),
        "steps": _steps(p, p.heads, p.queries, p.values, 0),
        "rest_steps": _steps(p, p.heads, p.queries, p.values, 2),
    }
    plans = _plans(p, (FORWARD, TF32_FORWARD), (p.queries, p.heads), request)
    for plan in plans[: None if request.candidates else 1]:
        yield Work(
            (_launch(attend_tma, plan, p, request, p.flops(1, 1), **own),), variant=_name(plan)
        )


def gradients_by_tma(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the works of the gradients of query, key and value, the likeliest first."""
    p = _whole(problem)
    shared = {
        "up": upstream_of(request, 16),
        "up_steps": _upstream_steps(p, request.inputs[0]),
    }
    results = [Bound(Output(i), p.dtype, 16) for i in range(3)]
    of_query = {"for_query": results[0], "steps": _steps(p, p.heads, p.queries, p.features, 0)}
    of_key = {
        "for_key": results[1],
        "for_value": results[2],
        "key_steps": _steps(p, p.key_heads, p.keys, p.features, 1),
        "value_steps": _steps(p, p.key_heads, p.keys, p.values, 2),
    }
    of_queries = _plans(p, (QUERY, TF32_QUERY), (p.queries, p.heads), request)
    of_keys = _plans(p, (KEY, TF32_KEY), (p.keys, p.key_heads), request)
    for first, second in paired(of_queries, of_keys, request.candidates):
        launches = (
            _launch(query_gradient_tma, first, p, request, p.flops(2, 1), **shared, **of_query),
            _launch(key_gradient_tma, second, p, request, p.flops(2, 2), **shared, **of_key),
        )
        yield Work(launches, variant=f"{_name(first)}; {_name(second)}")


def _whole(problem: Attention) -> Attention:
    """Return the problem with strides that TMA accepts for axes of one element."""
    p = problem

    def above(operand: Operand) -> Operand:
        steps = tuple(step if step > 0 else p.access for step in operand.strides[:3])
        return replace(operand, strides=(*steps, 1))

    return replace(p, query=above(p.query), key=above(p.key), value=above(p.value))


def _plans(
    problem: Attention,
    tables: tuple[Mapping[int, tuple[_Tiles, ...]], tuple[_Tiles, ...]],
    sizes: tuple[int, int],
    request: Request,
) -> list[TmaPlan]:
    """Return the tiles of a table: first those with few empty rows that fill the device.

    If there are none, those whose cubes have the least to do one after another come first.
    """
    p, (rows, heads) = problem, sizes
    found = _found(p, *tables)

    def time(one: TmaPlan) -> int:
        return int(one.rows) * (_ALONE if one.groups == 1 else _BESIDE)

    def whole(one: TmaPlan) -> int:
        return -(-rows // one.rows) * time(one)

    def turns(one: TmaPlan) -> int:
        return -(-(-(-rows // one.rows) * heads * p.batch) // request.info.cores) * time(one)

    fewest = least(*map(whole, found))

    def serves(one: TmaPlan) -> bool:
        fills = -(-rows // one.rows) * heads * p.batch >= request.info.cores
        return bool(fills and whole(one) - fewest <= _EMPTY * _BESIDE * rows)

    soonest = min(found, key=lambda one: (turns(one), one.rows))
    chosen = [one for one in found if serves(one) or one is soonest][:1]
    return chosen + [one for one in found if one not in chosen]


def _found(
    problem: Attention, table: Mapping[int, tuple[_Tiles, ...]], rounded: tuple[_Tiles, ...]
) -> list[TmaPlan]:
    """Return the plans of a table for the width of a problem's rows, or those of TF32."""
    p = problem
    if p.dtype is float32:
        return [Tf32Plan.tf32(*made) for made in rounded]
    line = line_of(p.dtype)
    features, values = (-(-n // line) * line for n in (p.features, p.values))
    plans = [
        TmaPlan.of(p.dtype, groups, block, (features, values), stages, bool(alternating), *further)
        for groups, block, stages, alternating, *further in table[max(features, values)]
    ]
    if table is KEY or p.causal or is_size(p.keys):
        return plans
    return [replace(plan, block=block_of(p.keys, plan.block)) for plan in plans]


@choice(low=1)
@lru_cache(1 << 12)
def even_band(band: int, down: int, heads: int, cores: int, shared: int) -> int:
    """Return the least band of heads, no smaller than one, whose causal tiles cubes share evenly.

    ``down``: the tiles of a head, the longest first. ``shared``: the heads that read the same rows.
    In a larger band fewer cubes read those at a time.

    >>> even_band(3, 32, 16, 132, 1), even_band(6, 32, 64, 132, 1), even_band(24, 16, 256, 132, 1)
    (16, 6, 24)
    """
    most = max(band, min(heads, cores // _READING * shared))
    if not 0 < down * heads <= _SIMULATED:
        return band
    numbers = np.arange(down * heads)
    turns, places = numbers // cores, numbers % cores
    cubes = np.where(turns % 2 == 1, cores - 1 - places, places)

    def longest(one: int) -> float:
        begins = numbers // (down * one) * one
        lengths = down - numbers % (down * one) // np.minimum(heads - begins, one)
        return float(np.bincount(cubes, lengths).max())

    times = [longest(one) for one in range(band, most + 1)]
    return band + next(n for n, time in enumerate(times) if time <= _EVEN * min(times))


def block_of(keys: int, most: int) -> int:
    """Return the keys of a block, of at most ``most``, so that the last one is not nearly empty.

    >>> block_of(197, 128), block_of(77, 128), block_of(1024, 128), block_of(250, 128)
    (112, 80, 128, 128)
    """
    count = -(-keys // most)
    fitting = -(-keys // (count * _TERMS)) * _TERMS
    return fitting if fitting <= _FULL * most else most


def _name(plan: TmaPlan) -> str:
    alternating = ", alternating" if plan.alternating else ""
    producer = plan.producer_registers
    registers = f", {producer} producer registers" if producer else ""
    own = ", tiles ahead" if plan.turning and plan.own_tiles > 1 else ""
    return f"tma {plan.rows}x{plan.block}, {plan.stages} stages{alternating}{own}{registers}"


def _steps(
    problem: Attention, heads: int, rows: int, width: int, result: int | None = None
) -> HeadSteps[Multiple]:
    """Return the strides of heads and batches of a dense operand, or of a result of a number."""
    access, batch = problem.access, Multiple(heads * rows * width, problem.access)
    if result is not None and any(problem.turned[result : result + 1]):
        return HeadSteps(Multiple(width, access), batch, Multiple(heads * width, access))
    return HeadSteps(Multiple(rows * width, access), batch)


def _upstream_steps(problem: Attention, view: View) -> HeadSteps[Multiple]:
    """Return the strides of the upstream gradient, whose rows may lie apart."""
    if view.is_dense:
        return _steps(problem, problem.heads, problem.queries, problem.values)
    pairs = zip(view.shape[:3], view.strides[:3], strict=True)
    batch, head, row = (
        Multiple(step if n > 1 else problem.access, problem.access) for n, step in pairs
    )
    return HeadSteps(head, batch, row)


def _launch(
    function: KernelFunction,
    plan: TmaPlan,
    problem: Attention,
    request: Request,
    flops: int,
    **own: object,
) -> Launch:
    """Return a launch of persistent cubes; a band of heads is what the cache holds at once."""
    p, info = problem, request.info
    by_keys = function is key_gradient_tma
    rows, heads = (p.keys, p.key_heads) if by_keys else (p.queries, p.heads)
    read = p.queries * p.group if by_keys else p.keys
    a_head = greatest(read * (p.features + p.values) * int(p.dtype.itemsize), 1)
    kept = greatest((info.caches[-1] if info.caches else 0) // _KEPT // a_head, 1)
    # Heads that share keys count once.
    shared = 1 if by_keys else p.group
    band, down = least(kept * shared, greatest(p.batch * heads, 1)), -(-rows // plan.rows)
    cubes = least(down * heads * p.batch, info.cores), 1, 1
    if p.causal:
        band = even_band(band, down, heads * p.batch, info.cores, shared)
    own = {**own, "batches": p.batch, "band": band}
    return replace(launch_of(function, plan, p, request, cubes, flops, **own), alone=True)
