"""Convolutions of volumes with one tap along neighbouring axes, as convolutions of planes.

Requirements: ways of windows have two spatial axes. Axes whose pixels are read where they are
written, as those of a plane in a convolution over time, are one axis of memory: nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calor.specs import Spec
from calor_kernel.contract.choices import is_size, spec_of
from calor_kernel.contract.work import Request, View

# Spatial axes at most that ways of windows have.
_MOST = 2


def merged(request: Request, image: int, weight: int, result: int) -> Request:
    """Return the request with fewer spatial axes, or as it is.

    ``image``, ``weight`` and ``result``: which of the operands they are, the result behind them.
    """
    while len(request.outputs[0].shape) > 2 + _MOST:
        every: list[View | Spec] = [*request.inputs, *request.outputs]
        given, ends = every[weight], (every[image], every[result])
        axis = next(
            (i for i in range(2, len(given.shape) - 1) if _merges(request, given, ends, i)), 0
        )
        if not axis:
            return request
        attributes = dict(request.attributes)
        for name in ("stride", "padding", "dilation"):
            kept = list(attributes[name])
            del kept[axis - 2]
            attributes[name] = tuple(kept)
        inputs = tuple(_view(view, axis) for view in request.inputs)
        (made,) = request.outputs
        outputs = (spec_of(_joined(made.shape, axis), made.dtype),)
        request = replace(request, attributes=attributes, inputs=inputs, outputs=outputs)
    return request


def _merges(request: Request, weight: View | Spec, ends: Sequence[View | Spec], axis: int) -> bool:
    """Return whether an axis and the next have one tap each, and are one axis of memory."""
    given = request.attributes
    for i in (axis, axis + 1):
        sizes = [weight.shape[i], *(end.shape[i] for end in ends)]
        if any(map(is_size, sizes)) or sizes[0] != 1 or sizes[1] != sizes[2]:
            return False
        if given["stride"][i - 2] != 1 or tuple(given["padding"][i - 2]) != (0, 0):
            return False
    views = [end for end in ends if isinstance(end, View)]
    return all(v.strides[axis] == v.shape[axis + 1] * v.strides[axis + 1] for v in views)


def _joined(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])


def _view(view: View, axis: int) -> View:
    strides = (*view.strides[:axis], *view.strides[axis + 1 :])
    return replace(view, shape=_joined(view.shape, axis), strides=strides)
