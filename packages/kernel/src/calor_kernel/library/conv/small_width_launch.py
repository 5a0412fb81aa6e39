"""Launches of convolutions of narrow images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from calor_kernel.contract.choices import greatest, is_size, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Input, Output, View
from calor_kernel.library.conv.blueprints import narrow_tile, narrow_weights
from calor_kernel.library.conv.padded_rows import Placement, effort, is_flat, three, vectors
from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.conv.small_width import (
    Row,
    pack_small_width,
    small_width_forward,
    small_width_weights,
)
from calor_kernel.library.conv.split_sums import ending
from calor_kernel.library.conv.vector_tiles import LineStrides, Slide, Strides
from calor_kernel.library.gemm.epilogue import Tail
from calor_kernel.library.matmul.packing import pack_operand
from calor_kernel.library.matmul.problem import Operand
from calor_kernel.library.steps import Steps

# Maximum of taps along a row in a kernel.
_TAPS = 5
# Minimum of input channels for which a tile is worth its overhead.
_DEPTH = 4
# Input channels whose weights a cube packs.
_BLOCK = 32


def small_width_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why tiles of small images do not suit a convolution or an input gradient, or None."""
    axes = three(problem)
    images, _, rows = problem.leads
    (high, _), (wide, _) = _upwards(axes[1]), _upwards(axes[2])
    _, lanes = vectors(problem, info)
    if is_size(wide.count):
        return "a kernel is built for rows of one size"
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
    if narrow_tile(wide.count, rows.size, wide.terms, images.size, lanes, info) is None:
        return "no tile fits the registers"
    return None


