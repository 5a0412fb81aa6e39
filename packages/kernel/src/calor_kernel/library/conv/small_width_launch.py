"""Launches of convolutions of narrow images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from calor.dtypes import DType
from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch, Output, Scratch, View
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.conv.blueprints import narrow_tile, narrow_weights
from calor_kernel.library.conv.padded_rows import SIZE, STRIDE, Placement, Steps, moved, three
from calor_kernel.library.conv.problem import Axis, Correlation, accumulator
from calor_kernel.library.conv.small_width import Row, gather_channels
from calor_kernel.library.conv.small_width_forward import convolve_narrow, pack_narrow
from calor_kernel.library.conv.small_width_weight_gradient import weigh_narrow

# Maximum of taps along a row in a kernel.
_TAPS = 5
# Minimum of input channels for which a tile is worth its overhead.
_DEPTH = 4
# Input channels whose weights a cube packs.
_BLOCK = 32


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand: its memory, strides of images, groups, channels and lines, and its planes."""

    view: View
    place: Argument
    image: int
    group: int
    channel: int
    channels: int
    line: int
    height: int
    width: int

    @property
    def places(self) -> int:
        """The number of pixels of an image."""
        return self.height * self.width

    @property
    def flat(self) -> bool:
        """Whether the pixels of an image are dense."""
        return self.height == 1 or self.line == self.width


def small_width_refusal(problem: Correlation, info: DeviceInfo, fewest: int = 1) -> str | None:
    """Return why tiles of small images do not suit a convolution or an input gradient, or None.

    With fewer than ``fewest`` output pixels of all images packing the weights costs too much.
    """
    if len(problem.axes) > 3:
        return "it has more than three spatial axes"
    axes = three(problem)
    images, _, rows = problem.leads
    (high, _), (wide, _) = _upwards(axes[1]), _upwards(axes[2])
    lanes = info.vector_bytes // accumulator(problem.a.dtype).itemsize
    if not _is_narrow(axes, lanes):
        return "its images are no planes, or their rows are longer than a vector"
    if rows.size < lanes or problem.depth.size < _DEPTH:
        return f"it has fewer than {lanes} output or {_DEPTH} input channels"
    # The taps of two channels fill at most a square of vectors.
    follow = high.terms == 1 or high.b == wide.b * wide.terms
    if not follow or abs(wide.b) != 1:
        return "the weights of a channel are not contiguous"
    if high.terms * wide.terms > lanes:
        return f"its window has more than {lanes} taps"
    p = narrow_tile(wide.count, rows.size, wide.terms, lanes, info)
    if p is None:
        return "no tile fits the registers"
    if images.size < p.together:
        return f"it has fewer than {p.together} images"
    if images.size * high.count * wide.count < fewest:
        return f"it has fewer than {fewest} output pixels"
    return None


