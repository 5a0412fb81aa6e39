"""Convolutions whose one window is the whole image, and their gradients, as matrix products.

Requirements: squeezed channels are images of one pixel, and some networks end in a window as large
as the image. All terms of a pixel then lie in one line of memory, so that each is one product of
operands in place; ways along rows of pixels would fill one lane of their vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calor.specs import Spec
from calor_kernel.contract.choices import is_size, spec_of
from calor_kernel.contract.work import Argument, Input, Output, Request, View, Work
from calor_kernel.library.conv.problem import Convolution
from calor_kernel.library.steps import Steps


def single_window_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a gradient is no product of whole images and windows, None if it is one."""
    return _refusal(request, *_shapes(one, request))


def single_window_forward_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a convolution is no product of whole images and windows, None if it is one."""
    if 1 in request.kept:
        return "its weights are packed once"
    if one.problem.a.dtype.kind != "float":
        return "it is not of floats"
    (image, window), (made,) = request.inputs, request.outputs
    return _refusal(request, image.shape, window.shape, made.shape)


def single_window_forward_works(one: Convolution, request: Request) -> list[Work]:
    """Return the product of what :func:`single_window_forward_refusal` accepts."""
    (made,) = request.outputs
    summed = tuple(range(1, len(made.shape)))
    lines = spec_of(made.shape[:2], made.dtype)
    operands = [(view, Input(number)) for number, view in enumerate(request.inputs)]
    return _product(request, (summed, summed), operands, lines, request.kept)


def _refusal(
    request: Request, image: tuple[int, ...], window: tuple[int, ...], seen: tuple[int, ...]
) -> str | None:
    given = request.attributes
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
    kept = request.kept
    if one.problem.by_weight:
        x, g = request.inputs
        kept = frozenset(1 - number for number in kept)
        contract, operands = ((0,), (0,)), [(_lines(g), Input(1)), (x, Input(0))]
    else:
        g, w = request.inputs
        contract, operands = ((1,), (0,)), [(_lines(g), Input(0)), (w, Input(1))]
    return _product(request, contract, operands, request.outputs[0], kept)


def _product(
    request: Request,
    contract: tuple[tuple[int, ...], tuple[int, ...]],
    operands: Sequence[tuple[View, Argument]],
    made: Spec,
    kept: frozenset[int],
) -> list[Work]:
    """Return a product whose result is that of the request."""
    attributes = {
        "contract": contract,
        "batch": ((), ()),
        "dtype": made.dtype,
        "precision": request.attributes.get("precision", "highest"),
    }
    steps, asked = Steps(), replace(request, candidates=False, kept=kept)
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
