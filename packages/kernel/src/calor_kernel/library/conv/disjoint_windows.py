"""Convolutions whose windows do not overlap, as products of patches.

Requirements: a window as wide as its stride reads each input once, so im2col only reorders the
image: a convolution is one copy and one product, and an input gradient one product and one copy.
Patch embeddings have thousands of taps and stride phases, which every other way would walk through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from calor.specs import Spec
from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.work import Argument, Input, Output, Request, View, Work, row_major
from calor_kernel.library.conv.problem import Axis, Convolution, Correlation
from calor_kernel.library.steps import Steps

# Channels and stride phases from which other ways are faster, and up to which they are. Least taps.
_CHANNELS, _PHASES, _TAPS = 16, 4, 4


def patches_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a convolution is no product of patches, None if it is one."""
    p = one.problem
    if p.by_weight or p.leads[1].size != 1:
        return "it is a weight gradient, or has groups"
    backward = any(axis.divide > 1 or axis.summed < 0 for axis in p.axes)
    if not all((_gathers if backward else _splits)(axis) for axis in p.axes):
        return "its windows overlap, or do not cover the image"
    if prod(axis.terms for axis in p.axes) < _TAPS:
        return "its windows are small"
    if backward:
        few = prod(axis.divide for axis in p.axes) <= _PHASES
        return f"it has at most {_PHASES} stride phases" if few else None
    return None if p.depth.size < _CHANNELS else f"it has {_CHANNELS} channels or more"


def _splits(axis: Axis[int]) -> bool:
    """Return whether the windows of an axis divide it."""
    alone = axis.summed == 1 or axis.terms == 1
    whole = axis.count * axis.terms == axis.size
    return bool(alone and axis.start == 0 and axis.result == axis.terms and whole)


def _gathers(axis: Axis[int]) -> bool:
    """Return whether each output of an axis has one tap of one window."""
    alone = axis.summed == -1 or axis.terms == 1
    whole = axis.size * axis.terms == axis.count
    return bool(alone and axis.start == 0 and axis.divide == axis.terms and whole)


def patches_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a convolution that :func:`patches_refusal` accepts."""
    p, steps = one.problem, Steps()
    if any(axis.divide > 1 for axis in p.axes):
        _backward(p, request, steps)
    else:
        _forward(p, request, steps)
    return [steps.work()]


def _forward(p: Correlation, request: Request, steps: Steps) -> None:
    """Add the copy to lines of patches, and their product with the filters."""
    (images, _, filters), dtype = p.leads, p.a.dtype
    counts, taps = [axis.count for axis in p.axes], [axis.terms for axis in p.axes]
    shape = (images.size, *counts, p.depth.size, *taps)
    strides = (images.a, *(a.a * a.terms for a in p.axes), p.depth.a, *(a.a for a in p.axes))
    lines = steps.memory(prod(shape) * dtype.itemsize)
    steps.copy(View(shape, strides, dtype, p.a.offset), Input(0), lines, request.info)
    weights = _weights(p, (images.size, filters.size, p.depth.size, *taps))
    patches = View(shape, row_major(shape), dtype)
    first = 1 + len(counts)
    summed = tuple(range(2, 3 + len(taps))), tuple(range(first, first + 1 + len(taps)))
    result = spec_of((images.size, filters.size, *counts), dtype)
    _product(request, steps, summed, [(weights, Input(1)), (patches, lines)], result, Output(0))


def _backward(p: Correlation, request: Request, steps: Steps) -> None:
    """Add the product of the filters and the output gradient, and the copy of its patches."""
    (images, _, channels), dtype = p.leads, p.a.dtype
    counts, taps = [axis.size for axis in p.axes], [axis.terms for axis in p.axes]
    weights = _weights(p, (images.size, p.depth.size, channels.size, *taps))
    strides = (images.a, p.depth.a, *(axis.a for axis in p.axes))
    given = View((images.size, p.depth.size, *counts), strides, dtype, p.a.offset)
    shape = (images.size, channels.size, *taps, *counts)
    lines = steps.memory(prod(shape) * dtype.itemsize)
    pairs = [(weights, Input(1)), (given, Input(0))]
    _product(request, steps, ((1,), (1,)), pairs, spec_of(shape, dtype), lines)
    # Each pixel of a result's axis is a window and a tap.
    of = [2 + i + far for i in range(len(taps)) for far in (len(taps), 0)]
    patches = View(shape, row_major(shape), dtype)
    order = (0, 1, *of)
    sizes, steps_of = (tuple(n[i] for i in order) for n in (patches.shape, patches.strides))
    steps.copy(View(sizes, steps_of, dtype), lines, Output(0), request.info)


def _weights(p: Correlation, shape: tuple[int, ...]) -> View:
    """Return the filters for each image: outputs of the convolution, its channels, and taps."""
    backward = any(axis.divide > 1 for axis in p.axes)
    rows, channels = (p.depth.b, p.leads[2].b) if backward else (p.leads[2].b, p.depth.b)
    return View(shape, (0, rows, channels, *(axis.b for axis in p.axes)), p.b.dtype, p.b.offset)


def _product(
    request: Request,
    steps: Steps,
    contract: tuple[tuple[int, ...], tuple[int, ...]],
    operands: Sequence[tuple[View, Argument]],
    result: Spec,
    target: Argument,
) -> None:
    """Add the product of each image."""
    precision = request.attributes.get("precision", "highest")
    attributes = {"contract": contract, "batch": ((0,), (0,)), "dtype": result.dtype}
    steps.include(
        replace(request, candidates=False),
        "dot_general",
        {**attributes, "precision": precision},
        operands,
        [(result, target)],
    )
