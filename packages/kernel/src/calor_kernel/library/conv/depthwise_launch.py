"""Launches of depthwise convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch, Output
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.conv.depthwise import convolve_rows
from calor_kernel.library.conv.depthwise_gradients import spread_rows, weigh_rows
from calor_kernel.library.conv.padded_rows import SIZE, STRIDE, Placement, moved, three
from calor_kernel.library.conv.problem import Axis, Correlation, accumulator
from calor_kernel.library.conv.row_windows import Along, Back

# Maxima of the output channels of an input channel, and of taps along a row, in one kernel.
_OUTPUTS, _TAPS = 4, 31
# Vectors of sums in the registers of a unit.
_SUMS = 25
# Bytes of the result of a cube.
_GRAIN = 1 << 16


def row_launch(
    problem: Correlation,
    axes: Sequence[Axis],
    places: Sequence[Argument],
    to: Placement,
    info: DeviceInfo,
) -> Launch | None:
    """Return the launch of a depthwise convolution, None if the problem is no such one."""
    images, groups, outputs = problem.leads
    _, high, wide = axes
    if not _is_flat(problem, axes) or to.axes[2] != 1:
        return None
    if outputs.size > _OUTPUTS or wide.terms > _TAPS:
        return None
    dtype, accumulate = problem.a.dtype, accumulator(problem.a.dtype)
    lines = images.size * groups.size * high.count
    turns = max(1, _GRAIN // (wide.count * outputs.size * dtype.itemsize))
    numbers = [
        lines,
        turns,
        groups.size,
        images.a,
        groups.a,
        high.a,
        groups.b,
        outputs.b,
        high.b,
        wide.b,
        to.leads[0],
        to.leads[1],
        to.leads[2],
        to.axes[1],
        high.terms,
        high.result,
        high.start,
        high.size,
        high.count,
        wide.count,
        wide.start,
        wide.size,
    ]
    keywords: dict[str, Any] = {
        "along": Along(wide.terms, wide.result, wide.summed),
        "dilation": high.summed,
        "outputs": outputs.size,
        "lanes": max(1, info.vector_bytes // accumulate.itemsize),
        "accumulate": accumulate,
    }
    build = _build(convolve_rows, problem, numbers, keywords)
    arguments = (
        moved(places[0], problem.a.offset),
        moved(places[1], problem.b.offset),
        to.memory,
        *numbers,
    )
    flops = 2 * problem.size * problem.terms
    nbytes = (problem.a.size + problem.b.size + problem.size) * dtype.itemsize
    return Launch(build, (-(-lines // turns), 1, 1), arguments, flops, nbytes, "conv rows")


def weight_rows(
    forward: Correlation, axes: Sequence[Axis], places: Sequence[Argument], info: DeviceInfo
) -> Launch | None:
    """Return the launch of a depthwise weight gradient, None if the problem is no such one.

    ``forward`` is the convolution, with the output gradient for its second operand.
    """
    images, groups, outputs = forward.leads
    _, high, wide = axes
    if not _is_flat(forward, axes) or high.terms * wide.terms > _SUMS or wide.b != 1:
        return None
    dtype, accumulate = forward.a.dtype, accumulator(forward.a.dtype)
    numbers = [
        images.size,
        outputs.size,
        images.a,
        groups.a,
        high.a,
        images.b,
        groups.b,
        outputs.b,
        high.b,
        high.start,
        high.size,
        high.count,
        wide.count,
        wide.start,
        wide.size,
    ]
    keywords: dict[str, Any] = {
        "along": Along(wide.terms, wide.result, wide.summed),
        "taps": high.terms,
        "stride": high.result,
        "dilation": high.summed,
        "lanes": max(1, info.vector_bytes // accumulate.itemsize),
        "accumulate": accumulate,
    }
    arguments = (
        moved(places[0], forward.a.offset),
        moved(places[1], forward.b.offset),
        Output(0),
        *numbers,
    )
    flops = 2 * images.size * groups.size * outputs.size * prod(a.count * a.terms for a in axes)
    nbytes = (forward.a.size + forward.b.size) * dtype.itemsize
    build = _build(weigh_rows, forward, numbers, keywords)
    cubes = (groups.size, outputs.size, 1)
    return Launch(build, cubes, arguments, flops, nbytes, "conv weigh rows")


def input_rows(problem: Correlation, places: Sequence[Argument], info: DeviceInfo) -> Launch | None:
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
    dtype, accumulate = problem.a.dtype, accumulator(problem.a.dtype)
    lines = images.size * groups.size * high.count
    turns = max(1, _GRAIN // (wide.count * dtype.itemsize))
    numbers = [
        lines,
        turns,
        groups.size,
        images.a,
        groups.a,
        problem.depth.a,
        high.a,
        groups.b,
        problem.depth.b,
        high.b,
        wide.b,
        -high.start,
        high.count,
        wide.count,
        high.size,
        wide.size,
    ]
    keywords: dict[str, Any] = {
        "back": Back(wide.terms, wide.divide, -wide.summed, -wide.start),
        "taps": high.terms,
        "stride": high.divide,
        "dilation": -high.summed,
        "outputs": problem.depth.size,
        "lanes": max(1, info.vector_bytes // accumulate.itemsize),
        "accumulate": accumulate,
    }
    arguments = (
        moved(places[0], problem.a.offset),
        moved(places[1], problem.b.offset),
        Output(0),
        *numbers,
    )
    flops = 2 * problem.b.size * problem.a.size // max(groups.size * problem.depth.size, 1)
    nbytes = (problem.a.size + problem.size) * dtype.itemsize
    build = _build(spread_rows, problem, numbers, keywords)
    return Launch(build, (-(-lines // turns), 1, 1), arguments, flops, nbytes, "conv spread rows")


def _is_flat(problem: Correlation, axes: Sequence[Axis]) -> bool:
    """Return whether a problem is depthwise, with one or two axes and dense rows."""
    deep, _, wide = axes
    flat = deep.count == 1 and deep.terms == 1 and deep.size == 1 and deep.start == 0
    return flat and problem.depth.size == 1 and (wide.a == 1 or wide.size == 1)


def _build(
    function: KernelFunction,
    problem: Correlation,
    numbers: Sequence[int],
    keywords: dict[str, Any],
) -> Build:
    signature: tuple[Buffer | Scalar, ...] = (
        Buffer(problem.a.dtype, writable=False),
        Buffer(problem.b.dtype, writable=False),
        Buffer(problem.a.dtype),
        *(SIZE if n >= 0 else STRIDE for n in numbers),
    )
    return Build(function, signature, tuple(sorted(keywords.items())))
