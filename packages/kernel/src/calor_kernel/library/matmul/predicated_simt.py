"""Float32 products of any sizes and strides by SIMT register tiles: edges are predicated.

Requirements: elements are copied one by one where lines are not of whole accesses, asynchronously
where the device can. Tiles are as narrow as the product, and the K axis is divided if there are few
tiles. Each sum adds its terms in the order of the K axis, by fused multiply-adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from calor.dtypes import int32, int64
from calor_kernel import language as kl
from calor_kernel.contract.choices import choice
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Grid, Multiple, launch
from calor_kernel.contract.work import Launch
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer
from calor_kernel.library.gemm.joined_parts import ALONE, add_parts, completes, joins
from calor_kernel.library.gemm.lines import StridedLines
from calor_kernel.library.gemm.simt import multiply, simt_tile
from calor_kernel.library.gemm.simt_plan import ACCESS, FOUR, SimtPlan
from calor_kernel.library.matmul.problem import Operand, Product, narrow
from calor_kernel.library.matmul.ranking import (
    START,
    SUM,
    Tiles,
    cubes_of,
    last_is_done,
    tiles_of,
    too_much,
)
from calor_kernel.library.matmul.simt_gemm import with_joint, write_tile
from calor_kernel.library.matmul.split_sums import Parts, SplitK, fewest_parts, in_parts
from calor_kernel.library.matmul.task import Batches, Given, Sizes, Strides, Task

# Units down and across, register tiles of each down and across, terms of a step: large tiles first.
_Tiles = tuple[tuple[int, int, int, int, int], ...]
_TILES: _Tiles = ((16, 16, 1, 2, 16), (16, 8, 1, 2, 16), (8, 8, 1, 1, 16))
# Tiles of asynchronous copies, whose cores all end at about the same time. The value is the rate of
# sums relative to the best, measured on an H200.
_BALANCED: Final[Mapping[tuple[int, int, int, int, int], float]] = {
    (16, 16, 1, 2, 16): 1.0,
    (16, 8, 1, 2, 16): 0.97,
    (8, 16, 1, 2, 16): 0.85,
    (16, 8, 2, 1, 16): 0.85,
    (8, 8, 1, 1, 16): 0.68,
}
# Tiles that units load, with their rates by Vulkan on an H200. Products of 1,000 x 1,000 by 1,000 x
# 1,001, of as much work for each core, take 95.5 µs by the first, of which a core has one cube that
# waits for its loads, and 76.7 µs by the second.
_WAITING: Final[Mapping[tuple[int, int, int, int, int], float]] = {
    (16, 16, 1, 2, 16): 0.8,
    (16, 8, 1, 2, 16): 1.0,
    (8, 16, 1, 2, 16): 0.85,
    (8, 8, 1, 1, 16): 0.6,
}
_LEAST_ROWS: _Tiles = ((4, 16, 1, 2, 16), (4, 16, 1, 1, 16))
_LEAST_COLUMNS: _Tiles = ((16, 4, 2, 1, 16), (16, 4, 1, 1, 16))
_FEW_ROWS: _Tiles = ((8, 16, 1, 1, 16), (8, 8, 1, 1, 16), (4, 16, 1, 1, 16))
_FEW_COLUMNS: _Tiles = ((16, 8, 1, 1, 16), (8, 8, 1, 1, 16), (16, 4, 1, 1, 16))
# Stages of shared memory, and those of loads through registers, which are one step ahead. Terms of
# a short step, for cores whose shared memory has no room for so many cubes with long steps: a core
# of few units waits for loads. By Vulkan on an H200, products with 50,257 columns take 0.78 so.
_STAGES, _LOADED, _SHORT, _TOGETHER, _DEPTH = 3, 2, 8, 2, 16
# Rows or columns that are few, and the minimum of terms of a part.
_FEW, _LEAST = 32, 128
# Cubes of a core up to which units load four terms of a line at once, where they store what they
# load: on an H200 by Vulkan products of two take 0.92 to 0.95 of their time, and one of 24 takes
# 1.12.
_WAVES = 4
# Rows and columns of the smallest tile of aligned products.
_TILE = 64


@kl.kernel
def predicated_simt(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    sizes: Sizes[kl.Number],
    strides: Strides[kl.Number],
    batches: Batches[kl.Number],
    split: SplitK[kl.Number],
    left_sums: kl.InOut | None,
    flags: kl.InOut | None,
    many: kl.Size | None,
    after: After | None,
    *,
    plan: SimtPlan,
    accesses: tuple[int, int],
    run: int,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a tile of a part of a product z.

    ``left_sums``: room for those of ``many`` parts, which the last cube of a tile adds.
    ``accesses``: the elements of an access of each operand; ``run``: of the result.
    """
    kl.launch_attributes(cubes_per_core=plan.together)
    m, n, k = sizes.m, sizes.n, sizes.k
    number = kl.cube_position(2)
    batch, begin, end = split.terms(number, k)
    a_start, b_start = batches.starts(batch)
    first_row, first_column = kl.cube_position(1) * plan.rows, kl.cube_position(0) * plan.columns
    left = StridedLines(a, a_start, first_row, m, strides.a_row, strides.a_depth)
    right = StridedLines(b, b_start, first_column, n, strides.b_column, strides.b_depth)
    tile = simt_tile(plan)
    pipe = kl.Pipeline(plan.stages, *plan.tiles, how=kl.way_of_units())

    def load(pipe: kl.Pipeline, at: kl.Index) -> None:
        copy_pieces(pipe, 0, left, end, at, plan, accesses[0])
        copy_pieces(pipe, 1, right, end, at, plan, accesses[1])

    multiply(tile, pipe, (load,), begin, end)
    ends = writer(epilogue, after, c, batch)
    first = first_row, first_column
    if left_sums is None or flags is None or many is None:
        write_tile(ends, tile, c, (number, batch), first, (m, n), run)
        return
    if completes(tile, left_sums, flags, many, split.products):
        add_parts(tile, left_sums, many, split.products)
        write_tile(ends, tile, c, (batch, batch), first, (m, n), run)


