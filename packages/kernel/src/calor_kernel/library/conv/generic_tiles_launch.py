"""Launches of implicit GEMM convolutions of any type and stride."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from calor.dtypes import int64
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch, Output, row_major
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import FastDivmod, index_dtype
from calor_kernel.library.conv.generic_tiles import add_parts, tiled_correlation
from calor_kernel.library.conv.padded_rows import Steps, moved, three
from calor_kernel.library.conv.problem import Correlation, accumulator
from calor_kernel.library.gemm.generic import GenericPlan

_ACROSS, _DOWN, _DEPTH = 16, 8, 16
# Minimum of terms of a part of a long sum. A cube alone on its core waits for memory in each step,
# so adding the parts is expected to cost less than further steps.
_SHARE = 128


def tiles_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why tiles of any strides and types do not suit a correlation, None if they do."""
    if len(problem.axes) > 3:
        return "it has more than three spatial axes"
    if info.max_units < _ACROSS * _DOWN or not info.has("barrier"):
        return f"cubes have no {_ACROSS * _DOWN} units that meet"
    return None


def tile_steps(
    problem: Correlation, places: Sequence[Argument], steps: Steps, info: DeviceInfo
) -> None:
    """Add the launches of a correlation that :func:`tiles_refusal` accepts."""
    units = _ACROSS * _DOWN
    axes = three(problem)
    # Lead axes of b alone, of a alone, and of both.
    sizes = [lead.size for lead in problem.leads]
    strides = row_major([*sizes, prod(a.count for a in axes)])
    roles = problem.roles
    group, row, column = (problem.leads[i] for i in roles)
    accumulate = accumulator(problem.a.dtype)
    depth = problem.depth.size * prod(a.terms for a in axes)
    columns = column.size * prod(a.count for a in axes)
    small = row.size * columns * group.size < 128 * 128
    tile = 2 if small else 4
    plan = GenericPlan(_ACROSS, _DOWN, tile, tile, _DEPTH, accumulate)
    height, width = plan.height, plan.width
    cubes = -(-columns // width) * -(-row.size // height) * group.size
    # Few tiles with long sums leave cores idle; each part of a sum is another tile.
    wanted = max(1, 4 * info.cores // cubes)
    splits = min(wanted, max(1, depth // _SHARE))
    steps_each = -(-depth // (splits * _DEPTH))
    share = steps_each * _DEPTH
    splits = max(1, -(-depth // share))
    views = problem.a, problem.b
    spans = [sum((n - 1) * abs(s) for n, s in zip(v.shape, v.strides, strict=True)) for v in views]
    index = index_dtype(*spans, problem.size * splits, depth, columns)
    numbers = [
        row.size,
        columns,
        depth,
        splits,
        share,
        problem.size,
        group.a,
        column.a,
        problem.depth.a,
        group.b,
        row.b,
        problem.depth.b,
        *(strides[i] for i in roles),
    ]
    for n in (*(a.count for a in axes), *(a.terms for a in axes)):
        numbers += FastDivmod.arguments(n, index)
    for axis in axes:
        numbers += [axis.result, axis.summed, axis.start, axis.size, axis.a, axis.b]
    size, stride = Scalar(index, nonnegative=True), Scalar(index)
    signs = (
        *(size,) * 6,
        *(stride,) * 6,
        *(size,) * 3,
        *FastDivmod.declared(index) * 6,
        *(size, stride, stride, size, stride, stride) * 3,
    )
    result = problem.a.dtype
    target: Argument = Output(0)
    if splits > 1:
        target = steps.memory(splits * problem.size * accumulate.itemsize)
    keywords: dict[str, Any] = {
        "divides": tuple(a.divide for a in axes),
        "plan": plan,
    }
    signature: tuple[Buffer | Scalar, ...] = (
        Buffer(problem.a.dtype, writable=False),
        Buffer(problem.b.dtype, writable=False),
        Buffer(accumulate if splits > 1 else result),
        *signs,
    )
    build = Build(
        tiled_correlation,
        signature,
        tuple(sorted(keywords.items())),
        cube=(_ACROSS, _DOWN, 1),
        plane=info.planes[0],
        index=index,
    )
    arguments = (
        moved(places[0], problem.a.offset),
        moved(places[1], problem.b.offset),
        target,
        *numbers,
    )
    flops = 2 * problem.size * problem.terms
    nbytes = (problem.a.size + problem.b.size + problem.size) * result.itemsize
    counts = (-(-columns // width), -(-row.size // height), group.size * splits)
    label = f"conv tiled {height}x{width}"
    steps.launches.append(Launch(build, counts, arguments, flops, nbytes, label))
    if splits > 1:
        kind = (Buffer(accumulate, writable=False), Buffer(result), *(Scalar(int64),) * 2)
        build = Build(add_parts, kind, (), (units, 1, 1), info.planes[0])
        steps.launches.append(
            Launch(
                build,
                (-(-problem.size // units), 1, 1),
                (target, Output(0), problem.size, splits),
                problem.size * splits,
                problem.size * splits * accumulate.itemsize,
                "conv parts",
            )
        )