def small_width_steps(
    problem: Correlation, steps: Steps, info: DeviceInfo, tail: Tail | None = None
) -> None:
    """Add the launches of a problem that :func:`small_width_refusal` takes, with its epilogue."""
    images, groups, rows = problem.leads
    depth = problem.depth
    _, high, wide = three(problem)
    # With taps in ascending order, the same kernels compute both ops.
    (high, on), (wide, further) = _upwards(high), _upwards(wide)
    back = wide.b < 0
    first = problem.b.offset + on + further + (1 - high.terms * wide.terms if back else 0)
    accumulate, lanes = vectors(problem, info)
    p = narrow_tile(wide.count, rows.size, wide.terms, images.size, lanes, info)
    assert p is not None
    span = p.vectors * lanes
    panels = -(-rows.size // span)
    terms = groups.size * panels * span * problem.terms
    packed = Bound(steps.memory(terms * accumulate.itemsize), accumulate)
    block = least(_BLOCK, depth.size)
    pack = launch(
        pack_small_width,
        Grid((groups.size * panels, greatest(1, depth.size // block), 1)),
        Effort(
            "conv pack", nbytes=problem.b.size * (problem.b.dtype.itemsize + accumulate.itemsize)
        ),
        w=Bound(Input(1, first), problem.b.dtype),
        c=packed,
        rows=rows.size,
        depth=depth.size,
        panels=panels,
        block=block,
        w_steps=Strides(groups.b, rows.b, depth.b),
        taps=high.terms,
        along=wide.terms,
        back=back,
        vectors=p.vectors,
        lanes=lanes,
    )
    steps.launches.append(replace(pack, prepares=True))
    of_panel = 2 * problem.size * problem.terms // (panels * groups.size)
    block = p.block(of_panel, images.size, info)
    target, following = ending(Bound(Output(), problem.a.dtype), tail)
    steps.add(
        small_width_forward,
        Grid((greatest(1, images.size // block), panels, groups.size)),
        effort(problem, f"conv small width {p.rows}x{wide.count}x{span}"),
        x=operand(0, problem.a),
        w=packed,
        c=target,
        images=images.size,
        panels=panels,
        outputs=rows.size,
        depth=depth.size,
        block_images=block,
        x_steps=LineStrides(images.a, groups.a, depth.a, high.a),
        c_steps=Strides(*Placement.dense(problem).leads),
        down=_slide(high),
        along=Row(_slide(wide), wide.divide),
        divide=high.divide,
        together=p.rows,
        vectors=p.vectors,
        lanes=lanes,
        accumulate=accumulate,
        **following,
    )


def _upwards(axis: Axis[int]) -> tuple[Axis[int], int]:
    """Return the axis with taps in ascending order, and the offset of its first tap's weights."""
    if axis.summed >= 0:
        return axis, 0
    back = axis.terms - 1
    start = axis.start + back * axis.summed
    return replace(axis, summed=-axis.summed, start=start, b=-axis.b), back * axis.b


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand: strides of images, groups, channels and lines, and its planes."""

    number: int
    view: View
    steps: LineStrides[int]
    channels: int
    height: int
    width: int

    @property
    def places(self) -> int:
        """The number of pixels of an image."""
        return self.height * self.width

    def fits(self, lanes: int) -> bool:
        """Return whether the pixels of an image are dense, and channels fill a vector."""
        return (self.height == 1 or self.steps.line == self.width) and self.channels >= lanes


def _weight_sides(forward: Correlation) -> tuple[_Side, _Side]:
    """Return the input and the output gradient."""
    images, groups, outputs = forward.leads
    depth, (_, high, wide) = forward.depth, three(forward)
    x = LineStrides(images.a, groups.a, depth.a, high.a)
    g = LineStrides(images.b, groups.b, outputs.b, high.b)
    return (
        _Side(0, forward.a, x, depth.size, high.size, wide.size),
        _Side(1, forward.b, g, outputs.size, high.count, wide.count),
    )


def small_width_weight_refusal(forward: Correlation, info: DeviceInfo) -> str | None:
    """Return why tiles of small images do not suit a weight gradient, None if they do."""
    axes = three(forward)
    _, lanes = vectors(forward, info)
    if not _is_narrow(axes, lanes):
        return "its images are no planes, or their rows are longer than a vector"
    if axes[2].b != 1 and axes[2].count > 1:
        return "the rows of the result's gradient are not contiguous"
    if not any(side.fits(lanes) for side in _weight_sides(forward)):
        return f"neither operand has {lanes} channels of contiguous images"
    return None


def small_width_weight_steps(forward: Correlation, steps: Steps, info: DeviceInfo) -> None:
    """Add the launches of a weight gradient that :func:`small_width_weight_refusal` accepts.

    ``forward`` is the convolution, with the output gradient for its second operand.
    """
    images, groups, outputs = forward.leads
    axes = three(forward)
    _, high, wide = axes
    accumulate, lanes = vectors(forward, info)
    x, g = _weight_sides(forward)
    # Vectors run along channels of one operand; the smaller one is cheaper to copy.
    panel = min((s for s in (x, g) if s.fits(lanes)), key=lambda s: s.places * s.channels)
    of_input, single = panel is x, g if panel is x else x
    p = narrow_weights(single.channels, panel.channels, wide.terms, lanes, info)
    span = p.vectors * lanes
    panels = -(-panel.channels // span)
    batch = images.size * groups.size
    memory = steps.memory(batch * panels * span * panel.places * accumulate.itemsize)
    side = Operand(
        (panel.steps.outer, panel.steps.middle), panel.steps.inner, 1, panel.view.offset,
        panel.view.dtype,
    )  # fmt: skip
    gather = pack_operand(
        panel.channels, panel.places, (images.size, groups.size), side, span, lanes, 1, accumulate,
        Input(panel.number), memory,
    )  # fmt: skip
    steps.launches.append(replace(gather, label="conv pack", prepares=False))
    flops = 2 * prod(a.count * a.terms for a in axes) * batch * outputs.size * x.channels
    block = p.block(flops // max(panels * groups.size, 1), single.channels, info)
    inner = high.terms * wide.terms
    outer = x.channels * inner
    rows, columns = (outer, inner) if of_input else (inner, outer)
    steps.add(
        small_width_weights,
        Grid((panels, greatest(1, single.channels // block), groups.size)),
        Effort(
            f"conv small width weights {p.rows}x{wide.terms}x{span}",
            flops,
            (x.view.size + g.view.size) * forward.a.dtype.itemsize,
        ),
        panel_memory=Bound(memory, accumulate),
        s=operand(single.number, single.view),
        c=Bound(Output(), forward.a.dtype),
        images=images.size,
        groups=groups.size,
        panels=panels,
        rows_total=single.channels,
        columns_total=panel.channels,
        block_rows=block,
        panel_size=panel.places * span,
        s_steps=single.steps,
        c_steps=Strides(outputs.size * outer, rows, columns),
        down=_slide(high),
        along=Row(_slide(wide), 1),
        of_input=of_input,
        rows=p.rows,
        vectors=p.vectors,
        lanes=lanes,
        accumulate=accumulate,
    )


def _is_narrow(axes: Sequence[Axis[int]], lanes: int) -> bool:
    """Return whether images have dense pixels, and rows of few pixels."""
    wide = axes[2]
    few = wide.count <= lanes and wide.size <= lanes and 1 < wide.terms <= _TAPS
    return is_flat(axes) and few and lanes >= 4 and not lanes & (lanes - 1)


def _slide(axis: Axis[int]) -> Slide[int]:
    return Slide(axis.count, axis.terms, axis.result, axis.summed, axis.start, axis.size)
