"""Launches of implicit GEMM convolutions of any type and stride."""

from __future__ import annotations

from math import prod

from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Output, Request, Work, row_major
from calor_kernel.language import index_dtype
from calor_kernel.library.conv.generic_tiles import (
    LeadStrides,
    TileAxis,
    TileResult,
    add_each_part,
    tiled_correlation,
)
from calor_kernel.library.conv.padded_rows import Steps, three
from calor_kernel.library.conv.problem import Convolution, accumulator
from calor_kernel.library.gemm.generic import GenericPlan

_ACROSS, _DOWN, _DEPTH = 16, 8, 16
_UNITS = _ACROSS * _DOWN
# Minimum of terms of a part of a long sum. A cube alone on its core waits for memory in each step,
# so adding the parts is expected to cost less than further steps.
_SHARE = 128


def tiles_refusal(one: Convolution, request: Request) -> str | None:
    """Return why tiles of any strides and types do not suit a correlation, None if they do."""
    if len(one.problem.axes) > 3:
        return "it has more than three spatial axes"
    if one.info.max_units < _UNITS or not one.info.has("barrier"):
        return f"cubes have no {_UNITS} units that meet"
    return None


def tiles_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a correlation that :func:`tiles_refusal` accepts."""
    p, info, steps, axes = one.problem, one.info, Steps(), three(one.problem)
    # Lead axes of b alone, of a alone, and of both.
    strides = row_major([*(lead.size for lead in p.leads), prod(a.count for a in axes)])
    group, row, column = (p.leads[i] for i in p.roles)
    result, accumulate = p.a.dtype, accumulator(p.a.dtype)
    depth = p.depth.size * prod(a.terms for a in axes)
    columns = column.size * prod(a.count for a in axes)
    tile = 2 if row.size * columns * group.size < 128 * 128 else 4
    plan = GenericPlan(_ACROSS, _DOWN, tile, tile, _DEPTH, accumulate)
    across, down = -(-columns // plan.width), -(-row.size // plan.height)
    # Few tiles with long sums leave cores idle; each part of a sum is another tile.
    wanted = max(1, 4 * info.cores // (across * down * group.size))
    splits = min(wanted, max(1, depth // _SHARE))
    share = -(-depth // (splits * _DEPTH)) * _DEPTH
    splits = max(1, -(-depth // share))
    spans = [
        sum((n - 1) * abs(s) for n, s in zip(v.shape, v.strides, strict=True)) for v in (p.a, p.b)
    ]
    index = index_dtype(*spans, p.size * splits, depth, columns)
    target = Bound(Output(0), result)
    if splits > 1:
        target = Bound(steps.memory(splits * p.size * accumulate.itemsize), accumulate)
    steps.launches.append(
        launch(
            tiled_correlation,
            Grid(
                (across, down, group.size * splits), (_ACROSS, _DOWN, 1), info.planes[0], index
            ),
            Effort(
                f"conv tiled {plan.height}x{plan.width}", 2 * p.size * p.terms,
                (p.a.size + p.b.size + p.size) * result.itemsize,
            ),
            a=operand(0, p.a), b=operand(1, p.b), c=target,
            rows_total=row.size, columns_total=columns, depth_total=depth,
            splits=splits, share=share, part_step=p.size,
            a_strides=LeadStrides(group.a, column.a, p.depth.a),
            b_strides=LeadStrides(group.b, row.b, p.depth.b),
            c_strides=TileResult(*(strides[i] for i in p.roles)),
            counts=[a.count for a in axes], terms=[a.terms for a in axes],
            axes=[TileAxis(a.result, a.summed, a.start, a.size, a.a, a.b) for a in axes],
            plan=plan, divides=tuple(a.divide for a in axes),
        )
    )  # fmt: skip
    if splits > 1:
        grid = Grid.line(-(-p.size // _UNITS), _UNITS, info.planes[0])
        effort = Effort("conv parts", p.size * splits, p.size * splits * accumulate.itemsize)
        bounds = {"parts": target, "c": Bound(Output(0), result)}
        steps.launches.append(
            launch(add_each_part, grid, effort, count=p.size, splits=splits, **bounds)
        )
    return [steps.work()]
