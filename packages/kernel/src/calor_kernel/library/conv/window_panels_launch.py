"""Launches of convolutions by packed windows, and of strided input gradients phase by phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from calor.dtypes import DType, bfloat16, float32, int64
from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.movement import coalesced
from calor_kernel.contract.work import Input, Scratch, View
from calor_kernel.language.tiles import TILE, terms
from calor_kernel.library.conv.blueprints import fma_tile, pair_tile
from calor_kernel.library.conv.direct_channel_vectors import channel_vectors_refusal
from calor_kernel.library.conv.direct_rows_launch import merge_phases, of_phases
from calor_kernel.library.conv.padded_images import Images, padded
from calor_kernel.library.conv.padded_rows import Placement, adjacent, effort, three
from calor_kernel.library.conv.phase_planes import PlaneAxis, pad_planes
from calor_kernel.library.conv.problem import Axis, Correlation, undivided
from calor_kernel.library.conv.small_width_launch import small_width_refusal
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
# Rows of weights from which packing float32 pays for windows of one tap.
_POINTWISE = 24
# Where images are also read in place: the windows, the rows of weights of several taps, and the
# terms of one tap, from which packing pays.
_WINDOWS, _AMORTIZED, _DEEP = 256, 64, 192
# Pairs of terms of a panel that stay in the first-level cache.
_DEPTH = 128
# Terms of float32 in a turn of a tile's loop.
_UNROLL = 8
# Panels of a cube whose weights do not fit the second-level cache, and its rows of weights.
_TOGETHER, _TALL = 6, 512
PANELS = 2
"""Panels in memory at a time, for each core."""
_AddPart = Callable[[Correlation, Images, int, Placement, Steps, DeviceInfo, Tail | None], None]
TILE_RATE = 8
"""The products of a tile instruction in the time of one of a dot instruction."""


def packing_refusal(dtype: DType, info: DeviceInfo) -> str | None:
    """Return why a device multiplies what is read in place, None if it packs operands first.

    Dot products take pairs of terms, which are seldom adjacent.
    """
    dots = dtype is bfloat16 and info.has("dot_bfloat16")
    return None if dtype is float32 or dots else "the device has no dot products of its dtype"


def near_floats(info: DeviceInfo) -> int:
    """Return the elements of float32 in half of the first-level cache."""
    return (info.caches[0] if info.caches else 32 << 10) // 8


def windows_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why packed windows do not suit a convolution or input gradient, or None."""
    dtype = problem.a.dtype
    reason = packing_refusal(dtype, info)
    if reason is not None or problem.b.dtype is not dtype:
        return reason or "its operands have two dtypes"
    rows, divided = problem.leads[2].size, prod(axis.divide for axis in problem.axes)
    # Of a strided gradient, the phase with the most taps.
    deep = problem.depth.size * prod(-(-axis.terms // axis.divide) for axis in problem.axes)
    if rows < _ROWS or deep < _TERMS:
        return f"it has fewer than {_ROWS} rows of weights, or windows of {_TERMS} terms"
    lanes = info.vector_bytes // 4
    if lanes < 4:
        return "the device has no vectors of float32"
    if dtype is float32 and rows < _POINTWISE and prod(axis.terms for axis in problem.axes) == 1:
        return f"windows of one tap, read in place, suit fewer than {_POINTWISE} rows of weights"
    if dtype is float32 and prod(axis.count for axis in problem.axes) == 1:
        return "its images have one pixel"
    if problem.leads[0].size * prod(axis.count for axis in problem.axes) < lanes * divided:
        return f"its images have fewer than {lanes} pixels"
    return _in_place(problem, info)


def _in_place(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return which way reads images in place as fast as packed ones, None if none does.

    Each needs selected lanes of a vector as fast as all, for reads of padding. Vectors of output
    channels read all their weights at each pixel, so these stay in a near cache; windows of one tap
    would read a line of memory for each channel.
    """
    if problem.a.dtype is not float32 or not info.has("masked_access"):
        return None
    if small_width_refusal(problem, info) is None:
        return "tiles of narrow images read them in place"
    rows, taps = problem.leads[2].size, prod(axis.terms for axis in problem.axes)
    if problem.leads[0].size * prod(axis.count for axis in problem.axes) < _WINDOWS:
        return f"it has fewer than {_WINDOWS} windows, which fill few panels"
    dense = all(axis.divide == axis.result == 1 for axis in problem.axes)
    if dense and taps > 1 and rows < _AMORTIZED:
        return f"it has fewer than {_AMORTIZED} rows of weights for what is packed at each tap"
    if dense and taps == 1 and problem.depth.size < _DEEP:
        return f"windows of one tap have fewer than {_DEEP} terms"
    near = (info.caches[-1] if info.caches else 256 << 10) // 4
    across = taps > 1 and rows % (info.vector_bytes // 4) == 0
    if not across or rows * problem.terms * float32.itemsize > near:
        return None
    reason = channel_vectors_refusal(problem, info)
    return "vectors of output channels read images in place" if reason is None else None


def windows_steps(
    problem: Correlation, steps: Steps, info: DeviceInfo, tail: Tail | None = None
) -> None:
    """Add the launches of a problem that :func:`windows_refusal` takes."""
    phase_steps(problem, steps, info, tail, _part)


def phase_steps(
    problem: Correlation, steps: Steps, info: DeviceInfo, tail: Tail | None, part: _AddPart
) -> None:
    """Add the launches of a problem: those of each phase of a strided gradient by ``part``."""
    axes = three(problem)
    if all(axis.divide == 1 for axis in axes):
        to = Placement.dense(problem)
        part(problem, padded(problem, [axes], steps, info), 0, to, steps, info, tail)
        return
    parts = undivided(problem)
    extents = [-(-a.count // a.divide) for a in axes]
    # Phases of equal sizes are dense; nothing reads the pixels beyond the image.
    wholes = [
        tuple(replace(a, count=n) for a, n in zip(three(one.problem), extents, strict=True))
        for one in parts
    ]
    seen = padded(problem, wholes, steps, info)
    memory = steps.memory(_phase_bytes(problem, extents))
    for number, one in enumerate(parts):
        phase = 0
        for offset, stride in zip(one.offsets, one.steps, strict=True):
            phase = phase * stride + offset
        to = of_phases(problem, Scratch(memory.number, phase * prod(extents)))
        part(one.problem, seen, number, to, steps, info, None)
    merge_phases(problem, memory, steps, info)


def _phase_bytes(problem: Correlation, extents: Sequence[int]) -> int:
    """Return the bytes of the phases of a result."""
    planes = prod(lead.size for lead in problem.leads)
    strides = prod(axis.divide for axis in problem.axes)
    # A plain int() would make a guard of equality of a size.
    nbytes: int = planes * strides * prod(extents) * problem.a.dtype.itemsize
    return nbytes


@dataclass(frozen=True, slots=True)
class Weights:
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
    axes, count = seen.parts[number], problem.terms
    dtype, group = problem.a.dtype, PAIR if problem.a.dtype is bfloat16 else 1
    pixels = prod(a.count for a in axes)
    tiles = _by_tiles(problem, info)
    weights = adjacent_weights(problem, three(problem), steps, info)
    if tiles:
        weights = _whole(problem, weights, steps, info)
    plan = _plan(problem, images.size * pixels, weights, tiles, info)
    offsets, of, unit = packed_windows(problem, seen, number, to, steps)
    how = Packing(plan.width, plan.lanes, group, unit, count % group > 0, tiles)
    across = -(-images.size * pixels // plan.width)
    share = 1 if group > 1 else _share(rows.size, across, groups.size, weights, plan, info)
    panels = groups.size * -(-across // share)
    block = rows_of_cube(rows.size, panels, plan.rows, info)
    if share > 1:
        block = least(block, -(-_TALL // plan.rows) * plan.rows)
    cubes = least(panels * -(-rows.size // block), PANELS * info.cores)
    lines = plan.rows if tiles else -(-block // plan.rows) * plan.rows
    long = -(-count // group)
    long = -(-long // TILE) * TILE if tiles else least(long, plan.depth + count % group)
    room = cubes * share * long * group * plan.width
    target, following = ending(Bound(to.memory, problem.a.dtype), tail)
    label = f"conv {'window tiles' if tiles else 'windows'} {plan.rows}x{plan.width}"
    steps.add(
        multiply_windows,
        Grid((cubes, 1, 1)),
        effort(problem, label),
        x=seen.memory if group > 1 else seen.typed(dtype),
        offsets=offsets,
        w=weights.memory,
        panels=Bound(steps.memory(max(room, 1) * dtype.itemsize), dtype),
        sums=Bound(steps.memory(cubes * share * lines * plan.width * float32.itemsize), float32),
        c=target,
        of=of,
        of_x=seen.group,
        of_w=(weights.group, weights.row),
        block=block,
        share=share,
        cubes=cubes,
        plan=plan,
        how=how,
        **following,
    )


def packed_windows(
    problem: Correlation, seen: Images, number: int, to: Placement, steps: Steps
) -> tuple[Bound, Windows[int], int]:
    """Return the positions of a window's terms, the windows, and their distance for packing."""
    images, groups, rows = problem.leads
    axes, count = seen.parts[number], problem.terms
    offsets = Bound(steps.memory(max(count, 1) * int64.itemsize), int64)
    table = launch(
        window_offsets,
        Grid((1, 1, 1)),
        Effort("conv offsets", nbytes=count * int64.itemsize),
        offsets=offsets,
        depth=problem.depth.size,
        channel=seen.channel,
        taps=tuple(a.terms for a in axes),
        steps=tuple(a.summed * a.a for a in axes),
    )
    steps.launches.append(replace(table, prepares=True))
    (_, high, wide), distances = _merged(axes)
    of = Windows(
        images=images.size,
        groups=groups.size,
        rows=rows.size,
        pixels=prod(a.count for a in axes),
        terms=count,
        high=high,
        wide=wide,
        steps=tuple(distances),
        start=sum(a.start * a.a for a in axes),
        image=seen.image,
        to=to.leads,
    )
    unit = distances[2] if wide > 1 else 1
    return offsets, of, unit if unit in (1, 2) else 0


def _by_tiles(problem: Correlation, info: DeviceInfo) -> bool:
    """Return whether tile registers compute a problem sooner than dot instructions."""
    rows, count = problem.leads[2].size, problem.terms
    tiled = problem.a.dtype is bfloat16 and info.has("tile_bfloat16")
    if not tiled or rows < TILE or count == 0:
        return False
    step = terms(bfloat16)
    whole = -(-rows // TILE) * TILE * -(-count // step) * step
    return whole <= TILE_RATE * rows * count


def _plan(
    problem: Correlation, columns: int, weights: Weights, tiles: bool, info: DeviceInfo
) -> Packed:
    """Return the tiles of sums: of registers for FMA or dot instructions, or of tile registers."""
    _, groups, rows = problem.leads
    dtype = problem.a.dtype
    a = Operand((0, weights.group), weights.row, 1, 0, dtype)
    b = Operand((0, 0), 1, 0, 0, dtype)
    product = Product((1, groups.size), rows.size, columns, problem.terms, a, b, dtype)
    plan = packed(product, info)
    choose = pair_tile if dtype is bfloat16 else fma_tile
    tile = choose(rows.size, columns, plan.lanes, info)
    if tiles:
        tile = (2 * TILE if rows.size >= 2 * TILE else TILE), 2 * TILE // plan.lanes
    depth = _DEPTH if dtype is bfloat16 else near_floats(info) // (tile[1] * plan.lanes)
    plan = replace(plan, rows=tile[0], vectors=tile[1], pack_a=False, pack_b=True, depth=depth)
    unroll = plan.unroll if dtype is bfloat16 else _UNROLL
    return replace(plan, block_rows=0, block_panels=0, unroll=unroll)


def _share(
    rows: int, across: int, groups: int, weights: Weights, plan: Packed, info: DeviceInfo
) -> int:
    """Return the panels that rows of weights are read for: one if the weights stay in a cache."""
    nbytes = rows * weights.row * 4
    if nbytes <= (info.caches[-1] if info.caches else 256 << 10) // 2:
        return 1
    return least(greatest(1, across * groups // (PANELS * info.cores)), _TOGETHER)


def rows_of_cube(rows: int, panels: int, height: int, info: DeviceInfo) -> int:
    """Return the rows of a cube: fewer than all if there are fewer panels than cores need."""
    tiles = -(-rows // height)
    parts = least(tiles, greatest(1, -(-PANELS * info.cores // panels)))
    return -(-tiles // parts) * height


def _merged(axes: Sequence[Axis[int]]) -> tuple[list[int], list[int]]:
    """Return the sizes of three axes of windows and their distances, merged where possible."""
    shape, (steps,) = coalesced([a.count for a in axes], [a.result * a.a for a in axes])
    more = len(axes) - len(shape)
    return [*[1] * more, *shape], [*[0] * more, *steps]


def adjacent_weights(
    problem: Correlation, axes: tuple[Axis[int], ...], steps: Steps, info: DeviceInfo
) -> Weights:
    """Return weights with adjacent terms, copied if they are others."""
    _, groups, rows = problem.leads
    if adjacent(axes, problem.depth):
        return Weights(operand(1, problem.b), groups.b, rows.b)
    sizes = (groups.size, rows.size, problem.depth.size, *(a.terms for a in axes))
    strides = (groups.b, rows.b, problem.depth.b, *(a.b for a in axes))
    target = steps.memory(max(prod(sizes), 1) * problem.b.dtype.itemsize)
    if problem.terms:
        before = len(steps.launches)
        view = View(sizes, strides, problem.b.dtype, problem.b.offset)
        steps.copy(view, Input(1), target, info)
        made = [replace(one, prepares=True) for one in steps.launches[before:]]
        steps.launches[before:] = made
    return Weights(Bound(target, problem.b.dtype), rows.size * problem.terms, problem.terms)


def _whole(problem: Correlation, weights: Weights, steps: Steps, info: DeviceInfo) -> Weights:
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
    return Weights(Bound(memory, bfloat16), rows.size * length, length)
