"""Convolutions of single channels as launches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.conv.lines import SIZE, STRIDE, Placement, moved
from calor_kernel.library.conv.problem import Axis, Correlation, accumulator
from calor_kernel.library.conv.rowwise import Along, convolve_rows
from calor_kernel.library.work import Argument, Build, Launch
from calor_kernel.runtime.device import DeviceInfo

# Channels of the result for one of the input, and taps along a row, that a kernel is built for.
_OUTPUTS, _TAPS = 4, 31
# Bytes of the result that a cube computes.
_GRAIN = 1 << 16


def row_launch(
    problem: Correlation,
    axes: Sequence[Axis],
    places: Sequence[Argument],
    to: Placement,
    info: DeviceInfo,
) -> Launch | None:
    """Return the launch where each channel of the result sees one of the input, else None."""
    images, groups, outputs = problem.leads
    deep, high, wide = axes
    if problem.depth.size != 1 or outputs.size > _OUTPUTS or wide.terms > _TAPS:
        return None
    if deep.count != 1 or deep.terms != 1 or deep.size != 1 or deep.start:
        return None
    if (wide.a != 1 and wide.size != 1) or to.axes[2] != 1:
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
    signature: tuple[Buffer | Scalar, ...] = (
        Buffer(dtype, writable=False),
        Buffer(problem.b.dtype, writable=False),
        Buffer(dtype),
        *(SIZE if n >= 0 else STRIDE for n in numbers),
    )
    build = Build(convolve_rows, signature, tuple(sorted(keywords.items())))
    arguments = (
        moved(places[0], problem.a.offset),
        moved(places[1], problem.b.offset),
        to.memory,
        *numbers,
    )
    flops = 2 * problem.size * problem.terms
    nbytes = (problem.a.size + problem.b.size + problem.size) * dtype.itemsize
    return Launch(build, (-(-lines // turns), 1, 1), arguments, flops, nbytes, "conv rows")
