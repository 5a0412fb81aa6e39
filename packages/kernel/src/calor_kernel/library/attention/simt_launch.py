"""Launches of attention by cubes of many units, for operands of any type, sizes and strides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from calor.dtypes import float32
from calor_kernel.contract.choices import choice, exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple, launch
from calor_kernel.contract.work import Launch, Output, Request, Work
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.attention.bias_gradient import BiasParts, bias_gradient_simt
from calor_kernel.library.attention.gradient_parts import Joined, parts_of
from calor_kernel.library.attention.mma_launch import gradient_counts, index_of, many
from calor_kernel.library.attention.operands import (
    ScoreForm,
    contiguous,
    least_bytes,
    operands_of,
    results_of,
    upstream_of,
)
from calor_kernel.library.attention.problem import Attention
from calor_kernel.library.attention.simt import (
    attend_simt,
    key_gradient_simt,
    query_gradient_simt,
)
from calor_kernel.library.attention.simt_cube import SimtPlan
from calor_kernel.library.attention.simt_shuffled import (
    attend_shuffled,
    key_gradient_shuffled,
    query_gradient_shuffled,
)
from calor_kernel.library.attention.simt_whole import (
    attend_whole,
    key_gradient_whole,
    query_gradient_whole,
)
from calor_kernel.library.steps import Steps

# Tiles of cubes of many units: units across and down, rows and keys of a unit. Gradients of keys
# take those that are square.
TILES: Final[tuple[tuple[int, int, int, int], ...]] = (
    (16, 8, 8, 4),
    (16, 16, 4, 4),
    (16, 16, 3, 3),
    (16, 8, 4, 2),
    (16, 8, 2, 1),
)
# The same for tiles of whole rows.
WHOLE_TILES: Final[tuple[tuple[int, int, int, int], ...]] = (
    (16, 8, 8, 4),
    (16, 16, 4, 4),
    (16, 8, 4, 2),
    (8, 16, 4, 8),
    (8, 16, 8, 8),
    (16, 8, 2, 1),
)
# Further tiles of whole rows, for less shared memory than those need of the widest rows.
SMALL_TILES: Final[tuple[tuple[int, int, int, int], ...]] = ((8, 16, 4, 4), (8, 8, 4, 4))
SMALL: Final = 64 << 10
# Tiles of cubes that exchange weights within planes; their cubes are several of a core.
SHUFFLED_TILES: Final[tuple[tuple[int, int, int, int], ...]] = (
    (8, 16, 8, 8),
    (16, 8, 8, 4),
    (16, 16, 4, 4),
    (16, 8, 4, 4),
    (16, 8, 4, 2),
)
_SEVERAL: Final = 3
# The scores of a unit that some tile of whole rows has to have, so that each access serves several.
_LEAST_SCORES: Final = 8
# Cycles of a block of keys that are not of products, cycles of the exponential of a score, and the
# part of the time for which units wait; the same where tiles of whole rows are copied ahead, and
# where they are copied by registers.
IN_PARTS: Final = 2000, 30, 0.6
AHEAD: Final = 0, 20, 0.3
COPIED: Final = 1000, 20, 0.5
SHUFFLED: Final = 2000, 20, 1.0
# Cycles in which units have what an access of each reads of shared memory, for each element.
_LOADED: Final = 4
# How many units issue an operation in a cycle.
ISSUED: Final = 128
# Registers of a core, those of a unit beside its tiles, and the most cubes of a core.
REGISTERS: Final = 1 << 16
BESIDE: Final = 50
BESIDE_WHOLE: Final = 44
_CUBES: Final = 8
# Cubes of deep tiles that a core should hold.
_TOGETHER: Final = 4
# A unit's scores and sums: how many registers hold, in elements of four bytes.
_SCORES: Final = 32
_SUMS: Final = 64
# Columns of sums of a unit.
_COLUMNS: Final = (1, 2, 4, 6, 8)
_WIDEST: Final = 64
# Elements of float32 of the widest copy.
_ALIGNED: Final = 4
# Features of rows that cubes hold whole, and their columns of sums.
_WHOLE: Final = (8, 16, 24, 32, 40, 48, 64, 72, 80, 96, 128)
_WHOLE_COLUMNS: Final = (1, 2, 3, 4, 5, 6, 8)
# The most features of a part that cubes hold, which exchange weights within planes.
_DEEPEST: Final = 40
_SMALL_COLUMNS: Final = (*_WHOLE_COLUMNS, 9, 10, 12)


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass over scores: the axis of a cube's own rows, the width and number of its sums.

    ``products``: the products of scores; those of keys have two, and two sums. ``whole``: whether
    cubes may hold whole rows.
    """

    by_keys: bool
    width: int
    products: int
    whole: bool = False

    @property
    def sums(self) -> int:
        """The tiles of sums."""
        return 2 if self.by_keys else 1


