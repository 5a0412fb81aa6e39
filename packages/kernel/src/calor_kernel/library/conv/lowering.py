"""Convolutions as launches: from the three ops to the bodies of this family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from calor.dtypes import int64
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.conv.direct import direct
from calor_kernel.library.conv.dotting import dot_steps
from calor_kernel.library.conv.lines import Placement, Steps
from calor_kernel.library.conv.problem import (
    PARTS,
    Correlation,
    accumulator,
    for_input,
    for_weight,
    forward,
)
from calor_kernel.library.conv.shifting import part_steps, shift_steps
from calor_kernel.library.conv.tiling import tile_steps
from calor_kernel.library.work import (
    Argument,
    Build,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Work,
    lowering,
)
from calor_kernel.runtime.device import DeviceInfo

_SIZE = Scalar(int64, nonnegative=True)
_STRIDE = Scalar(int64)
_AXIS = (_SIZE, _SIZE, _SIZE, *(_STRIDE,) * 2, _SIZE, _SIZE, _STRIDE, _STRIDE)


@lowering("conv", strided=True)
def lower_conv(request: Request) -> Sequence[Work] | Refusal:
    """Return the ways to compute a convolution, the likeliest first."""
    problem, info = forward(request), request.info
    general = Work(_direct(problem, info))
    steps = Steps()
    places: tuple[Argument, ...] = (Input(0), Input(1))
    if not _suits(problem):
        return [general]
    if info.max_units > 1:
        found = tile_steps(problem, places, steps, info)
    else:
        found = shift_steps(problem, places, Placement.dense(problem), steps, info)
    if found:
        return [Work(tuple(steps.launches), tuple(steps.scratch)), general]
    return [general]


@lowering("conv_input_gradient", strided=True)
def lower_conv_input_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the ways to compute the gradient of the input, which is a transposed convolution."""
    problem, info = for_input(request), request.info
    general = Work(_direct(problem, info))
    steps = Steps()
    places: tuple[Argument, ...] = (Input(0), Input(1))
    if not _suits(problem):
        return [general]
    ways = tile_steps if info.max_units > 1 else part_steps
    if ways(problem, places, steps, info):
        return [Work(tuple(steps.launches), tuple(steps.scratch)), general]
    return [general]


@lowering("conv_weight_gradient", strided=True)
def lower_conv_weight_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the ways to compute the gradient of the weight."""
    problem, info = for_weight(request), request.info
    general = Work(_direct(problem, info))
    steps = Steps()
    places: tuple[Argument, ...] = (Input(0), Input(1))
    if not _suits(problem):
        return [general]
    ways = tile_steps if info.max_units > 1 else dot_steps
    if ways(problem, places, steps, info):
        return [Work(tuple(steps.launches), tuple(steps.scratch)), general]
    return [general]


def _suits(problem: Correlation) -> bool:
    """Return whether quicker ways may serve: for real numbers, where there is work."""
    return problem.a.dtype not in PARTS and problem.size * problem.terms > 0


def _direct(problem: Correlation, info: DeviceInfo) -> tuple[Launch, ...]:
    """Return the launch of the general body."""
    count = problem.size
    if not count:
        return ()
    dtype = problem.a.dtype
    part = PARTS.get(dtype, dtype)
    accumulate = accumulator(dtype)
    parts = 2 if dtype in PARTS else 1
    units = min(info.max_units, 128)
    width = 1 if units > 1 else max(1, info.vector_bytes // 8)
    numbers = [n for lead in (*problem.leads, problem.depth) for n in astuple(lead)]
    numbers += [n for axis in problem.axes for n in astuple(axis)]
    keywords: dict[str, Any] = {
        "rank": len(problem.axes),
        "width": width,
        "complexes": parts == 2,
        "divided": any(axis.divide > 1 for axis in problem.axes),
        "accumulate": accumulate,
    }
    read = Buffer(part, writable=False)
    signature: tuple[Buffer | Scalar, ...] = (read, read, Buffer(part), _SIZE)
    signature += ((_SIZE, _STRIDE, _STRIDE) * 4) + _AXIS * len(problem.axes)
    cube = (units, 1, 1)
    build = Build(direct, signature, tuple(sorted(keywords.items())), cube)
    cubes = (-(-count // (units * width)), 1, 1)
    a, b = problem.a, problem.b
    arguments = (
        Input(0, a.offset * parts),
        Input(1, b.offset * parts),
        Output(0),
        count,
        *numbers,
    )
    flops = 2 * count * problem.terms * parts * parts
    nbytes = (a.size + b.size + count) * dtype.itemsize
    return (Launch(build, cubes, arguments, flops, nbytes, "conv direct"),)
