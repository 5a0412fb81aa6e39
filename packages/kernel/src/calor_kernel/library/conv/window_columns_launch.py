"""Launches of convolutions of few windows with packed weights: vectors run along channels."""

from __future__ import annotations

from dataclasses import replace
from math import lcm, prod

from calor.dtypes import float32
from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Grid
from calor_kernel.contract.work import Input, Output
from calor_kernel.library.conv.blueprints import fma_tile
from calor_kernel.library.conv.padded_images import padded
from calor_kernel.library.conv.padded_rows import Placement, adjacent, effort, three
from calor_kernel.library.conv.problem import Correlation
from calor_kernel.library.conv.split_sums import ending
from calor_kernel.library.conv.window_columns import WINDOWS, multiply_columns
from calor_kernel.library.conv.window_packing import Packing
from calor_kernel.library.conv.window_panels_launch import (
    near_floats,
    packed_windows,
    windows_refusal,
)
from calor_kernel.library.gemm.epilogue import Tail
from calor_kernel.library.matmul.blueprints import packed
from calor_kernel.library.matmul.packing import pack_operand
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.steps import Steps

# Output channels from which vectors along them are full.
_CHANNELS = 32


def columns_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why products of few packed windows do not suit a convolution, or None."""
    if problem.a.dtype is not float32:
        return "its dtype is not float32"
    if info.has("masked_access"):
        return "packed windows, or images in place, are read as fast by other ways"
    reason = windows_refusal(problem, info)
    if reason is not None:
        return reason
    if any(axis.divide != 1 for axis in problem.axes):
        return "its windows are those of a strided gradient"
    if problem.leads[2].size < _CHANNELS:
        return f"it has fewer than {_CHANNELS} output channels"
    if problem.leads[0].size * prod(axis.count for axis in problem.axes) > WINDOWS:
        return f"it has more than {WINDOWS} windows"
    follow = adjacent(three(problem), problem.depth)
    return None if follow else "the weights of a channel are not contiguous"


def columns_steps(
    problem: Correlation, steps: Steps, info: DeviceInfo, tail: Tail | None = None
) -> None:
    """Add the launches of a problem that :func:`columns_refusal` takes, with its epilogue."""
    _, groups, rows = problem.leads
    dtype, count = problem.a.dtype, problem.terms
    weights = Operand((0, groups.b), rows.b, 1, problem.b.offset, dtype)
    seen = padded(problem, [three(problem)], steps, info)
    offsets, of, unit = packed_windows(problem, seen, 0, Placement.dense(problem), steps)
    total = of.images * of.pixels
    a = Operand((0, 0), 1, 0, 0, dtype)
    plan = packed(Product((1, groups.size), total, rows.size, count, a, weights, dtype), info)
    high, vectors = fma_tile(total, rows.size, plan.lanes, info)
    width = lcm(plan.lanes, high)
    # A panel of windows and one of weights stay in the first-level cache.
    depth = 3 * near_floats(info) // (2 * (width + vectors * plan.lanes))
    plan = replace(plan, rows=high, vectors=vectors, pack_a=True, pack_b=True, depth=depth)
    how = Packing(width, plan.lanes, 1, unit, False, False)
    columns = -(-rows.size // plan.width)
    memory = steps.memory(groups.size * columns * plan.width * count * dtype.itemsize)
    pack = pack_operand(
        rows.size, count, (1, groups.size), weights, plan.width, plan.lanes, 1, dtype,
        Input(1), memory,
    )  # fmt: skip
    steps.launches.append(replace(pack, label="conv pack", prepares=True))
    # Each cube packs all windows of its groups.
    cubes = least(groups.size * columns, info.cores)
    block = greatest(1, -(-groups.size * columns // cubes))
    room = cubes * -(-total // width) * width * count
    target, following = ending(Bound(Output(), dtype), tail)
    steps.add(
        multiply_columns,
        Grid((cubes, 1, 1)),
        effort(problem, f"conv window columns {plan.rows}x{plan.width}"),
        x=seen.typed(dtype),
        offsets=offsets,
        w=Bound(memory, dtype),
        panels=Bound(steps.memory(room * dtype.itemsize), dtype),
        c=target,
        of=of,
        of_x=seen.group,
        block=least(block, columns),
        cubes=cubes,
        plan=replace(plan, block_rows=0, block_panels=0),
        how=how,
        **following,
    )