def simt_plan(problem: Attention, info: DeviceInfo, over: Pass) -> SimtPlan:
    """Return the plan of a pass for cubes of many units: the tile of the least estimated time.

    A cube of one unit uses it too, if its private memory holds no rows of this many features.
    """
    p, item = problem, problem.accumulate.itemsize
    if info.max_units == 1:
        return SimtPlan(1, 1, 32, 8, 8, 8, wide=16 // item)
    held = [plan for plan in _shuffled_plans(p, info, over) if _serves(plan, info, over, item)]
    if not held:
        whole = _whole_plans(p, info, over)
        held = [plan for plan in whole if _serves(plan, info, over, item)]
    if all(plan.rows * plan.keys < _LEAST_SCORES for plan in held):
        plans = [_tile(p, info, over, *tile) for tile in TILES]
        held = [plan for plan in plans if _serves(plan, info, over, item)]
        if not held:
            return plans[-1]
    tiles = tuple(
        (x.units, x.rows, x.keys, x.height, x.block, x.width, _held(x, over, item, info))
        for x in held
    )
    own, other = (p.keys, p.queries * p.group) if over.by_keys else (p.queries, p.keys)
    heads = p.batch * (p.key_heads if over.by_keys else p.heads)
    costs = IN_PARTS
    if held[0].part:
        costs = SHUFFLED
    elif held[0].held:
        costs = AHEAD if info.has("async_copy") else COPIED
    passes = over.products, over.sums, *costs, bool(held[0].part)
    return held[_first(tiles, passes, own, other, heads, p.features, over.width, info.cores)]


def _serves(plan: SimtPlan, info: DeviceInfo, over: Pass, item: int) -> bool:
    """Return whether a device's cubes, memory and registers hold a plan's tiles."""
    scores = plan.rows * plan.keys
    apart = plan.held > 0 or plan.part > 0
    fewest = scores * over.products <= 2 * _SCORES if apart else scores * item <= 4 * _SCORES
    return (
        plan.units <= info.max_units
        and plan.shared_bytes(item, info.planes[0]) <= info.shared_bytes
        and fewest
        and plan.rows * plan.values * over.sums * item <= 4 * _SUMS
        and (plan.height == plan.block or plan.part > 0 or not over.by_keys)
        and not 0 < _most_registers(plan, over, info) < _registers(plan, over, item)
    )


def _most_registers(plan: SimtPlan, over: Pass, info: DeviceInfo) -> int:
    """Return the registers of a unit for a pass, 0 for no limit."""
    largest = plan.part > 0 and over.products == 1 and plan.rows * plan.keys > _SCORES
    return 0 if largest else info.registers


def _tile(
    problem: Attention, info: DeviceInfo, over: Pass, across: int, down: int, rows: int, keys: int
) -> SimtPlan:
    """Return a plan of tiles; they are as deep as the features if several fit shared memory."""
    item = int(problem.accumulate.itemsize)
    access = min(_access(problem), 16 // item)
    most = min(_COLUMNS[-1], _SUMS * 4 // (rows * over.sums * item))
    wanted = -(-over.width // across)
    values = next(n for n in _COLUMNS if n >= min(wanted, max(most, 1)))
    depth = 32 if exceeds(problem.features, 16) else 16
    plan = SimtPlan(across, down, depth, rows, keys, values, access, 16 // item)
    deep = replace(plan, depth=_WIDEST)
    fits = deep.shared_bytes(item, info.planes[0]) <= info.shared_of(_TOGETHER)
    return deep if exceeds(problem.features, 32) and fits else plan


def _shuffled_plans(problem: Attention, info: DeviceInfo, over: Pass) -> Iterator[SimtPlan]:
    """Yield the plans of tiles whose weights lanes exchange, where cubes would not copy ahead."""
    depth = next((n for n in _WHOLE if n >= problem.features and n >= problem.values), None)
    if depth is None or not over.whole or info.has("async_copy") or not info.has("planes"):
        return
    item = int(problem.accumulate.itemsize)
    access, most = min(_access(problem), 16 // item), info.shared_of(_SEVERAL)
    for across, down, rows, keys in SHUFFLED_TILES:
        values = next((n for n in _WHOLE_COLUMNS if n * across >= over.width), None)
        if values is None or info.planes[0] % across:
            continue
        tile = SimtPlan(across, down, 8, rows, keys, values, access, 16 // item, fast=True)
        parts = (across * k for k in range(keys, 0, -1) if keys % k == 0)
        part = next((n for n in parts if n * tile.width * item <= most), across)
        depths = (n for n in range(_DEEPEST, 7, -8) if depth % n == 0)
        plans = [replace(tile, depth=n, part=part) for n in depths]
        fitting = [x for x in plans if x.shared_bytes(item, info.planes[0]) <= most]
        yield (fitting or plans[-1:])[0]


def _whole_plans(problem: Attention, info: DeviceInfo, over: Pass) -> Iterator[SimtPlan]:
    """Yield the plans of tiles of whole rows, if operands and sums have so few features."""
    item = int(problem.accumulate.itemsize)
    depth = next((n for n in _WHOLE if n >= problem.features and n >= problem.values), None)
    if depth is None or not over.whole:
        return
    access = min(_access(problem), 16 // item)
    tiles = WHOLE_TILES if info.shared_bytes > SMALL else (*WHOLE_TILES, *SMALL_TILES)
    for tile in tiles:
        across, down, rows, keys = tile
        columns = _SMALL_COLUMNS if tile in SMALL_TILES else _WHOLE_COLUMNS
        values = next((n for n in columns if n * across >= over.width), None)
        if values is not None:
            own, other = rows * down, keys * across
            held = own + 2 * other if over.products == 1 else 2 * (own + other)
            yield SimtPlan(
                across, down, depth, rows, keys, values, access, 16 // item, held, fast=True
            )


def _holds(problem: Attention, request: Request, upstream: bool = False) -> bool:
    """Return whether cubes may hold whole rows: copies of these convert and gather nothing.

    ``upstream``: whether the first operand is an upstream gradient, whose rows begin anywhere.
    """
    alike = problem.dtype is float32 and problem.accumulate is float32
    aligned = not upstream or request.inputs[0].offset % _ALIGNED == 0
    return alike and aligned and all(contiguous(problem))


def _registers(plan: SimtPlan, over: Pass, item: int) -> int:
    """Return the registers of a unit, estimated by its tiles."""
    tiles = plan.rows * (plan.keys * over.products + plan.values * over.sums)
    beside = BESIDE_WHOLE if plan.held or plan.part else BESIDE
    return beside + (tiles + plan.wide * (plan.rows + plan.keys)) * item // 4


def _held(plan: SimtPlan, over: Pass, item: int, info: DeviceInfo) -> int:
    """Return the cubes that a core holds, by registers and by shared memory."""
    shared = max(info.core_shared_bytes, info.shared_bytes)
    by_registers = REGISTERS // (_registers(plan, over, item) * plan.units)
    by_memory = shared // plan.shared_bytes(item, info.planes[0])
    return max(1, min(by_registers, by_memory, _CUBES))


_Tile = tuple[int, int, int, int, int, int, int]


def _cycles(
    number: int,
    tiles: tuple[_Tile, ...],
    passes: tuple[int, int, int, int, float, bool],
    own: int,
    other: int,
    heads: int,
    features: int,
    width: int,
    cores: int,
) -> float:
    """Return the cycles of the core with the most tiles, for one of several tiles."""
    units, rows, keys, height, block, columns, held = tiles[number]
    products, sums, overhead, exponential, waiting, shuffled = passes
    pairs = rows * keys
    issued = (pairs + rows + keys) * (products * features + sums * min(columns, width))
    if shuffled:
        own_columns = columns * keys // block
        issued = products * features * max(pairs, _LOADED * (rows + keys))
        issued += sums * block * max(rows * own_columns, _LOADED * (rows + own_columns))
    issued += exponential * pairs
    cubes = -(-own // height) * heads * max(1, -(-width // columns))
    each = -(-cubes // cores)
    full, rest = divmod(each, held)

    def cycles(count: int) -> float:
        return overhead + issued * (waiting + count * units / ISSUED)

    # Tiles whose rows are queries are square where keys are summed.
    steps = -(-other // block)
    return steps * (full * cycles(held) + (cycles(rest) if rest else 0.0))


@choice(cost=_cycles)
def _first(
    tiles: tuple[_Tile, ...],
    passes: tuple[int, int, int, int, float, bool],
    own: int,
    other: int,
    heads: int,
    features: int,
    width: int,
    cores: int,
) -> int:
    """Return the index of the tile with the least time, the first of equals."""
    asked = passes, own, other, heads, features, width, cores
    return min(range(len(tiles)), key=lambda number: _cycles(number, tiles, *asked))


def _access(problem: Attention) -> int:
    """Return the elements that are read together: four if all rows begin at whole accesses."""
    p, access = problem, 4
    starts = [n for o in (p.query, p.key, p.value) for n in (*o.strides[:3], o.offset)]
    for n in (p.features, p.values, *starts):
        while n % access:
            access //= 2
    return access


def forward_by_simt(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the work of the forward pass."""
    p = problem
    flops, own = 2 * p.pairs * (p.features + p.values), results_of(p, request, 16)
    over = Pass(False, p.values, 1, _holds(p, request))
    kernels = attend_simt, attend_whole, attend_shuffled
    attend = _launch(kernels, p, request, over, flops, 1, **own)
    yield Work((attend,))


def gradients_by_simt(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the work of the gradients of query, key and value."""
    p, up = problem, upstream_of(request)
    results = [Bound(Output(i), p.dtype, 16) for i in range(3)]
    joined = Joined(request.info, index_of(p, request), p.accumulate, _access(p))
    counts = gradient_counts(p)
    if p.rows * p.features:
        over = Pass(False, p.features, 2, _holds(p, request, upstream=True))
        parts = _parts(p, request.info, over)
        target = joined.target(results[0], counts[0], parts)
        flops = 2 * p.pairs * (2 * p.features + p.values)
        own = {"up": up, "for_query": target, "parts": many(parts)}
        kernels = query_gradient_simt, query_gradient_whole, query_gradient_shuffled
        launch = _launch(kernels, p, request, over, flops, parts, **own)
        joined.steps.launches.append(launch)
    if p.batch * p.keys * (p.features + p.values):
        over = Pass(True, max(p.features, p.values), 2, _holds(p, request, upstream=True))
        parts, flops = _parts(p, request.info, over), 4 * p.pairs * (p.features + p.values)
        for_key, for_value = (joined.target(results[i], counts[i], parts) for i in (1, 2))
        own = {"up": up, "for_key": for_key, "for_value": for_value, "parts": many(parts)}
        kernels = key_gradient_simt, key_gradient_whole, key_gradient_shuffled
        launch = _launch(kernels, p, request, over, flops, parts, **own)
        joined.steps.launches.append(launch)
    joined.join()
    yield joined.steps.work()


def _parts(problem: Attention, info: DeviceInfo, over: Pass) -> int:
    """Return the parts of a pass whose cubes are too few."""
    p, plan = problem, simt_plan(problem, info, over)
    panels = max(1, -(-over.width // plan.width))
    if over.by_keys:
        cubes, steps = -(-p.keys // plan.height) * p.key_heads, -(-p.queries // plan.block)
    else:
        cubes, steps = -(-p.queries // plan.height) * p.heads, -(-p.keys // plan.block)
    return parts_of(cubes * panels * p.batch, steps, info.cores)


def bias_gradient_by_simt(parts: BiasParts, request: Request) -> Iterator[Work]:
    """Yield the work of the gradient of a bias."""
    p, steps = parts.problem, Steps()
    plan = simt_plan(p, request.info, Pass(True, 1, 2))
    block, kernel = (plan.height, plan.block), bias_gradient_simt
    grid = Grid((1, 1, 1), (plan.across, plan.down, 1), request.info.planes[0])
    parts.add(steps, kernel, block, grid, "simt", request, plan=plan, form=_form(p))
    yield steps.work()


def _form(problem: Attention) -> ScoreForm:
    return ScoreForm(problem.kinds, problem.causal, contiguous=contiguous(problem))


def _launch(
    functions: tuple[KernelFunction, KernelFunction, KernelFunction],
    problem: Attention,
    request: Request,
    over: Pass,
    flops: int,
    sharing: int = 1,
    **own: object,
) -> Launch:
    """Return the launch of a body over queries or keys, heads, and panels of a width.

    ``functions``: the bodies for parts of rows, for whole rows, and for weights that lanes
    exchange. ``sharing``: how many cubes
    share the loop of a tile.
    """
    p, info, width = problem, request.info, over.width
    plan = simt_plan(p, info, over)
    function = functions[2 if plan.part else plan.held > 0]
    panels = max(1, -(-width // plan.width))
    count, heads, block = (
        (p.keys, p.key_heads, plan.height) if over.by_keys else (p.queries, p.heads, plan.height)
    )
    cubes = -(-count // block) * sharing, heads * panels, p.batch
    return launch(
        function,
        Grid(cubes, (plan.across, plan.down, 1), info.planes[0], index_of(p, request)),
        Effort(function.name, flops, least_bytes(p)),
        value_width=Multiple(p.values, plan.stored),
        panels=panels,
        g=operands_of(p, plan.access),
        plan=plan,
        form=_form(p),
        **own,
    )
