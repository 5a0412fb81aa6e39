"""Convolutions of volumes as convolutions of planes, whose channels are those of several planes.

Requirements: ways with matrix instructions have two spatial axes. The planes that a window sees
along the first axis become channels by one copy, which takes care of stride, dilation and padding
along that axis; sums stay in one product and are rounded once. The copy holds each plane once for
each tap along the first axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from calor.dtypes import bfloat16, float16, float32
from calor_kernel import language as kl
from calor_kernel.contract.choices import hinted, spec_of
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.work import Argument, Input, Output, Request, View, Work, row_major
from calor_kernel.library.conv.channels_last import last_launch
from calor_kernel.library.conv.implicit_gemm_operands import ACCESS
from calor_kernel.library.conv.problem import TF32, Axis, Convolution, Lead
from calor_kernel.library.conv.volume_axis import Planes
from calor_kernel.library.steps import Steps

_UNITS = 256
# Minimum of operations, which take longer one by one than the copies.
_FLOPS = 3 * 10**7
# Filters and terms from which the convolution of planes by matrix instructions has tiles.
_FILTERS, _TERMS = 9, 49


@kl.kernel
def unfold_planes(
    x: kl.In,
    y: kl.Out,
    count: kl.Size,
    sizes: tuple[kl.FastDivmod, ...],
    image: kl.Stride,
    channel: kl.Stride,
    plane: kl.Stride,
    row: kl.Stride,
    column: kl.Stride,
    depth: kl.Size,
    step: kl.Stride,
    move: kl.Stride,
    start: kl.Stride,
    *,
    divide: int,
) -> None:
    """Copy the planes that windows see along the first axis: (image, window, channel, tap, plane).

    ``sizes``: windows, channels, taps, and rows and columns of a plane. Tap j of window i reads
    plane ``(step * i + move * j + start) / divide`` of ``depth``; those that are none are zeros.
    """
    index = kl.absolute_position()
    if index < count:
        n, i, c, j, h, w = kl.unravel(index, (0, *sizes))
        place = i * step + j * move + start
        there = place >= 0
        if divide > 1:
            whole = kl.quotient(place, divide)
            there = there & (whole * divide == place)
            place = whole
        there = there & (place < depth)
        at = n * image + c * channel + place * plane + h * row + w * column
        y[index] = x.load(at, mask=there)


def volumes_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a convolution is not computed plane by plane, None if it is."""
    p = one.problem
    if len(p.axes) != 3:
        return "it has no three spatial axes"
    if p.a.dtype.kind != "float" or p.a.dtype.itemsize > 4:
        return f"no way of planes is faster for {p.a.dtype}"
    divides = prod(axis.divide for axis in p.axes)
    few = 2 * hinted(p.size) * hinted(p.terms) // divides < _FLOPS
    return "it has few operations" if few else None


