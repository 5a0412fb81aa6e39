"""Weight gradients of few channels as products with windows in place.

Requirements: a window's taps and the windows' positions are strides of the image, so no window is
copied as long as they merge. A matrix product divides its long sums among cubes, where tiles of few
taps compute many pixels one after another. A gradient is the sum of a product of each image.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Final

from calor.dtypes import DType, bfloat16, float16, float32
from calor.specs import spec
from calor_kernel.contract.choices import is_size
from calor_kernel.contract.work import Argument, Input, Output, Request, View, Work
from calor_kernel.library.conv.problem import Convolution, Correlation, accumulator
from calor_kernel.library.steps import Steps

# Maximum of taps of all channels, and minimum of output channels, the rows of the product.
_TAPS: Final = 64
_ROWS: Final = 16
# Minimum of pixels of all images: fewer are one small launch.
_PIXELS: Final = 1 << 12


def views_refusal(one: Convolution, request: Request) -> str | None:
    """Return why windows are no view of the image, or why products with them are no faster."""
    p = one.problem
    if p.a.dtype not in (float16, bfloat16, float32):
        return f"no product of many tiles takes {p.a.dtype}"
    if any(is_size(n) for n in (*p.a.shape, *p.b.shape, *(axis.count for axis in p.axes))):
        return "its sizes are not known"
    if not p.by_weight or p.leads[0].size != 1:
        return "it is no weight gradient of one group"
    if not all(_inside(p, number) for number in range(len(p.axes))):
        return "windows reach beyond the image"
    images, outputs, channels, taps, pixels = _sizes(p)
    if prod(taps) * channels > _TAPS or outputs < _ROWS:
        return f"it has more than {_TAPS} taps, or fewer than {_ROWS} output channels"
    return "it has few pixels" if images * prod(pixels) < _PIXELS else None


def _inside(problem: Correlation, number: int) -> bool:
    axis = problem.axes[number]
    last = axis.start + (axis.count - 1) * axis.result + (axis.terms - 1) * axis.summed
    return axis.start >= 0 and last < axis.size


def _sizes(problem: Correlation) -> tuple[int, int, int, tuple[int, ...], tuple[int, ...]]:
    """Return images, output channels, input channels, and the sizes of windows and results."""
    p, (_, outputs, channels) = problem, problem.leads
    taps, pixels = tuple(a.count for a in p.axes), tuple(a.terms for a in p.axes)
    return p.depth.size, outputs.size, channels.size, taps, pixels


def _windows(problem: Correlation) -> View:
    """Return the windows: images, channels, taps, and pixels of the result."""
    p = problem
    images, _, channels, taps, pixels = _sizes(p)
    of_taps, of_pixels = (a.a * a.result for a in p.axes), (a.a * a.summed for a in p.axes)
    offset = p.a.offset + sum(axis.start * axis.a for axis in p.axes)
    strides = (p.depth.a, p.leads[2].a, *of_taps, *of_pixels)
    return View((images, channels, *taps, *pixels), strides, p.a.dtype, offset)


def views_works(one: Convolution, request: Request) -> Iterator[Work]:
    """Yield the work of a weight gradient that :func:`views_refusal` accepts."""
    p, steps = one.problem, Steps()
    images, outputs, channels, taps, pixels = _sizes(p)
    windows: tuple[View, Argument] = _windows(p), Input(0)
    first, last = tuple(range(2, 2 + len(taps))), tuple(range(2 + len(taps), 2 + 2 * len(taps)))
    strides = (p.depth.b, p.leads[1].b, *(axis.b for axis in p.axes))
    upstream = View((images, outputs, *pixels), strides, p.b.dtype, p.b.offset)
    shape, wide = (outputs, channels, *taps), accumulator(p.a.dtype)
    given = (upstream, Input(1)), windows, (first, last)
    if images == 1:
        _multiply(steps, request, *given, ((1, *shape), p.a.dtype), Output(0))
        yield steps.work("windows in place")
        return
    parts = steps.memory(images * prod(shape) * int(wide.itemsize))
    _multiply(steps, request, *given, ((images, *shape), wide), parts)
    source = View.dense(spec((images, *shape), wide)), parts
    attributes = {"axes": (0,), "dtype": wide}
    total: Argument = Output(0)
    if wide is not p.a.dtype:
        total = steps.memory(prod(shape) * int(wide.itemsize))
    steps.include(request, "sum", attributes, [source], [(spec(shape, wide), total)])
    if wide is not p.a.dtype:
        sums = View.dense(spec(shape, wide)), total
        target = spec(shape, p.a.dtype), Output(0)
        steps.include(request, "cast", {"dtype": p.a.dtype}, [sums], [target])
    yield steps.work("windows in place")


def _multiply(
    steps: Steps, request: Request, a: tuple[View, Argument], b: tuple[View, Argument],
    contract: tuple[tuple[int, ...], tuple[int, ...]], made: tuple[tuple[int, ...], DType],
    target: Argument,
) -> None:  # fmt: skip
    """Add the product of each image."""
    attributes = {
        "contract": contract,
        "batch": ((0,), (0,)),
        "precision": request.attributes.get("precision", "highest"),
    }
    alone = replace(request, candidates=False)
    steps.include(alone, "dot_general", attributes, [a, b], [(spec(*made), target)])
