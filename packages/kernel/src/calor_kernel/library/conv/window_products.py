"""Convolutions of few windows in all images, and their gradients, as products of these windows.

Requirements: images of the last stages of a network have few pixels and many channels. Vectors and
tiles of the pixels of one image are mostly empty, while weights are read from memory, or reordered
first. So the windows of all images are the rows of one product, which reads the weights once, as
they lie; the windows, and what they give to pixels, are copied, since they are a small part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from calor.dtypes import float32
from calor_kernel.contract.choices import exceeds, spec_of
from calor_kernel.contract.ways import Way
from calor_kernel.contract.work import (
    Argument,
    Input,
    Output,
    Request,
    View,
    Work,
    row_major,
)
from calor_kernel.library.conv.fold_taps import add_fold
from calor_kernel.library.conv.padded_rows import vectors
from calor_kernel.library.conv.problem import Axis, Convolution, Correlation
from calor_kernel.library.conv.spread_windows import add_windows
from calor_kernel.library.conv.weight_gradient_rows import forward_of
from calor_kernel.library.steps import Steps

# Windows up to which a product reads weights as they lie sooner than other ways: of convolutions
# and input gradients of one tap, and of convolutions where windows are packed, in vectors of
# pixels; of weight gradients of one tap; of gradients of several taps.
_WINDOWS: Final = 128
_VECTORS: Final = 3
_LINES: Final = 256
_TAPPED: Final = 64
# Channels on both sides from which products take longer than the copies.
_CHANNELS: Final = 16
# Gradients of several taps. What a window gives to pixels takes as long to be summed as products of
# so many filters. Tiles of narrow images write weights of fewer filters as fast, unless each weight
# of a tap lies in a line of its own.
_SUMMED: Final = 96
_FILTERS: Final = 192
_LINE: Final = 64


def _refusal(problem: Correlation, windows: int, most: int) -> str | None:
    """Return why products of so many windows do not suit a forward or input gradient problem."""
    if problem.a.dtype is not float32 or problem.b.dtype is not float32:
        return "its dtype is not float32"
    if len(problem.axes) > 3:
        return "it has more than three spatial axes"
    if exceeds(_CHANNELS, problem.depth.size) or exceeds(_CHANNELS, problem.leads[2].size):
        return f"it has fewer than {_CHANNELS} channels on a side"
    return f"it has more than {most} windows" if exceeds(windows, most) else None


def forward_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a convolution is no product of few windows, None if it is one."""
    p = one.problem
    if 1 in request.kept:
        return "its weights are packed once"
    _, lanes = vectors(p, one.info)
    most = _WINDOWS if one.info.has("masked_access") else _VECTORS * lanes
    return _refusal(p, p.leads[0].size * prod(axis.count for axis in p.axes), most)


def forward_works(one: Convolution, request: Request) -> list[Work]:
    """Return the product of the windows and the weights, and the copy to images."""
    p, steps, info = one.problem, Steps(), one.info
    images, groups, outputs = p.leads
    pixels, taps = [axis.count for axis in p.axes], [axis.terms for axis in p.axes]
    windows = _windows(p, steps, one)
    weights = View(
        (groups.size, outputs.size, p.depth.size, *taps),
        (groups.b, outputs.b, p.depth.b, *(axis.b for axis in p.axes)),
        float32,
        p.b.offset,
    )
    made = (groups.size, images.size, *pixels, outputs.size)
    target = steps.room(prod(made), float32)
    first = len(made) - 1
    contract = tuple(range(first, first + 1 + len(taps))), tuple(range(2, 3 + len(taps)))
    _multiply(request, steps, contract, [windows, (weights, Input(1))], made, target.place)
    group, image, *places, channel = row_major(made)
    shape = (images.size, groups.size, outputs.size, *pixels)
    steps.copy(
        View(shape, (image, group, channel, *places), float32), target.place, Output(0), info
    )
    return [steps.work()]


def input_refusal(one: Convolution, request: Request) -> str | None:
    """Return why an input gradient is no product of few windows, None if it is one."""
    p = one.problem
    if 1 in request.kept:
        return "its weights are reordered once"
    _, lanes = vectors(p, one.info)
    if lanes < 4 or lanes & (lanes - 1):
        return "the device has no vectors for the sums of pixels"
    windows = p.leads[0].size * prod(axis.size for axis in p.axes)
    if prod(axis.terms for axis in p.axes) == 1:
        return _refusal(p, windows, _WINDOWS)
    if exceeds(windows * (p.depth.size + _SUMMED), _TAPPED * p.depth.size):
        return "tiles of images multiply no padding, and no taps of its windows are summed"
    return _refusal(p, windows, _TAPPED)


