"""Weight gradients of few filters, with images and output gradients in each other's place.

Requirements: without stride both are summed over the same pairs of pixels, so the gradient is that
of a convolution from the filters to the channels, with the taps in reverse order. A tile's rows
are then the channels, of which there are many, and filters are copied with channels last where
channels would be. The result is moved by one small copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any, Final

from calor.dtypes import bfloat16, float16, float32
from calor_kernel.contract.choices import hinted, spec_of
from calor_kernel.contract.work import Input, Output, Request, View, Work, row_major
from calor_kernel.library.conv.folded_products import nearly_empty
from calor_kernel.library.conv.problem import Axis, Convolution
from calor_kernel.library.steps import Steps

# Minimum of operations, which take longer than another copy.
_FLOPS: Final = 10**8


def mirrored_refusal(one: Convolution, request: Request) -> str | None:
    """Return why images and output gradients do not change places, None if they do."""
    p = one.problem
    if not p.by_weight or p.leads[0].size != 1 or len(p.axes) > 3:
        return "it is no weight gradient of one group, or has more than three axes"
    if p.a.dtype not in (float16, bfloat16, float32):
        return f"no tile sums products of {p.a.dtype}"
    if not all(map(_mirrors, p.axes)):
        return "its windows have a stride, gaps, or more padding than taps"
    filters, channels = (hinted(lead.size) for lead in p.leads[1:])
    if prod(axis.count for axis in p.axes) == 1 or not nearly_empty(one, filters, channels):
        return "it has one tap, or its filters fill a tile"
    return "it has few operations" if 2 * hinted(p.size) * hinted(p.terms) < _FLOPS else None


def _mirrors(axis: Axis[int]) -> bool:
    """Return whether windows along an axis of a weight gradient are those of its mirror."""
    before = 0 <= -axis.start < axis.count
    # The last window ends behind the image by less than its taps.
    behind = axis.terms - 1 + axis.count - 1 + axis.start - (axis.size - 1)
    return bool(axis.result == axis.summed == 1 and before and 0 <= behind < axis.count)


def mirrored_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a weight gradient that :func:`mirrored_refusal` accepts."""
    steps, (images, slopes), (result,) = Steps(), request.inputs, request.outputs
    filters, channels, *taps = result.shape
    shape = (channels, filters, *taps)
    padding = tuple(
        (k - 1 - low, k - 1 - high)
        for k, (low, high) in zip(taps, request.attributes["padding"], strict=True)
    )
    given: Mapping[str, Any] = {**request.attributes, "padding": padding, "weight_shape": shape}
    made = steps.memory(prod(shape) * result.dtype.itemsize)
    steps.include(
        replace(request, candidates=False),
        request.op,
        given,
        [(slopes, Input(1)), (images, Input(0))],
        [(spec_of(shape, result.dtype), made)],
    )
    channel, filter_, *inner = row_major(shape)
    # The last tap is the first one of the mirror.
    last = sum((k - 1) * step for k, step in zip(taps, inner, strict=True))
    strides = (filter_, channel, *(-step for step in inner))
    steps.copy(View(result.shape, strides, result.dtype, last), made, Output(0), request.info)
    return [steps.work()]
