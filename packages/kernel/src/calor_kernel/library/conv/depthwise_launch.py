"""Launches of depthwise convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Launch, Output
from calor_kernel.library.conv.depthwise import convolve_rows, spread_rows, weigh_rows
from calor_kernel.library.conv.padded_rows import Placement, effort, three, vectors
from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.conv.row_windows import Along, Back, Extent, GivenRows, SeenRows
from calor_kernel.library.conv.vector_tiles import Strides

# Maxima of the output channels of an input channel, and of taps along a row, in one kernel.
_OUTPUTS, _TAPS = 4, 31
# Vectors of sums in the registers of a unit.
_SUMS = 25
# Bytes of the result of a cube.
_GRAIN = 1 << 16


def row_launch(
    problem: Correlation, axes: Sequence[Axis], to: Placement, info: DeviceInfo
) -> Launch | None:
    """Return the launch of a depthwise convolution, None if the problem is no such one."""
    images, groups, outputs = problem.leads
    _, high, wide = axes
    if not _is_flat(problem, axes) or to.axes[2] != 1:
        return None
    if outputs.size > _OUTPUTS or wide.terms > _TAPS:
        return None
    accumulate, lanes = vectors(problem, info)
    rows = images.size * groups.size * high.count
    turns = max(1, _GRAIN // (wide.count * outputs.size * problem.a.dtype.itemsize))
    return launch(
        convolve_rows,
        Grid.line(-(-rows // turns)),
        effort(problem, "conv rows"),
        x=operand(0, problem.a),
        w=operand(1, problem.b),
        c=Bound(to.memory, problem.a.dtype),
        over=SeenRows(rows, turns, high.terms, high.result, _extent(high), _extent(wide)),
        groups=groups.size,
        x_steps=Strides(images.a, groups.a, high.a),
        w_steps=Strides(groups.b, outputs.b, high.b),
        w_width=wide.b,
        c_steps=Strides(*to.leads),
        c_row=to.axes[1],
        along=Along(wide.terms, wide.result, wide.summed),
        dilation=high.summed,
        outputs=outputs.size,
        accumulate=accumulate,
        lanes=lanes,
    )


def weight_rows(forward: Correlation, axes: Sequence[Axis], info: DeviceInfo) -> Launch | None:
    """Return the launch of a depthwise weight gradient, None if the problem is no such one.

    ``forward`` is the convolution, with the output gradient for its second operand.
    """
    images, groups, outputs = forward.leads
    _, high, wide = axes
    if not _is_flat(forward, axes) or high.terms * wide.terms > _SUMS or wide.b != 1:
        return None
    dtype = forward.a.dtype
    accumulate, lanes = vectors(forward, info)
    products = images.size * groups.size * outputs.size * prod(a.count * a.terms for a in axes)
    nbytes = (forward.a.size + forward.b.size) * dtype.itemsize
    return launch(
        weigh_rows,
        Grid((groups.size, outputs.size, 1)),
        Effort("conv weigh rows", 2 * products, nbytes),
        x=operand(0, forward.a),
        g=operand(1, forward.b),
        c=Bound(Output(), dtype),
        images=images.size,
        outputs=outputs.size,
        x_steps=Strides(images.a, groups.a, high.a),
        g_steps=Strides(images.b, groups.b, outputs.b),
        g_row=high.b,
        high=_extent(high),
        wide=_extent(wide),
        along=Along(wide.terms, wide.result, wide.summed),
        taps=high.terms,
        stride=high.result,
        dilation=high.summed,
        lanes=lanes,
        accumulate=accumulate,
    )


def input_rows(problem: Correlation, info: DeviceInfo) -> Launch | None:
    """Return the launch of a depthwise input gradient with a stride, None for other problems.

    ``problem`` is the result of ``for_input``.
    """
    if len(problem.axes) > 2 or problem.leads[2].size != 1 or problem.depth.size > _OUTPUTS:
        return None
    images, groups, _ = problem.leads
    _, high, wide = three(problem)
    plain = all(axis.divide == 1 for axis in problem.axes)
    if plain or wide.terms * wide.divide > _SUMS or (wide.a != 1 and wide.size != 1):
        return None
    dtype = problem.a.dtype
    accumulate, lanes = vectors(problem, info)
    rows = images.size * groups.size * high.count
    turns = max(1, _GRAIN // (wide.count * dtype.itemsize))
    flops = 2 * problem.b.size * problem.a.size // max(groups.size * problem.depth.size, 1)
    # The windows are the rows of the output gradient.
    high_extent = Extent(-high.start, high.size, high.count)
    return launch(
        spread_rows,
        Grid.line(-(-rows // turns)),
        Effort("conv spread rows", flops, (problem.a.size + problem.size) * dtype.itemsize),
        g=operand(0, problem.a),
        w=operand(1, problem.b),
        c=Bound(Output(), dtype),
        over=GivenRows(rows, turns, high_extent, wide.count, wide.size),
        groups=groups.size,
        g_steps=Strides(images.a, groups.a, problem.depth.a),
        g_row=high.a,
        w_steps=Strides(groups.b, problem.depth.b, high.b),
        w_width=wide.b,
        back=Back(wide.terms, wide.divide, -wide.summed, -wide.start),
        taps=high.terms,
        stride=high.divide,
        dilation=-high.summed,
        outputs=problem.depth.size,
        lanes=lanes,
        accumulate=accumulate,
    )


def _is_flat(problem: Correlation, axes: Sequence[Axis]) -> bool:
    """Return whether a problem is depthwise, with one or two axes and dense rows."""
    deep, _, wide = axes
    flat = deep.count == 1 and deep.terms == 1 and deep.size == 1 and deep.start == 0
    return flat and problem.depth.size == 1 and (wide.a == 1 or wide.size == 1)


def _extent(axis: Axis) -> Extent[int]:
    return Extent(axis.start, axis.count, axis.size)
