"""Gradients of convolutions whose one window is the whole image, as matrix products.

Requirements: squeezed channels are images of one pixel, and some networks end in a window as large
as the image. All terms of a pixel then lie in one line of memory, so that a gradient is one product
of operands in place; ways along rows of pixels would fill one lane of their vectors.
"""

from __future__ import annotations

from dataclasses import replace

from calor_kernel.contract.choices import is_size
from calor_kernel.contract.work import Input, Output, Request, View, Work
from calor_kernel.library.conv.problem import Convolution
from calor_kernel.library.steps import Steps


def single_window_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a gradient is no product of whole images and windows, None if it is one."""
    given = request.attributes
    image, window, seen = _shapes(one, request)
    if given["groups"] != 1:
        return "it has groups"
    if any(map(is_size, (*image[2:], *window[2:], *seen[2:]))):
        return "the size of its images varies"
    if any(n != 1 for n in seen[2:]) or image[2:] != window[2:]:
        return "it has several windows, or one that is not the whole image"
    if any(tuple(sides) != (0, 0) for sides in given["padding"]):
        return "it has padding"
    return None


def single_window_works(one: Convolution, request: Request) -> list[Work]:
    """Return the product of a gradient that :func:`single_window_refusal` accepts."""
    steps, kept = Steps(), request.kept
    if one.problem.by_weight:
        x, g = request.inputs
        kept = frozenset(1 - number for number in kept)
        contract, operands = ((0,), (0,)), [(_lines(g), Input(1)), (x, Input(0))]
    else:
        g, w = request.inputs
        contract, operands = ((1,), (0,)), [(_lines(g), Input(0)), (w, Input(1))]
    (made,) = request.outputs
    attributes = {
        "contract": contract,
        "batch": ((), ()),
        "dtype": made.dtype,
        "precision": request.attributes.get("precision", "highest"),
    }
    asked = replace(request, candidates=False, kept=kept)
    steps.include(asked, "dot_general", attributes, operands, [(made, Output(0))])
    return [steps.work()]


def _shapes(one: Convolution, request: Request) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the image, of the weight and of the convolution's result."""
    (first, second), (made,) = request.inputs, request.outputs
    if one.problem.by_weight:
        return first.shape, made.shape, second.shape
    return made.shape, second.shape, first.shape


def _lines(view: View) -> View:
    """Return images of one pixel without their spatial axes."""
    return replace(view, shape=view.shape[:2], strides=view.strides[:2])