def small_width_steps(
    problem: Correlation, places: Sequence[Argument], steps: Steps, info: DeviceInfo
) -> None:
    """Add the launches of a problem that :func:`small_width_refusal` takes."""
    axes = three(problem)
    images, groups, rows = problem.leads
    _, high, wide = axes
    # With taps in ascending order, the same kernels compute both ops.
    (high, on), (wide, further) = _upwards(high), _upwards(wide)
    weights = moved(places[1], problem.b.offset + on + further)
    accumulate = accumulator(problem.a.dtype)
    lanes = info.vector_bytes // accumulate.itemsize
    p = narrow_tile(wide.count, rows.size, wide.terms, lanes, info)
    assert p is not None
    span = p.vectors * lanes
    panels = -(-rows.size // span)
    terms = groups.size * panels * span * problem.terms
    packed = steps.memory(terms * accumulate.itemsize)
    steps.launches.append(_pack(problem, high, wide, panels, p.vectors, lanes, weights, packed))
    flops = 2 * problem.size * problem.terms
    block = p.block(flops // (panels * groups.size), images.size, info)
    to = Placement.dense(problem).leads
    numbers = [
        images.size,
        panels,
        rows.size,
        problem.depth.size,
        block,
        images.a,
        groups.a,
        problem.depth.a,
        high.a,
        *to,
        high.terms,
        high.result,
        high.summed,
        high.start,
        high.count,
        high.size,
    ]
    keywords: dict[str, Any] = {
        "along": _row(wide),
        "divide": high.divide,
        "together": p.together,
        "vectors": p.vectors,
        "lanes": lanes,
        "accumulate": accumulate,
    }
    signature: tuple[Buffer | Scalar, ...] = (
        Buffer(problem.a.dtype, writable=False),
        Buffer(accumulate, writable=False),
        Buffer(problem.a.dtype),
        *(SIZE if n >= 0 else STRIDE for n in numbers),
    )
    build = Build(convolve_narrow, signature, tuple(sorted(keywords.items())))
    cubes = (greatest(1, images.size // block), panels, groups.size)
    nbytes = (problem.a.size + problem.b.size + problem.size) * problem.a.dtype.itemsize
    label = f"conv narrow {p.together}x{wide.count}x{span}"
    arguments = (moved(places[0], problem.a.offset), packed, Output(0), *numbers)
    steps.launches.append(Launch(build, cubes, arguments, flops, nbytes, label))


def _upwards(axis: Axis) -> tuple[Axis, int]:
    """Return the axis with taps in ascending order, and the offset of its first tap's weights."""
    if axis.summed >= 0:
        return axis, 0
    back = axis.terms - 1
    start = axis.start + back * axis.summed
    return replace(axis, summed=-axis.summed, start=start, b=-axis.b), back * axis.b


def _pack(
    problem: Correlation,
    high: Axis,
    wide: Axis,
    panels: int,
    vectors: int,
    lanes: int,
    weights: Argument,
    packed: Scratch,
) -> Launch:
    """Return the launch that packs weights to panels of output channels."""
    _, groups, rows = problem.leads
    depth = problem.depth
    block = least(_BLOCK, depth.size)
    numbers = [rows.size, depth.size, panels]
    keywords: dict[str, Any] = {"along": wide.terms, "lanes": lanes, "vectors": vectors}
    keywords |= {"taps": high.terms, "back": wide.b < 0}
    weights = moved(weights, 1 - high.terms * wide.terms if wide.b < 0 else 0)
    numbers += [block, groups.b, rows.b, depth.b]
    accumulate = accumulator(problem.a.dtype)
    signature: tuple[Buffer | Scalar, ...] = (
        Buffer(problem.b.dtype, writable=False),
        Buffer(accumulate),
        *(SIZE if n >= 0 else STRIDE for n in numbers),
    )
    build = Build(pack_narrow, signature, tuple(sorted(keywords.items())))
    cubes = (groups.size * panels, greatest(1, depth.size // block), 1)
    nbytes = problem.b.size * (problem.b.dtype.itemsize + accumulate.itemsize)
    arguments = (weights, packed, *numbers)
    return Launch(build, cubes, arguments, 0, nbytes, "conv pack", prepares=True)


def _weight_sides(forward: Correlation, places: Sequence[Argument]) -> tuple[_Side, _Side]:
    """Return the input and the output gradient."""
    images, groups, outputs = forward.leads
    _, high, wide = three(forward)
    x = _Side(
        forward.a, moved(places[0], forward.a.offset), images.a, groups.a, forward.depth.a,
        forward.depth.size, high.a, high.size, wide.size,
    )  # fmt: skip
    g = _Side(
        forward.b, moved(places[1], forward.b.offset), images.b, groups.b, outputs.b,
        outputs.size, high.b, high.count, wide.count,
    )  # fmt: skip
    return x, g


def small_width_weight_refusal(
    forward: Correlation, places: Sequence[Argument], info: DeviceInfo
) -> str | None:
    """Return why tiles of small images do not suit a weight gradient, None if they do."""
    axes = three(forward)
    lanes = info.vector_bytes // accumulator(forward.a.dtype).itemsize
    if not _is_narrow(axes, lanes):
        return "its images are no planes, or their rows are longer than a vector"
    if axes[2].b != 1 and axes[2].count > 1:
        return "the rows of the result's gradient are not contiguous"
    if not any(s.flat and s.channels >= lanes for s in _weight_sides(forward, places)):
        return f"neither operand has {lanes} channels of contiguous images"
    return None


def small_width_weight_steps(
    forward: Correlation,
    axes: Sequence[Axis],
    places: Sequence[Argument],
    steps: Steps,
    info: DeviceInfo,
) -> None:
    """Add the launches of a weight gradient that :func:`small_width_weight_refusal` accepts.

    ``forward`` is the convolution, with the output gradient for its second operand.
    """
    images, groups, outputs = forward.leads
    _, high, wide = axes
    accumulate = accumulator(forward.a.dtype)
    lanes = info.vector_bytes // accumulate.itemsize
    x, g = _weight_sides(forward, places)
    # Vectors run along channels of one operand; the smaller one is cheaper to copy.
    sides = [s for s in (x, g) if s.flat and s.channels >= lanes]
    panel = min(sides, key=lambda s: s.places * s.channels)
    of_input, single = panel is x, g if panel is x else x
    p = narrow_weights(single.channels, panel.channels, wide.terms, lanes, info)
    span = p.vectors * lanes
    panels = -(-panel.channels // span)
    batch = images.size * groups.size
    memory = steps.memory(batch * panels * span * panel.places * accumulate.itemsize)
    steps.launches.append(
        _gather(panel, groups.size, batch, panels, p.vectors, lanes, accumulate, memory)
    )
    flops = 2 * prod(a.count * a.terms for a in axes) * batch * outputs.size * x.channels
    block = p.block(flops // max(panels * groups.size, 1), single.channels, info)
    taps = high.terms * wide.terms
    inner, outer = taps, x.channels * taps
    numbers = [
        images.size,
        groups.size,
        panels,
        single.channels,
        panel.channels,
        block,
        panel.places * span,
        single.image,
        single.group,
        single.channel,
        single.line,
        outputs.size * outer,
        *((outer, inner) if of_input else (inner, outer)),
        high.terms,
        high.result,
        high.summed,
        high.start,
        high.count,
        high.size,
    ]
    keywords: dict[str, Any] = {
        "along": _row(wide),
        "of_input": of_input,
        "rows": p.rows,
        "vectors": p.vectors,
        "lanes": lanes,
        "accumulate": accumulate,
    }
    signature: tuple[Buffer | Scalar, ...] = (
        Buffer(accumulate, writable=False),
        Buffer(single.view.dtype, writable=False),
        Buffer(forward.a.dtype),
        *(SIZE if n >= 0 else STRIDE for n in numbers),
    )
    build = Build(weigh_narrow, signature, tuple(sorted(keywords.items())))
    cubes = (panels, greatest(1, single.channels // block), groups.size)
    nbytes = (x.view.size + g.view.size) * forward.a.dtype.itemsize
    label = f"conv weigh narrow {p.rows}x{wide.terms}x{span}"
    arguments = (memory, single.place, Output(0), *numbers)
    steps.launches.append(Launch(build, cubes, arguments, flops, nbytes, label))


def _gather(
    side: _Side,
    groups: int,
    batch: int,
    panels: int,
    vectors: int,
    lanes: int,
    accumulate: DType,
    memory: Scratch,
) -> Launch:
    """Return the launch that copies an operand to channels last."""
    numbers = [
        side.channels, panels, groups, side.places, side.image, side.group, side.channel
    ]  # fmt: skip
    signature: tuple[Buffer | Scalar, ...] = (
        Buffer(side.view.dtype, writable=False),
        Buffer(accumulate),
        *(SIZE if n >= 0 else STRIDE for n in numbers),
    )
    whole = side.places % lanes == 0
    keywords = (("lanes", lanes), ("vectors", vectors), ("whole", whole))
    build = Build(gather_channels, signature, keywords)
    nbytes = side.view.size * (side.view.dtype.itemsize + accumulate.itemsize)
    arguments = (side.place, memory, *numbers)
    return Launch(build, (batch * panels, 1, 1), arguments, 0, nbytes, "conv gather")


def _is_narrow(axes: Sequence[Axis], lanes: int) -> bool:
    """Return whether images have dense pixels, and rows of few pixels."""
    deep, _, wide = axes
    flat = deep.count == 1 and deep.terms == 1 and deep.size == 1 and deep.start == 0
    rows = wide.a == 1 or wide.size == 1
    few = wide.count <= lanes and wide.size <= lanes and 1 < wide.terms <= _TAPS
    return flat and rows and few and lanes >= 4 and not lanes & (lanes - 1)


def _row(axis: Axis) -> Row:
    return Row(axis.count, axis.terms, axis.result, axis.summed, axis.start, axis.divide, axis.size)