def input_works(one: Convolution, request: Request) -> list[Work]:
    """Return the product of the output gradient and the weights, and the sums of its taps."""
    p, steps, info = one.problem, Steps(), one.info
    images, groups, channels = p.leads
    windows, taps = [axis.size for axis in p.axes], [axis.terms for axis in p.axes]
    shape = (groups.size, images.size, *windows, p.depth.size)
    moves = (groups.a, images.a, *(axis.a for axis in p.axes), p.depth.a)
    lines = steps.room(prod(shape), float32)
    steps.copy(View(shape, moves, float32, p.a.offset), Input(0), lines.place, info)
    weights = View(
        (groups.size, p.depth.size, channels.size, *taps),
        (groups.b, p.depth.b, channels.b, *(axis.b for axis in p.axes)),
        float32,
        p.b.offset,
    )
    made = (*shape[:-1], channels.size, *taps)
    target = steps.room(prod(made), float32)
    operands = [(View(shape, row_major(shape), float32), lines.place), (weights, Input(1))]
    last = len(shape) - 1
    _multiply(request, steps, ((last,), (1,)), operands, made, target.place)
    add_fold(p, target, steps, info)
    return [steps.work()]


def weight_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a weight gradient is no product of few windows, None if it is one."""
    forward = forward_of(one.problem)
    windows = forward.leads[0].size * prod(axis.count for axis in forward.axes)
    taps = prod(axis.terms for axis in forward.axes)
    if taps == 1:
        return _refusal(forward, windows, _LINES)
    apart = taps * float32.itemsize >= _LINE
    if not apart and exceeds(_FILTERS, forward.leads[2].size):
        return f"it has fewer than {_FILTERS} filters, whose taps are adjacent"
    return _refusal(forward, windows, _TAPPED)


def weight_works(one: Convolution, request: Request) -> list[Work]:
    """Return the product of the output gradient and the windows of the input."""
    forward, steps = forward_of(one.problem), Steps()
    images, groups, outputs = forward.leads
    counts = [axis.count for axis in forward.axes]
    shape = (groups.size, outputs.size, images.size, *counts)
    moves = (groups.b, outputs.b, images.b, *(axis.b for axis in forward.axes))
    lines = steps.room(prod(shape), float32)
    view = View(shape, moves, float32, forward.b.offset)
    steps.copy(view, Input(1), lines.place, one.info)
    windows = _windows(forward, steps, one)
    summed = len(counts) + 1
    contract = tuple(range(2, 2 + summed)), tuple(range(1, 1 + summed))
    operands = [(View(shape, row_major(shape), float32), lines.place), windows]
    made = (groups.size, *shape[1:2], *windows[0].shape[1 + summed :])
    _multiply(request, steps, contract, operands, made, Output(0))
    return [steps.work()]


def _windows(forward: Correlation, steps: Steps, one: Convolution) -> tuple[View, Argument]:
    """Return lines of windows: groups, images, pixels of the result, channels and taps."""
    images, groups, _ = forward.leads
    counts, taps = [axis.count for axis in forward.axes], [axis.terms for axis in forward.axes]
    shape = (groups.size, images.size, *counts, forward.depth.size, *taps)
    lines = View(shape, row_major(shape), float32)
    if any(axis.terms > 1 for axis in forward.axes) or not all(map(_inside, forward.axes)):
        return lines, add_windows(forward, steps, one.info).place
    moves = (groups.a, images.a, *(a.a * a.result for a in forward.axes), forward.depth.a)
    start = forward.a.offset + sum(a.start * a.a for a in forward.axes)
    source = View((*shape[: len(moves)],), moves, float32, start)
    target = steps.memory(prod(shape) * float32.itemsize)
    steps.copy(source, Input(0), target, one.info)
    return lines, target


def _inside(axis: Axis[int]) -> bool:
    """Return whether windows of one tap see no padding."""
    return bool(axis.start >= 0 and axis.start + (axis.count - 1) * axis.result < axis.size)


def _multiply(
    request: Request,
    steps: Steps,
    contract: tuple[tuple[int, ...], tuple[int, ...]],
    operands: Sequence[tuple[View, Argument]],
    made: tuple[int, ...],
    target: Argument,
) -> None:
    """Add the product of each group."""
    attributes = {
        "contract": contract,
        "batch": ((0,), (0,)),
        "dtype": float32,
        "precision": request.attributes.get("precision", "highest"),
    }
    alone = replace(request, candidates=False, kept=frozenset())
    steps.include(alone, "dot_general", attributes, operands, [(spec_of(made, float32), target)])


# Beside other ways, which pack weights: they are asked again once weights stay.
WINDOW_PRODUCTS: Final[Way[Convolution]] = Way(
    "window products", forward_refusal, forward_works, tier=1, paired=True
)
INPUT_PRODUCTS: Final[Way[Convolution]] = Way("window products", input_refusal, input_works)
WEIGHT_PRODUCTS: Final[Way[Convolution]] = Way("window products", weight_refusal, weight_works)
