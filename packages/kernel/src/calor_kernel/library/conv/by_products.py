"""Convolutions with windows of one tap as products of matrices, where operands lie as they are.

Requirements: nothing is copied: an image's places are the columns of an operand, which lie dense,
and the products of all images are one launch; of those ways that read in whole accesses, since
others gain nothing over tiles of windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.units import ways
from calor_kernel.library.work import Input, Work
from calor_kernel.runtime.device import DeviceInfo


def by_products(
    problem: Correlation, info: DeviceInfo, wanted: bool, rounded: bool
) -> Iterator[Work]:
    """Yield the works of a problem that is a product, the likeliest first, if there are any.

    ``rounded``: whether factors of float32 may be rounded to TF32.
    """
    product = product_of(problem, rounded)
    if product is None:
        return
    for way in ways(product, (Input(1), Input(0)), info, wanted)[0]:
        if not way.name.startswith("tiled"):
            launches, name = (*way.before, way.launch), f"product, {way.name}"
            yield Work(launches, way.scratch, variant=name, group=way.group)


def product_of(problem: Correlation, rounded: bool) -> Product | None:
    """Return a problem as weights times images, None where it is no such product."""
    p = problem
    images, groups, outputs = p.leads
    if p.by_weight or groups.size != 1 or not all(map(_plain, p.axes)):
        return None
    step = 1
    for axis in reversed(p.axes):
        if axis.size != 1 and axis.a != step:
            return None
        step *= axis.size
    places = prod(axis.count for axis in p.axes)
    weights = Operand((0, 0), outputs.b, p.depth.b, p.b.offset, p.b.dtype)
    seen = Operand((images.a, 0), 1, p.depth.a, p.a.offset, p.a.dtype)
    batch = (images.size, 1)
    return Product(batch, outputs.size, places, p.depth.size, weights, seen, p.a.dtype, rounded)


def _plain(axis: Axis) -> bool:
    """Return whether each place sees itself alone."""
    moves = axis.terms == axis.divide == axis.result == 1
    return moves and axis.start == 0 and axis.count == axis.size
