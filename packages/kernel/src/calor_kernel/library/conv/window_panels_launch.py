"""Launches of convolutions by packed windows, and of strided input gradients phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from calor.dtypes import bfloat16, float32, int64
from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.movement import coalesced
from calor_kernel.contract.work import Input, Scratch, View
from calor_kernel.language.tiles import TILE, terms
from calor_kernel.library.conv.blueprints import pair_tile
from calor_kernel.library.conv.direct_rows_launch import merge_phases, of_phases
from calor_kernel.library.conv.padded_images import Images, padded
from calor_kernel.library.conv.padded_rows import Placement, adjacent, effort, three
from calor_kernel.library.conv.phase_planes import PlaneAxis, pad_planes
from calor_kernel.library.conv.problem import Axis, Correlation, undivided
from calor_kernel.library.conv.split_sums import ending
from calor_kernel.library.conv.window_packing import PAIR, Packing, Windows, window_offsets
from calor_kernel.library.conv.window_panels import multiply_windows
from calor_kernel.library.copying import as_bits
from calor_kernel.library.gemm.epilogue import Tail
from calor_kernel.library.matmul.blueprints import Packed, packed
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.steps import Steps

# Output channels and terms of a window from which packing pays.
_ROWS, _TERMS = 8, 16
# Pairs of terms of a panel that stay in the first-level cache.
_DEPTH = 128
# Panels in memory at a time, for each core.
_PANELS = 2
TILE_RATE = 8
"""The products of a tile instruction in the time of one of a dot instruction."""


def windows_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why dot products of windows do not suit a convolution or input gradient, or None."""
    dtype = problem.a.dtype
    if dtype is not bfloat16 or problem.b.dtype is not dtype or not info.has("dot_bfloat16"):
        return "the device has no dot products of its dtype"
    rows, divided = problem.leads[2].size, prod(axis.divide for axis in problem.axes)
    # Of a strided gradient, the phase with the most taps.
    deep = problem.depth.size * prod(-(-axis.terms // axis.divide) for axis in problem.axes)
    if rows < _ROWS or deep < _TERMS:
        return f"it has fewer than {_ROWS} rows of weights, or windows of {_TERMS} terms"
    lanes = info.vector_bytes // 4
    if problem.leads[0].size * prod(axis.count for axis in problem.axes) < lanes * divided:
        return f"its images have fewer than {lanes} pixels"
    return None


def windows_steps(
    problem: Correlation, steps: Steps, info: DeviceInfo, tail: Tail | None = None
) -> None:
    """Add the launches of a problem that :func:`windows_refusal` takes."""
    axes = three(problem)
    if all(axis.divide == 1 for axis in axes):
        to = Placement.dense(problem)
        _part(problem, padded(problem, [axes], steps, info), 0, to, steps, info, tail)
        return
    parts = undivided(problem)
    extents = [-(-a.count // a.divide) for a in axes]
    # Phases of equal sizes are dense; nothing reads the pixels beyond the image.
    wholes = [
        tuple(replace(a, count=n) for a, n in zip(three(part.problem), extents, strict=True))
        for part in parts
    ]
    seen = padded(problem, wholes, steps, info)
    memory = steps.memory(_phase_bytes(problem, extents))
    for number, part in enumerate(parts):
        phase = 0
        for offset, stride in zip(part.offsets, part.steps, strict=True):
            phase = phase * stride + offset
        to = of_phases(problem, Scratch(memory.number, phase * prod(extents)))
        _part(part.problem, seen, number, to, steps, info, None)
    merge_phases(problem, memory, steps, info)


def _phase_bytes(problem: Correlation, extents: Sequence[int]) -> int:
    """Return the bytes of the phases of a result."""
    planes = prod(lead.size for lead in problem.leads)
    strides = prod(axis.divide for axis in problem.axes)
    return int(planes * strides * prod(extents) * problem.a.dtype.itemsize)


@dataclass(frozen=True, slots=True)
class _Weights:
    """Weights with adjacent terms: their memory, and the strides of groups and rows."""

    memory: Bound
    group: int
    row: int


def _part(
    problem: Correlation,
    seen: Images,
    number: int,
    to: Placement,
    steps: Steps,
    info: DeviceInfo,
    tail: Tail | None,
) -> None:
    """Add the launches of a problem without divisors, whose operand is padded."""
    images, groups, rows = problem.leads
    axes, depth, count = seen.parts[number], problem.depth, problem.terms
    pixels = prod(a.count for a in axes)
    tiles = _by_tiles(problem, info)
    weights = _weights(problem, three(problem), steps, info)
    if tiles:
        weights = _whole(problem, weights, steps, info)
    plan = _plan(problem, images.size * pixels, weights, tiles, info)
    offsets = Bound(steps.memory(max(count, 1) * int64.itemsize), int64)
    table = launch(
        window_offsets,
        Grid((1, 1, 1)),
        Effort("conv offsets", nbytes=count * int64.itemsize),
        offsets=offsets,
        depth=depth.size,
        channel=seen.channel,
        taps=tuple(a.terms for a in axes),
        steps=tuple(a.summed * a.a for a in axes),
    )
    steps.launches.append(replace(table, prepares=True))
    (_, high, wide), distances = _merged(axes)
    unit = distances[2] if wide > 1 else 1
    how = Packing(plan.width, plan.lanes, unit if unit in (1, PAIR) else 0, count % PAIR > 0, tiles)
    panels = groups.size * -(-images.size * pixels // plan.width)
    block = _block(rows.size, panels, plan.rows, info)
    cubes = least(panels * -(-rows.size // block), _PANELS * info.cores)
    lines = plan.rows if tiles else -(-block // plan.rows) * plan.rows
    pairs = -(-count // PAIR)
    room = cubes * (-(-pairs // TILE) * TILE if tiles else pairs) * PAIR * plan.width
    target, following = ending(Bound(to.memory, problem.a.dtype), tail)
    label = f"conv {'window tiles' if tiles else 'windows'} {plan.rows}x{plan.width}"
    steps.add(
        multiply_windows,
        Grid((cubes, 1, 1)),
        effort(problem, label),
        x=seen.memory,
        offsets=offsets,
        w=weights.memory,
        panels=Bound(steps.memory(max(room, 1) * bfloat16.itemsize), bfloat16),
        sums=Bound(steps.memory(cubes * lines * plan.width * float32.itemsize), float32),
        c=target,
        of=Windows(
            images=images.size,
            groups=groups.size,
            rows=rows.size,
            pixels=pixels,
            terms=count,
            high=high,
            wide=wide,
            steps=tuple(distances),
            start=sum(a.start * a.a for a in axes),
            image=seen.image,
            to=to.leads,
        ),
        of_x=seen.group,
        of_w=(weights.group, weights.row),
        block=block,
        cubes=cubes,
        plan=plan,
        how=how,
        **following,
    )


def _by_tiles(problem: Correlation, info: DeviceInfo) -> bool:
    """Return whether tile registers compute a problem sooner than dot instructions."""
    rows, count = problem.leads[2].size, problem.terms
    if not info.has("tile_bfloat16") or rows < TILE or count == 0:
        return False
    step = terms(bfloat16)
    whole = -(-rows // TILE) * TILE * -(-count // step) * step
    return whole <= TILE_RATE * rows * count


def _plan(
    problem: Correlation, columns: int, weights: _Weights, tiles: bool, info: DeviceInfo
) -> Packed:
    """Return the tiles of sums: of registers for dot instructions, or of tile registers."""
    _, groups, rows = problem.leads
    a = Operand((0, weights.group), weights.row, 1, 0, bfloat16)
    b = Operand((0, 0), 1, 0, 0, bfloat16)
    product = Product((1, groups.size), rows.size, columns, problem.terms, a, b, bfloat16)
    plan = packed(product, info)
    tile = pair_tile(rows.size, columns, plan.lanes, info)
    if tiles:
        tile = (2 * TILE if rows.size >= 2 * TILE else TILE), 2 * TILE // plan.lanes
    plan = replace(plan, rows=tile[0], vectors=tile[1])
    return replace(plan, pack_a=False, pack_b=True, depth=_DEPTH, block_rows=0, block_panels=0)


def _block(rows: int, panels: int, height: int, info: DeviceInfo) -> int:
    """Return the rows of a cube: fewer than all if there are fewer panels than cores need."""
    tiles = -(-rows // height)
    parts = least(tiles, greatest(1, -(-_PANELS * info.cores // panels)))
    return -(-tiles // parts) * height


def _merged(axes: Sequence[Axis[int]]) -> tuple[list[int], list[int]]:
    """Return the sizes of three axes of windows and their distances, merged where possible."""
    shape, (steps,) = coalesced([a.count for a in axes], [a.result * a.a for a in axes])
    more = len(axes) - len(shape)
    return [*[1] * more, *shape], [*[0] * more, *steps]


def _weights(
    problem: Correlation, axes: tuple[Axis[int], ...], steps: Steps, info: DeviceInfo
) -> _Weights:
    """Return weights with adjacent terms, copied if they are others."""
    _, groups, rows = problem.leads
    if adjacent(axes, problem.depth):
        return _Weights(operand(1, problem.b), groups.b, rows.b)
    sizes = (groups.size, rows.size, problem.depth.size, *(a.terms for a in axes))
    strides = (groups.b, rows.b, problem.depth.b, *(a.b for a in axes))
    target = steps.memory(max(prod(sizes), 1) * bfloat16.itemsize)
    if problem.terms:
        before = len(steps.launches)
        view = View(sizes, strides, bfloat16, problem.b.offset)
        steps.copy(view, Input(1), target, info)
        made = [replace(one, prepares=True) for one in steps.launches[before:]]
        steps.launches[before:] = made
    return _Weights(Bound(target, bfloat16), rows.size * problem.terms, problem.terms)


def _whole(problem: Correlation, weights: _Weights, steps: Steps, info: DeviceInfo) -> _Weights:
    """Return weights whose terms are whole steps of tiles, filled with zeros."""
    step = terms(bfloat16)
    length = -(-problem.terms // step) * step
    if length == problem.terms:
        return weights
    _, groups, rows = problem.leads
    bits = as_bits(View((1,), (1,), bfloat16), info).dtype
    memory = steps.memory(groups.size * rows.size * length * bfloat16.itemsize)
    one = PlaneAxis(1, 1, 0, 1, 0, 1, 0)
    made = launch(
        pad_planes,
        Grid((rows.size, groups.size, 1)),
        Effort("conv weights", nbytes=2 * groups.size * rows.size * length * bfloat16.itemsize),
        x=replace(weights.memory, dtype=bits),
        lines=Bound(memory, bits),
        channels=rows.size,
        outer=weights.group,
        step=weights.row,
        axes=[one, one, PlaneAxis(1, length, 0, 1, 0, problem.terms, 1)],
        strides=(1, 1, 1),
        lanes=info.vector_bytes // 4,
        unit=1,
        both=False,
    )
    steps.launches.append(replace(made, prepares=True))
    return _Weights(Bound(memory, bfloat16), rows.size * length, length)
