"""Launches of convolutions of float32 by tile registers, with operands in parts of bfloat16.

Requirements: parts of weights depend on them alone, so an inference plan keeps them.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from calor.config import DIRECT
from calor.dtypes import bfloat16, float32, int32
from calor_kernel.contract.choices import exceeds, greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.ways import Way
from calor_kernel.contract.work import Request
from calor_kernel.language.tiles import PARTS, TILE
from calor_kernel.library.conv.one_unit_rows import ended
from calor_kernel.library.conv.padded_images import Images
from calor_kernel.library.conv.padded_rows import Placement, effort, three
from calor_kernel.library.conv.problem import Convolution, Correlation
from calor_kernel.library.conv.small_width_launch import small_width_refusal
from calor_kernel.library.conv.split_sums import ending
from calor_kernel.library.conv.window_packing import Packing
from calor_kernel.library.conv.window_panels_launch import (
    PANELS,
    adjacent_weights,
    packed_windows,
    phase_steps,
    rows_of_cube,
)
from calor_kernel.library.conv.window_parts import (
    STEP,
    Split,
    multiply_window_parts,
    split_weights,
)
from calor_kernel.library.gemm.epilogue import Tail
from calor_kernel.library.matmul.blueprints import Packed
from calor_kernel.library.steps import Steps

# Rows of weights, terms and windows from which parts pay.
_ROWS, _TERMS, _WINDOWS = 64, 64, 128
# Terms of a pass: the parts of a panel and of a block of weights stay in the first-level cache.
_DEPTH = 2 * STEP
# Panels that are packed side by side: a page of memory is read for all of them.
_TOGETHER = 2
# The most panels that share what a cube reads of weights, and its rows of weights.
_SHARED, _TALL = 8, 512


def parts_refusal(one: Convolution, request: Request) -> str | None:
    """Return why tile registers do not compute a convolution of float32, None if they do."""
    p, info = one.problem, one.info
    if p.a.dtype is not float32 or p.b.dtype is not float32:
        return "it is not of float32"
    if not info.has("tile_bfloat16") or info.vector_bytes < TILE:
        return "the device has no tile registers"
    if request.attributes.get("precision") == DIRECT:
        return "sums are to be direct"
    if request.lean:
        return "memory is short"
    if len(p.axes) > 3:
        return "it has more than three spatial axes"
    divided = prod(axis.divide for axis in p.axes)
    deep = p.depth.size * prod(-(-axis.terms // axis.divide) for axis in p.axes)
    # Windows of one tap share nothing that is packed; those that are apart are packed by shuffles.
    taps = prod(axis.terms for axis in p.axes)
    least_rows = _ROWS if taps > 1 and p.axes[-1].result == 1 else 2 * _ROWS
    if p.leads[2].size < least_rows or deep < _TERMS:
        return f"it has fewer than {least_rows} rows of weights, or windows of {_TERMS} terms"
    windows = p.leads[0].size * prod(axis.count for axis in p.axes)
    if windows < _WINDOWS * divided:
        return f"it has fewer than {_WINDOWS} windows"
    if small_width_refusal(p, info) is None:
        return "tiles of narrow images read them in place"
    return None


def _parts_steps(
    problem: Correlation, steps: Steps, info: DeviceInfo, tail: Tail | None = None
) -> None:
    """Add the launches of a problem that :func:`parts_refusal` takes."""
    phase_steps(problem, steps, info, tail, _part)


PARTED = Way("windows in parts", parts_refusal, ended(_parts_steps))


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
    pixels = images.size * prod(a.count for a in seen.parts[number])
    lanes = min(info.vector_bytes // float32.itemsize, TILE)
    height, width = 2 * TILE if exceeds(rows.size, TILE) else TILE, 2 * TILE
    plan = Packed(float32, lanes, height, width // lanes, 1, False, True, _DEPTH, 0, 0, unroll=1)
    weights = adjacent_weights(problem, three(problem), steps, info)
    tiles = -(-rows.size // height)
    passes = greatest(1, -(-problem.terms // _DEPTH))
    of_w = Split(weights.group, weights.row, passes)
    size = groups.size * tiles * height * PARTS * passes * _DEPTH
    parts = Bound(steps.memory(size * bfloat16.itemsize), bfloat16)
    flags = Bound(steps.memory(groups.size * tiles * int32.itemsize), int32)
    made = launch(
        split_weights,
        Grid((tiles, groups.size, 1)),
        Effort("conv weights", nbytes=size * (bfloat16.itemsize + 1)),
        w=weights.memory, parts=parts, flags=flags,
        rows=rows.size, terms=problem.terms, of_w=of_w, height=height, depth=_DEPTH,
        lanes=lanes,
    )  # fmt: skip
    steps.launches.append(replace(made, prepares=True))
    offsets, of, unit = packed_windows(problem, seen, number, to, steps)
    how = Packing(_TOGETHER * width, lanes, 1, unit, False, False)
    across = -(-pixels // width)
    # Panels share what is read of weights.
    most = least(_SHARED, greatest(1, across * groups.size // (PANELS * info.cores)))
    share = -(-across // -(-across // most))
    panels = groups.size * -(-across // share)
    block = rows_of_cube(rows.size, panels, height, info)
    block = least(block, _TALL)
    cubes = least(panels * -(-rows.size // block), PANELS * info.cores)
    room = cubes * (-(-share // _TOGETHER) * _TOGETHER) * _DEPTH * width
    lines = -(-block // height) * height
    target, following = ending(Bound(to.memory, problem.a.dtype), tail)
    steps.add(
        multiply_window_parts,
        Grid((cubes, 1, 1)),
        effort(problem, f"conv windows in parts {height}x{width}"),
        x=seen.typed(float32),
        offsets=offsets,
        w=weights.memory,
        parts=parts,
        flags=flags,
        panels=Bound(steps.memory(room * float32.itemsize), float32),
        halves=Bound(steps.memory(room * PARTS * bfloat16.itemsize), bfloat16),
        sums=Bound(steps.memory(cubes * share * lines * width * float32.itemsize), float32),
        c=target,
        of=of,
        of_x=seen.group,
        of_w=of_w,
        block=block,
        share=share,
        cubes=cubes,
        plan=replace(plan, block_rows=0, block_panels=0),
        how=how,
        **following,
    )
