"""Depthwise convolutions of narrow images, which are copied to channels last and back.

Requirements: the last images of a network have seven pixels a row, of which vectors along rows are
half empty, and each tap of a large window reads a vector of its own. Vectors along channels are
full, and leave out the taps that see padding. The copies cost a few passes over small images.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from calor_kernel.contract.choices import hinted, is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Input, Output, View, row_major
from calor_kernel.library.conv.depthwise_pixels import (
    depthwise_pixels_refusal,
    depthwise_pixels_steps,
)
from calor_kernel.library.conv.padded_rows import three, vectors
from calor_kernel.library.conv.problem import Correlation
from calor_kernel.library.steps import Steps

# Products for each copied element from which the copies cost less than the vectors that are half
# empty: of a dtype that is as wide as its sums, and of one that is converted at each tap.
_PRODUCTS, _CONVERTED = 32, 8


def along_channels_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why a depthwise convolution is not computed along channels, None if it may be."""
    if problem.by_weight or len(problem.axes) != 2:
        return "it is a weight gradient, or has no two spatial axes"
    accumulate, lanes = vectors(problem, info)
    high, wide = problem.axes
    if any(map(is_size, (wide.count, wide.size))):
        return "a kernel is built for rows of one size"
    if 2 * wide.count > lanes:
        return f"its rows fill half of a vector of {lanes} pixels"
    least = _PRODUCTS if problem.a.dtype is accumulate else _CONVERTED
    seen, made = (prod(sizes) for sizes in ((high.size, wide.size), (high.count, wide.count)))
    if hinted(high.terms * wide.terms * made) < least * hinted(seen + made):
        return f"a copied element is part of fewer than {least} products"
    return depthwise_pixels_refusal(_last(problem), info)


def along_channels_steps(problem: Correlation, steps: Steps, info: DeviceInfo) -> None:
    """Add the launches of a convolution that :func:`along_channels_refusal` accepts."""
    images, groups, _ = problem.leads
    high, wide = problem.axes
    dtype, moved = problem.a.dtype, _last(problem)
    shape = (images.size, high.size, wide.size, groups.size)
    strides = (images.a, high.a, wide.a, groups.a)
    source = steps.room(prod(shape), dtype)
    steps.copy(View(shape, strides, dtype, problem.a.offset), Input(0), source.place, info)
    result = steps.room(problem.size, dtype)
    depthwise_pixels_steps(moved, steps, info, None, source, result)
    made = (images.size, high.count, wide.count, groups.size)
    image, row, pixel, channel = row_major(made)
    order = (images.size, groups.size, high.count, wide.count)
    steps.copy(View(order, (image, channel, row, pixel), dtype), result.place, Output(0), info)


def _last(problem: Correlation) -> Correlation:
    """Return the problem of dense images with channels last."""
    images, groups, outputs = problem.leads
    high, wide = three(problem)[1:]
    image, row, pixel, channel = row_major((images.size, high.size, wide.size, groups.size))
    leads = (replace(images, a=image), replace(groups, a=channel), outputs)
    axes = replace(high, a=row), replace(wide, a=pixel)
    return replace(problem, leads=leads, axes=axes)
