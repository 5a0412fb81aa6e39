"""Convolutions whose windows overlap little or not at all, as products of patches.

Requirements: a window as wide as its stride reads each input once, so im2col only reorders the
image: a convolution is one copy and one product, and an input gradient one product and one copy.
Patch embeddings have thousands of taps and stride phases, which every other way would walk through.
An image need not be a whole number of windows: what none covers is not copied, and its gradient is
zero. The terms of windows that overlap are summed by the launch that folds them.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from calor.dtypes import bfloat16, float16, float32
from calor_kernel.contract.choices import hinted, spec_of
from calor_kernel.contract.work import Input, Output, Request, View, Work, row_major
from calor_kernel.library.conv.direct_blocks_launch import blocks_refusal
from calor_kernel.library.conv.each_group import multiplied
from calor_kernel.library.conv.fold_windows import folds
from calor_kernel.library.conv.folded_products import COLUMNS, add_folded, add_product, gathers
from calor_kernel.library.conv.problem import Axis, Convolution, Correlation
from calor_kernel.library.steps import Steps

# Channels from which other ways of a convolution are faster, and least taps.
_CHANNELS, _TAPS = 16, 4
# Of an input gradient: stride phases up to which other ways are faster, unless it has fewer
# channels than they have rows; and the windows that see a pixel at most, on average.
_PHASES, _ROWS, _WINDOWS = 4, 16, 4
# Channels from which a product of few channels is faster than blocks, and one of many by matrix
# instructions than the few tiles of its phases; the elements of all patches up to which it is, and
# the windows that see a pixel from which on. Pixels of a window from which most taps read padding.
_DEPTH, _PATCHES, _SEEN, _SPARSE = 32, 1 << 22, 3, 4
# Windows for each channel up to which sums are folded sooner than weights are reordered.
_REORDERED = 4
# Elements of a row of a window from which cubes of one unit copy patches.
_ROW = 8
# Filters of a group up to which small windows are computed in blocks.
_GROUP = 8


def patches_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a convolution is no product of patches, None if it is one."""
    p = one.problem
    if p.by_weight or len(p.axes) > 3:
        return "it is a weight gradient, or has more than three spatial axes"
    if any(axis.divide > 1 or axis.summed < 0 for axis in p.axes):
        return _backward_refusal(one, request)
    if p.leads[1].size != 1:
        return "it has groups"
    if not all(map(_splits, p.axes)):
        return "its windows overlap, or reach beyond the image"
    if prod(axis.terms for axis in p.axes) < _TAPS:
        return "its windows are small"
    return None if p.depth.size < _CHANNELS else f"it has {_CHANNELS} channels or more"


def _backward_refusal(one: Convolution, request: Request) -> str | None:
    """Return why an input gradient is not folded, None if it is."""
    p = one.problem
    if not all(map(folds, p.axes)):
        return "its windows have gaps, or begin inside the image"
    phases, taps = prod(axis.divide for axis in p.axes), prod(axis.terms for axis in p.axes)
    if taps < _TAPS:
        return "its windows are small"
    if p.a.dtype.kind != "float" and not all(map(gathers, p.axes)):
        return "its windows overlap, and are not of floating point"
    few = hinted(p.leads[2].size) < _ROWS and p.leads[1].size == 1
    if _deep(one):
        return None
    # A block of a volume reads each of many channels for all its taps.
    if few and len(p.axes) > 2 and multiplied(one) and hinted(p.depth.size) >= _DEPTH:
        return None
    if few and len(p.axes) > 2 and taps > phases and one.info.max_units > 1:
        planes = replace(p, axes=p.axes[1:])
        if blocks_refusal(replace(one, problem=planes, seen=planes), request) is None:
            return "few channels are computed in blocks, of volumes or of their planes"
    small = p.leads[1].size > 1 and hinted(p.depth.size) <= _GROUP
    if (small or (few and taps > phases)) and blocks_refusal(one, request) is None:
        return "few channels are computed in blocks"
    if few or (phases > _PHASES and hinted(taps) <= _WINDOWS * phases):
        return None
    return f"it has at most {_PHASES} stride phases, or too many windows see a pixel"


