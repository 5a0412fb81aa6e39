"""Grouped convolutions of images whose pixels lie apart, as those with channels last do.

Requirements: ways of groups of few channels have neighbouring units read neighbouring pixels. Where
channels lie between these, a plane reads as many lines of memory as it has units, and uses a part
of each. So images are copied first, with the pixels of a channel beside each other.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

from calor_kernel.contract.choices import hinted
from calor_kernel.contract.work import Argument, Input, Output, Request, View, Work, row_major
from calor_kernel.library.conv.each_group import each_group_refusal
from calor_kernel.library.conv.problem import Convolution
from calor_kernel.library.steps import Steps

# The elements between neighbouring pixels up to which a plane's reads meet few lines of memory, and
# the elements of images from which these lines take longer than the launch of a copy.
_APART: Final = 8
_ELEMENTS: Final = 1 << 17


def planar_refusal(one: Convolution, request: Request) -> str | None:
    """Return why images are not copied for a grouped convolution, None if they are."""
    p = one.problem
    group, row, column = (p.leads[role].size for role in p.roles)
    channels = column if p.by_weight else p.depth.size
    if group == 1 or row == channels == 1:
        return "it has one group, or is depthwise"
    if each_group_refusal(one, request) is None:
        return "its groups are computed one after another"
    if not _apart(request):
        return "neighbouring pixels are near each other, or few"
    return None


def planar_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a convolution that :func:`planar_refusal` accepts."""
    steps = Steps()
    operands: list[tuple[View, Argument]] = [(v, Input(k)) for k, v in enumerate(request.inputs)]
    for number in _apart(request):
        view = request.inputs[number]
        target = steps.memory(view.size * view.dtype.itemsize)
        steps.copy(view, Input(number), target, request.info)
        operands[number] = View(view.shape, row_major(view.shape), view.dtype), target
    alone = replace(request, candidates=False)
    results = [(request.outputs[0], Output(0))]
    steps.include(alone, request.op, request.attributes, operands, results)
    return [steps.work()]


def _apart(request: Request) -> list[int]:
    """Return the numbers of images whose neighbouring pixels lie apart."""
    images = (0, 1) if request.op == "conv_weight_gradient" else (0,)
    return [number for number in images if _far(request.inputs[number])]


def _far(view: View) -> bool:
    """Return whether pixels of lines lie apart, and are so many that it counts."""
    wide, step = view.shape[-1], abs(view.strides[-1])
    return bool(hinted(wide) > 1 and step > _APART and prod(map(hinted, view.shape)) >= _ELEMENTS)