def volumes_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a convolution that :func:`volumes_refusal` accepts."""
    p, steps = one.problem, Steps()
    given: Mapping[str, Any] = {
        **request.attributes,
        **{name: request.attributes[name][1:] for name in ("stride", "padding", "dilation")},
    }
    (result,), dtype = request.outputs, p.a.dtype
    first, *inner = p.axes
    if p.by_weight:
        images, channels, windows, taps = p.depth, p.leads[2], first.terms, first.count
        moves = first.summed, first.result
    else:
        images, channels, windows, taps = p.leads[0], p.depth, first.count, first.terms
        moves = first.result, first.summed
    # The channels of a group, with their taps, are those of the same group.
    groups, each = p.leads[p.roles[0]], channels.size
    channels = replace(channels, size=groups.size * each)
    planes = tuple(axis.size for axis in inner)
    shape = (images.size * windows, channels.size * taps, *planes)
    alone = taps == 1 and first.divide == 1 and moves[0] == 1 and first.start == 0
    if alone and images.size == 1 and windows == first.size:
        seen: tuple[View, Argument] = _planes(request.inputs[0]), Input(0)
    elif _packs(one, shape[1]):
        # Numbers are rounded once, by the copy.
        given = {**given, TF32: dtype is float32}
        axis = Planes(windows, *moves, first.start, first.size, first.a, 0)
        seen = _last(one, 0, shape, (images.a, channels.a), (axis, taps), steps)
    else:
        lines = steps.memory(prod(shape) * dtype.itemsize)
        _unfold(one, (images, channels), (windows, taps), moves, lines, steps)
        seen = View(shape, row_major(shape), dtype), lines
    if p.by_weight:
        g = request.inputs[1]
        flat = (g.shape[0] * g.shape[2], g.shape[1], *g.shape[3:])
        if g.shape[0] == 1:
            slopes: tuple[View, Argument] = _planes(g), Input(1)
        elif _packs(one, g.shape[1]):
            axis = Planes(g.shape[2], 1, 0, 0, g.shape[2], g.strides[2], 0)
            slopes = _last(one, 1, flat, g.strides[:2], (axis, 1), steps)
        else:
            order = (0, 2, 1, 3, 4)
            copied = steps.memory(g.size * dtype.itemsize)
            sizes, strides = (tuple(of[i] for i in order) for of in (g.shape, g.strides))
            steps.copy(View(sizes, strides, dtype, g.offset), Input(1), copied, request.info)
            slopes = View(flat, row_major(flat), dtype), copied
        weights = (result.shape[0], result.shape[1] * taps, *result.shape[3:])
        given = {**given, "weight_shape": weights}
        _include(request, given, steps, [seen, slopes], weights, Output(0))
        return [steps.work()]
    w = request.inputs[1]
    rows = groups.size * p.leads[2].size
    # Channels and taps of the first axis together, as the copy has them.
    backward = request.op == "conv_input_gradient"
    order = (0, 2, 1, 3, 4) if backward else (0, 1, 2, 3, 4)
    laid = View(
        tuple(w.shape[i] for i in order), tuple(w.strides[i] for i in order), dtype, w.offset
    )
    kernel = w.shape[3:]
    sides = (shape[1], p.leads[2].size) if backward else (rows, each * taps)
    flat = (*sides, *kernel)
    weight: tuple[View, Argument] = View(flat, row_major(flat), dtype, laid.offset), Input(1)
    if not laid.is_dense:
        copied = steps.memory(w.size * dtype.itemsize)
        steps.copy(laid, Input(1), copied, request.info)
        weight = View(flat, row_major(flat), dtype), copied
    made = (shape[0], rows, *(axis.count for axis in inner))
    if backward:
        given = {**given, "input_shape": made}
    target = steps.memory(prod(made) * dtype.itemsize)
    _include(request, given, steps, [seen, weight], made, target)
    whole = row_major(made)
    view = View(result.shape, (windows * whole[0], whole[1], whole[0], *whole[2:]), dtype)
    steps.copy(view, target, Output(0), request.info)
    return [steps.work()]


def _planes(view: View) -> View:
    """Return the planes of the only volume of a view as images."""
    _, channels, *sizes = view.shape
    _, step, *strides = view.strides
    shape = (sizes[0], channels, *sizes[1:])
    return View(shape, (strides[0], step, *strides[1:]), view.dtype, view.offset)


def _packs(one: Convolution, channels: int) -> bool:
    """Return whether planes with channels last are what the convolution of planes reads."""
    p, info = one.problem, one.info
    narrow = p.a.dtype in (float16, bfloat16) or (one.rounded and p.a.dtype is float32)
    if not narrow or not info.has("matrix") or info.max_units < _UNITS:
        return False
    if p.leads[p.roles[0]].size != 1 or any(axis.divide != 1 for axis in p.axes):
        return False
    filters = p.leads[p.roles[1]].size
    return bool(
        channels % (ACCESS // p.a.dtype.itemsize) == 0
        and hinted(filters) >= _FILTERS
        and (p.by_weight or hinted(p.terms) > _TERMS)
    )


def _last(
    one: Convolution,
    number: int,
    shape: tuple[int, ...],
    strides: Sequence[int],
    planes: tuple[Planes[int, int], int],
    steps: Steps,
) -> tuple[View, Argument]:
    """Copy the planes that windows see with channels last; ``shape``: images, channels, pixels.

    ``strides``: of volumes and of channels.
    """
    view = (one.problem.a, one.problem.b)[number]
    images, channels, high, wide = shape
    target = steps.memory(prod(shape) * view.dtype.itemsize)
    sizes, inner = (images, channels, (high, wide)), (view.strides[3], view.strides[4])
    place = operand(number, view).place
    steps.launches.append(
        last_launch(
            place, target, view.dtype, sizes, (strides[0], strides[1], inner), channels, 1,
            one.info, rounded=view.dtype is float32, planes=planes,
        )
    )  # fmt: skip
    line = wide * channels
    return View(shape, (high * line, 1, line, channels), view.dtype), target


def _include(
    request: Request,
    attributes: Mapping[str, Any],
    steps: Steps,
    operands: list[tuple[View, Argument]],
    shape: tuple[int, ...],
    target: Argument,
) -> None:
    """Add the convolution of planes."""
    result = spec_of(shape, operands[0][0].dtype)
    alone = replace(request, candidates=False, kept=frozenset())
    steps.include(alone, request.op, attributes, operands, [(result, target)])


def _unfold(
    one: Convolution,
    leads: tuple[Lead[int], Lead[int]],
    sizes: tuple[int, int],
    moves: tuple[int, int],
    target: Argument,
    steps: Steps,
) -> None:
    """Add the copy of planes as channels; ``sizes``: windows and taps, ``moves``: their steps."""
    p, (images, channels), (windows, taps) = one.problem, leads, sizes
    axes: tuple[Axis[int], ...] = p.axes
    first, down, across = axes
    count = images.size * windows * channels.size * taps * down.size * across.size
    reach = sum((n - 1) * abs(s) for n, s in zip(p.a.shape, p.a.strides, strict=True))
    units = min(_UNITS, one.info.max_units)
    nbytes = (p.a.size + count) * p.a.dtype.itemsize
    assert not isinstance(target, int | float)
    steps.add(
        unfold_planes,
        Grid.line(
            -(-count // units), units, one.info.planes[0], kl.index_dtype(count + units, reach)
        ),
        Effort("conv unfold planes", 0, nbytes),
        x=operand(0, p.a),
        y=Bound(target, p.a.dtype),
        count=count,
        sizes=(windows, channels.size, taps, down.size, across.size),
        image=images.a,
        channel=channels.a,
        plane=first.a,
        row=down.a,
        column=across.a,
        depth=first.size,
        step=moves[0],
        move=moves[1],
        start=first.start,
        divide=first.divide,
    )