def _deep(one: Convolution) -> bool:
    """Return whether the product of an input gradient is faster than other ways.

    A product has the sums of all taps, reads what a window gives to them once, and multiplies no
    padding.
    """
    p = one.problem
    if p.leads[1].size != 1 or hinted(p.depth.size) < _DEPTH or one.info.max_units == 1:
        return False
    phases, taps = prod(axis.divide for axis in p.axes), prod(axis.terms for axis in p.axes)
    windows = prod(hinted(axis.size) for axis in p.axes)
    # Few windows of many pixels, of which each tap of most pixels would read padding.
    sparse = prod(hinted(axis.count) for axis in p.axes) >= _SPARSE * phases * windows
    if taps <= phases or (phases == 1 and not sparse):
        return False
    if hinted(p.leads[2].size) < _ROWS:
        return True
    windows *= hinted(p.leads[0].size)
    if not sparse and (windows < COLUMNS or taps < _SEEN * phases):
        return False
    rounded = one.rounded or p.a.dtype in (float16, bfloat16)
    patches = hinted(p.leads[2].size) * taps * windows
    return bool(patches <= _PATCHES and (sparse or (rounded and one.info.has("matrix"))))


def alone_refusal(one: Convolution, request: Request) -> str | None:
    """Return why an input gradient is not folded by cubes of one unit, None if it is."""
    p = one.problem
    if len(p.axes) > 3 or not all(map(folds, p.axes)):
        return "its windows have gaps, begin inside the image, or have more than three axes"
    if p.a.dtype.kind != "float":
        return "it is not of floating point"
    if any(axis.terms > axis.divide for axis in p.axes):
        return _overlapping_refusal(one, request)
    few = prod(axis.divide for axis in p.axes) <= _PHASES
    return f"it has at most {_PHASES} stride phases" if few else None


def _overlapping_refusal(one: Convolution, request: Request) -> str | None:
    """Return why overlapping windows are not folded by cubes of one unit, None if they are.

    Other ways reorder the weights of each phase, and a fold reads the sums of each tap: what is
    folded has fewer windows than weights have rows that are read from far apart.
    """
    p = one.problem
    if 1 in request.kept:
        return "its weights are reordered once"
    if all(axis.divide == 1 for axis in p.axes):
        return "its windows overlap, and it has no stride"
    windows = p.leads[0].size * prod(axis.size for axis in p.axes)
    if windows > _REORDERED * p.depth.size:
        return f"it has more than {_REORDERED} windows for each channel"
    return None


def row_patches_refusal(one: Convolution, request: Request) -> str | None:
    """Return why cubes of one unit compute no product of patches, None if they do.

    The copy moves rows of a window, of which each is at least half a vector; windows with shorter
    rows are faster in place.
    """
    p = one.problem
    if p.a.dtype is not float32:
        return "its dtype is not float32"
    if len(p.axes) > 3 or p.leads[1].size != 1 or not all(map(_splits, p.axes)):
        return "it has groups, or its windows overlap, or reach beyond the image"
    if p.axes[-1].terms < _ROW or p.axes[-1].a != 1:
        return f"rows of its windows have fewer than {_ROW} elements next to each other"
    return None


def _splits(axis: Axis[int]) -> bool:
    """Return whether the windows of an axis are parts of it, without padding."""
    alone = axis.summed == 1 or axis.terms == 1
    inside = (axis.count - 1) * axis.result + axis.terms <= axis.size
    return bool(alone and axis.start == 0 and axis.result >= axis.terms and inside)


def patches_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a convolution that :func:`patches_refusal` accepts."""
    p, steps = one.problem, Steps()
    if any(axis.divide > 1 or axis.summed < 0 for axis in p.axes):
        add_folded(one, request, steps)
    else:
        _forward(p, request, steps)
    return [steps.work()]


def _forward(p: Correlation, request: Request, steps: Steps) -> None:
    """Add the copy to lines of patches, and their product with the filters."""
    (images, _, filters), dtype = p.leads, p.a.dtype
    counts, taps = [axis.count for axis in p.axes], [axis.terms for axis in p.axes]
    shape = (images.size, *counts, p.depth.size, *taps)
    strides = (images.a, *(a.a * a.result for a in p.axes), p.depth.a, *(a.a for a in p.axes))
    lines = steps.memory(prod(shape) * dtype.itemsize)
    steps.copy(View(shape, strides, dtype, p.a.offset), Input(0), lines, request.info)
    weights = _weights(p, (images.size, filters.size, p.depth.size, *taps))
    patches = View(shape, row_major(shape), dtype)
    first = 1 + len(counts)
    summed = tuple(range(2, 3 + len(taps))), tuple(range(first, first + 1 + len(taps)))
    result = spec_of((images.size, filters.size, *counts), dtype)
    add_product(request, steps, summed, [(weights, Input(1)), (patches, lines)], result, Output(0))


def _weights(p: Correlation, shape: tuple[int, ...]) -> View:
    """Return the filters for each image: outputs of the convolution, its channels, and taps."""
    strides = (0, p.leads[2].b, p.depth.b, *(axis.b for axis in p.axes))
    return View(shape, strides, p.b.dtype, p.b.offset)
