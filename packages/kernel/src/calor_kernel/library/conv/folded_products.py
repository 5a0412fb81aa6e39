"""Convolutions as a product of the filters and all pixels, whose sums are folded to results.

Requirements: an input gradient is a product of the filters and the output gradient, which has the
sums of every tap, and a sum of what windows give to each pixel. It reads each operand once, in
place, and multiplies no padding. A convolution without stride is the input gradient of one with the
taps in reverse order: so its few filters, which fill a small part of a tile, become as many rows as
they have taps. What lies between is in float32 and long, so some images are computed at a time,
whose sums stay in the last cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from calor.dtypes import bfloat16, float16, float32
from calor.specs import Spec
from calor_kernel.contract.choices import greatest, hinted, is_size, spec_of
from calor_kernel.contract.launching import Bound
from calor_kernel.contract.work import (
    Argument,
    Input,
    Output,
    Request,
    Scratch,
    View,
    Work,
    row_major,
)
from calor_kernel.library.conv.each_group import multiplied
from calor_kernel.library.conv.fold_windows import PatchSteps, add_fold, folds
from calor_kernel.library.conv.problem import Axis, Convolution, Correlation, accumulator
from calor_kernel.library.conv.winograd_plan import bound_of
from calor_kernel.library.gemm.epilogue import Tail
from calor_kernel.library.steps import Steps

COLUMNS = 256
"""Windows of an image that fill the columns of a product."""
# Of convolutions without stride: least taps and most, which are unrolled; least channels; filters
# up to which tiles of FMA, and of matrix instructions, are nearly empty; filters of a whole part of
# a tile; channels for each of more filters, whose tiles take about as long as the sums of a filter
# take to be written and read; and the least operations, which take longer than another launch.
_TAPS, _MOST, _CHANNELS, _FEW = 4, 128, 32, {False: 4, True: 8}
_ROWS, _EACH, _FLOPS = 16, 6, 4 * 10**7
# Bytes between the launches that stay in the last cache, and bytes of which less memory is not
# worth further launches.
_NEAR, _LITTLE = 48 << 20, 8 << 20


def gathers(axis: Axis[int]) -> bool:
    """Return whether each output of an axis has one tap of one window."""
    whole = axis.size * axis.terms == axis.count
    return bool(axis.start == 0 and axis.divide == axis.terms and whole)


def folded_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a convolution without stride is not folded, None if it is."""
    p = one.problem
    if p.by_weight or len(p.axes) > 3 or one.info.max_units == 1:
        return "it is a weight gradient, or has more than three axes, or cubes have one unit"
    if p.a.dtype not in (float16, bfloat16, float32) or p.leads[1].size != 1:
        return "it has groups, or no product sums its dtype in float32"
    if any(axis.divide != 1 or axis.result != 1 for axis in p.axes):
        return "it has a stride"
    taps = prod(axis.terms for axis in p.axes)
    if not _TAPS <= taps <= _MOST:
        return f"its windows have fewer than {_TAPS} taps, or more than {_MOST}"
    if not all(map(folds, backward(p).axes)):
        return "its windows are dilated, or have more padding than taps"
    if not nearly_empty(one, hinted(p.leads[2].size), hinted(p.depth.size)):
        return "its filters fill a tile, or it has few channels"
    if 2 * hinted(p.size) * hinted(p.terms) < _FLOPS:
        return "it has few operations"
    # Images whose number is not known are computed at once.
    images = p.leads[0].size if is_size(p.leads[0].size) else 1
    if _between(p, images) > bound_of(one.info, request.room, _between(p, 1)):
        return "the sums of an image, or of all, exceed the memory for them"
    return None


def nearly_empty(one: Convolution, filters: int, channels: int) -> bool:
    """Return whether tiles whose rows are so few filters are nearly empty, for many channels."""
    by_matrix = multiplied(one)
    # Rows of matrix instructions that are mostly empty take long for each channel.
    empty = by_matrix and filters < _ROWS and channels >= _EACH * filters
    return channels >= _CHANNELS and (filters <= _FEW[by_matrix] or empty)