@kl.helper
def copy_pieces(
    pipe: kl.Pipeline,
    tile: int,
    lines: StridedLines,
    end: kl.Index,
    begin: kl.Index,
    plan: SimtPlan,
    access: int,
) -> None:
    """Copy an operand's tile of a step; neighbouring units copy along the dense axis."""
    size, along = (plan.columns, plan.b_along) if tile else (plan.rows, plan.a_along)
    whole = size * plan.depth // access
    if along and access > 1:
        turn_pieces(pipe, tile, lines, end, begin, size, plan, access)
        return
    for turn in range(-(-whole // plan.units)):
        piece = kl.unit_index() + turn * plan.units
        if along:
            place, deep = piece // plan.depth, piece % plan.depth
        else:
            place, deep = piece % (size // access) * access, piece // (size // access)
        across, term = lines.first + place, begin + deep
        inside = (across < lines.count) & (term < end)
        among = None
        if whole % plan.units:
            among = piece < whole
        to = place + deep * (size + FOUR)
        index = lines.index(across, term)
        pipe.copy(tile, to, lines.source, index, access, inside, among=among)


@kl.helper
def turn_pieces(
    pipe: kl.Pipeline,
    tile: int,
    lines: StridedLines,
    end: kl.Index,
    begin: kl.Index,
    size: int,
    plan: SimtPlan,
    access: int,
) -> None:
    """Load an operand's tile by accesses along the K axis, whose terms are apart in the tile."""
    pieces = plan.depth // access
    whole = size * pieces
    for turn in range(-(-whole // plan.units)):
        piece = kl.unit_index() + turn * plan.units
        place, deep = piece // pieces, piece % pieces * access
        across, term = lines.first + place, begin + deep
        inside = (across < lines.count) & (term < end)
        among = None
        if whole % plan.units:
            among = piece < whole
            inside = inside & among
        value = lines.source.load(lines.index(across, term), access, mask=inside)
        for e in range(access):
            pipe.put(tile, place + (deep + e) * (size + FOUR), value[e], among)


def access_of(operand: Operand, size: int, k: int, apart: bool) -> int:
    """Return the elements of an access, one or four: one of any line.

    ``apart``: whether the terms of an access along the K axis may be stored apart.
    """
    if operand.depth == 1 and not apart:
        return 1
    return FOUR if operand.in_accesses(FOUR, size, k) else 1


def simt_plan(product: Product, info: DeviceInfo) -> SimtPlan | None:
    """Return the tile whose last core finishes first, or the usual one of few rows or columns.

    None if none fits. Few tiles are in parts, which are as many as fill the device. Tiles that
    units load are the usual ones where each core has several of the largest: one waits for its
    loads while another multiplies.
    """
    slim = product.m <= _FEW or product.n <= _FEW
    if slim or idle(product, info):
        return _usual(product, info)
    if info.has("async_copy"):
        made = {SimtPlan(*m, *product.along, stages=_STAGES): rate for m, rate in _BALANCED.items()}
        return _balanced(product, made, info)
    usual = _usual(product, info)
    if usual is None or cubes_of(product, usual) >= _TOGETHER * info.cores:
        return usual
    return _balanced(
        product, {_tile(m, product, _LOADED, info): rate for m, rate in _WAITING.items()}, info
    )


def _usual(product: Product, info: DeviceInfo) -> SimtPlan | None:
    """Return the largest tile that fills the device, whole or in parts, else the smallest."""
    tiles = _TILES
    if product.m <= _FEW:
        tiles = _FEW_ROWS if product.m > _FEW // 2 else _LEAST_ROWS
    elif product.n <= _FEW:
        tiles = _FEW_COLUMNS if product.n > _FEW // 2 else _LEAST_COLUMNS
    stages = _STAGES if info.has("async_copy") else _LOADED
    plans = [_tile(made, product, stages, info) for made in tiles]
    fitting = [plan for plan in plans if too_much(plan.units, plan.shared_bytes, info) is None]
    filling = (plan for plan in fitting if _fills(product, plan, info))
    return next(filling, fitting[-1] if fitting else None)


def _tile(
    made: tuple[int, int, int, int, int], product: Product, stages: int, info: DeviceInfo
) -> SimtPlan:
    """Return a tile of so many stages, whose steps are short if a core has no room for two."""
    plan = SimtPlan(*made, *product.along, stages=stages)
    fits = plan.shared_bytes <= info.shared_of(_TOGETHER)
    return plan if fits else replace(plan, depth=_SHORT)


def _balanced(
    product: Product, rates: Mapping[SimtPlan, float], info: DeviceInfo
) -> SimtPlan | None:
    """Return the tile, whole or in parts, whose last core finishes first; None if none fits."""
    fitting = {
        plan: rate
        for plan, rate in rates.items()
        if too_much(plan.units, plan.shared_bytes, info) is None
    }
    if not fitting:
        return None
    p = product
    return [*fitting][_first(tiles_of(fitting), p.m, p.n, p.k, p.batches, info.cores)]


def _is_done(number: int, tiles: Tiles, m: int, n: int, k: int, batches: int, cores: int) -> float:
    """Return the multiplications of the core with the most work, and what parts cost beside."""
    rows, columns, *_ = tiles[number]
    count = -(-m // rows) * -(-n // columns) * batches
    parts = fewest_parts(count, -(-k // _DEPTH), _LEAST // _DEPTH, cores)
    asked = m, n, -(-k // parts), batches * parts, cores
    done = last_is_done(number, tiles, *asked)
    return done + (SUM * parts * m * n * batches / cores + START if parts > 1 else 0)


@choice(cost=_is_done)
def _first(tiles: Tiles, m: int, n: int, k: int, batches: int, cores: int) -> int:
    """Return the index of the tile whose last core finishes first, the first of equals."""
    asked = m, n, k, batches, cores
    return min(range(len(tiles)), key=lambda number: _is_done(number, tiles, *asked))


def _fills(product: Product, plan: SimtPlan, info: DeviceInfo) -> bool:
    """Return whether tiles, or parts of them, fill the device, and none is half empty."""
    full = plan.rows < 2 * product.m and plan.columns < 2 * product.n
    cubes = cubes_of(product, plan)
    return full and (cubes >= info.cores or cubes * simt_parts(product, plan, info) >= info.cores)


def idle(product: Product, info: DeviceInfo) -> bool:
    """Return whether half of the cores are idle with whole tiles, which could be in parts."""
    tiles = -(-product.m // _TILE) * -(-product.n // _TILE) * product.batches
    return 2 * tiles <= info.cores and simt_parts(product, _usual(product, info), info) > 1


def simt_parts(product: Product, plan: SimtPlan | None, info: DeviceInfo) -> int:
    """Return the parts of the K axis that fill the device with tiles of a plan; 1: no split."""
    if plan is None:
        return 1
    steps = -(-product.k // plan.depth)
    return fewest_parts(cubes_of(product, plan), steps, _LEAST // plan.depth, info.cores)


def _steps(operand: Operand, access: int) -> tuple[Given, Given]:
    """Return the strides of the free axis and of the K axis; that of lines divides by accesses."""
    free, depth = operand.free, operand.depth
    if access == 1:
        return free, depth
    return (Multiple(free, access), depth) if depth == 1 else (free, Multiple(depth, access))


def predicated_simt_launches(task: Task, plan: SimtPlan) -> tuple[Task, list[Launch]]:
    """Return the launches of a plan."""
    product, info = task.product, task.info
    a, b = product.a, product.b
    parts = Parts.of(product.k, simt_parts(product, plan, info), plan.depth)
    target, joint = task.result(), ALONE
    after: tuple[Launch, ...] = ()
    if joins(parts.count, plan, info):
        task, joint = with_joint(task, plan, parts.count)
    else:
        task, target, after = in_parts(task, parts)
    run = FOUR if product.n % FOUR == 0 else 1
    columns, rows, _ = task.tiles(plan.rows, plan.columns)
    waves = _WAVES * info.cores
    # An asynchronous copy leaves terms side by side. Units of many cubes hide the time of loads.
    apart = not info.has("async_copy") and columns * rows * parts.count * product.batches <= waves
    by_a = access_of(a, product.m, product.k, apart)
    by_b = access_of(b, product.n, product.k, apart)
    left, right = task.operands(by_a * FOUR, by_b * FOUR)
    a_free, a_depth = _steps(a, by_a)
    b_free, b_depth = _steps(b, by_b)
    strides = Strides(a_free, a_depth, b_depth, b_free)
    made = launch(
        predicated_simt,
        Grid(
            (columns, rows, parts.count * product.batches), (plan.units, 1, 1), info.planes[0],
            int32 if narrow(product) else int64,
        ),
        task.effort(f"matmul predicated {plan.kind} {plan.rows}x{plan.columns}"),
        a=left, b=right, c=Bound(target.place, target.dtype, ACCESS), **joint,
        sizes=Sizes(product.m, Multiple(product.n, run), product.k), strides=strides,
        batches=task.batches(by_a, by_b), split=parts.across(product.batches, plan.depth),
        plan=plan, accesses=(by_a, by_b), run=run,
        **task.following(run),
    )  # fmt: skip
    return task, [made, *after]