def folded_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a convolution that :func:`folded_refusal` accepts."""
    steps = Steps()
    add_folded(one, request, steps)
    return [steps.work()]


def backward(p: Correlation) -> Correlation:
    """Return a convolution without stride as an input gradient, whose taps are in reverse order."""
    start, axes = p.b.offset, []
    for axis in p.axes:
        if axis.divide == 1 and axis.result == 1 and axis.summed == 1:
            far = axis.terms - 1
            start += far * axis.b
            axis = replace(axis, summed=-1, start=axis.start + far, b=-axis.b)
        axes.append(axis)
    if tuple(axes) == p.axes:
        return p
    return replace(p, axes=tuple(axes), b=replace(p.b, offset=start))


def _between(p: Correlation, images: int) -> int:
    """Return the bytes between the product and its folds for some images."""
    rows = p.leads[1].size * p.leads[2].size * prod(axis.terms for axis in p.axes)
    sums = images * rows * prod(axis.size for axis in p.axes)
    nbytes: int = sums * accumulator(p.a.dtype).itemsize
    return nbytes


def _chunks(one: Convolution, request: Request) -> Iterator[tuple[int, int]]:
    """Yield the first image of each chunk, and the number of its images."""
    p, images = one.problem, one.problem.leads[0].size
    each = _between(p, 1)
    near = min(_NEAR, max(bound_of(one.info, request.room, each), _LITTLE))
    sized = any(map(is_size, (images, each)))
    if one.info.max_units == 1 or sized or images * each <= near:
        yield 0, images
        return
    most = max(near // max(each, 1), 1)
    some = -(-images // -(-images // most))
    for first in range(0, images, some):
        yield first, min(some, images - first)


def add_folded(one: Convolution, request: Request, steps: Steps) -> None:
    """Add the product of the filters and each pixel's channels, and what sums its windows.

    The problem is an input gradient, or a convolution without stride.
    """
    p = backward(one.problem)
    images, groups, channels = p.leads
    taps = [axis.terms for axis in p.axes]
    sizes = (groups.size, p.depth.size, channels.size, *taps)
    strides = (groups.b, p.depth.b, channels.b, *(axis.b for axis in p.axes))
    weights: tuple[View, Argument] = View(sizes, strides, p.b.dtype, p.b.offset), Input(1)
    whole = all(map(gathers, p.axes))
    if whole or hinted(prod(axis.size for axis in p.axes)) < COLUMNS:
        _add_chunk(p, request, steps, weights, (0, images.size), None, one.tail)
        return
    chunks, lines = list(_chunks(one, request)), steps.memory(0)
    if len(chunks) > 1 or p is not one.problem:
        weights = _dense(weights, steps, request)
    for first, some in chunks:
        a = replace(p.a, offset=p.a.offset + first * images.a)
        part = replace(p, leads=(replace(images, size=some), groups, channels), a=a)
        _add_chunk(part, request, steps, weights, (first, some), lines, one.tail)


def _dense(weights: tuple[View, Argument], steps: Steps, request: Request) -> tuple[View, Argument]:
    """Return a copy of weights whose channels are adjacent, made once for all chunks."""
    view, place = weights
    order = (0, 2, *range(3, len(view.shape)), 1)
    shape, moves = (tuple(n[i] for i in order) for n in (view.shape, view.strides))
    target = steps.memory(prod(shape) * view.dtype.itemsize)
    before = len(steps.launches)
    steps.copy(View(shape, moves, view.dtype, view.offset), place, target, request.info)
    made = [replace(launch, prepares=True) for launch in steps.launches[before:]]
    steps.launches[before:] = made
    group, channel, *inner, _ = row_major(shape)
    return View(view.shape, (group, 1, channel, *inner), view.dtype), target


def _add_chunk(
    p: Correlation,
    request: Request,
    steps: Steps,
    weights: tuple[View, Argument],
    chunk: tuple[int, int],
    lines: Scratch | None,
    tail: Tail | None,
) -> None:
    """Add the product and the fold of some images; ``lines``: memory between them, extended.

    ``weights``: groups, channels of the operand, of the result, and taps. ``chunk``: the first
    image and their number.
    """
    (images, groups, channels), dtype = p.leads, p.a.dtype
    counts, taps = [axis.size for axis in p.axes], [axis.terms for axis in p.axes]
    whole = all(map(gathers, p.axes))
    # Images with few windows are columns of one product.
    joined = lines is None and not whole
    view, place = weights
    given = (images.size, groups.size, p.depth.size, *counts)
    moves = (images.a, groups.a, p.depth.a, *(axis.a for axis in p.axes))
    windows, lead = prod(counts), groups.size * channels.size * prod(taps) * prod(counts)
    if joined:
        order = (1, 2, 0, *range(3, len(given)))
        given, moves = (tuple(n[i] for i in order) for n in (given, moves))
        shape = (groups.size, channels.size, *taps, images.size, *counts)
        batch: tuple[int, ...] = (0,)
        contract = (1,), (1,)
        of = PatchSteps(windows, prod(taps) * images.size * windows, images.size * windows)
    else:
        view = replace(view, shape=(images.size, *view.shape), strides=(0, *view.strides))
        shape = (images.size, groups.size, channels.size, *taps, *counts)
        batch, contract = (0, 1), ((2,), (2,))
        of = PatchSteps(lead, prod(taps) * windows, windows)
    # Sums of terms are rounded once.
    made = spec_of(shape, dtype if whole else accumulator(dtype))
    nbytes = prod(shape) * made.dtype.itemsize
    if lines is None:
        lines = steps.memory(nbytes)
    steps.scratch[lines.number] = greatest(steps.scratch[lines.number], nbytes)
    pairs = [(view, place), (View(given, moves, dtype, p.a.offset), Input(0))]
    add_product(request, steps, contract, pairs, made, lines, batch)
    if not whole:
        between, target = Bound(lines, made.dtype), Bound(Output(0), dtype)
        add_fold(p, between, of, target, steps, request.info, chunk[0], tail)
        return
    # Each pixel of a result's axis is a window and a tap.
    moved = [3 + i + far for i in range(len(taps)) for far in (len(taps), 0)]
    patches = View(shape, row_major(shape), dtype)
    to = (0, 1, 2, *moved)
    sizes, steps_of = (tuple(n[i] for i in to) for n in (patches.shape, patches.strides))
    steps.copy(View(sizes, steps_of, dtype), lines, Output(0), request.info)


def add_product(
    request: Request,
    steps: Steps,
    contract: tuple[tuple[int, ...], tuple[int, ...]],
    operands: Sequence[tuple[View, Argument]],
    result: Spec,
    target: Argument,
    batch: tuple[int, ...] = (0,),
) -> None:
    """Add the product of each image, whose first operand comes from the second of the request."""
    precision = request.attributes.get("precision", "highest")
    attributes = {"contract": contract, "batch": (batch, batch), "dtype": result.dtype}
    kept = frozenset(1 - number for number in request.kept)
    steps.include(
        replace(request, candidates=False, kept=kept),
        "dot_general",
        {**attributes, "precision": precision},
        operands,
        [(result, target)],
    )
