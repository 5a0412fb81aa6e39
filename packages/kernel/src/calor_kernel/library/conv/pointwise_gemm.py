"""Pointwise convolutions as matrix products of the images in place.

Requirements: nothing is copied. The pixels of an image are dense columns of an operand, and the
products of all images are one launch. Only ways with whole accesses are used, since others are no
faster than tiles of windows. Images of one pixel, as of squeezed channels, are rows of one product,
by any way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from calor_kernel.contract.choices import exceeds, is_size
from calor_kernel.contract.ways import ranked
from calor_kernel.contract.work import Input, Request, Work
from calor_kernel.library.conv.problem import Axis, Convolution, Correlation
from calor_kernel.library.gemm.mma import ACCESS
from calor_kernel.library.matmul.gpu_ways import WAYS
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.task import Task

# Ways for narrow products, and for lines that are not of whole accesses.
_GENERAL = frozenset(
    {
        *("MMA split-K", "SIMT split-K", "operand padding"),
        *("predicated MMA", "predicated SIMT", "tiles"),
    }
)
_COPIED = frozenset(("operand padding",))
# The filters of half empty tiles, and the terms from which those are faster than units alone.
_FEWEST, _FILTERS, _TERMS = 16, 64, 48


def product_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a problem is no product of its images in place, None if it is one."""
    if one.seen.by_weight:
        return "it is a weight gradient"
    found = product_of(one.seen, one.rounded)
    return "pixels read others than those at their position" if found is None else None


def product_works(one: Convolution, request: Request) -> Iterator[Work]:
    """Yield the works of a problem that is a product, the likeliest first."""
    product = product_of(one.seen, one.rounded)
    assert product is not None
    task = Task(
        product, (Input(1), Input(0)), one.info, tail=one.tail, streamed=_streamed(product),
        alone=not product.b.in_accesses(ACCESS // product.b.dtype.itemsize, product.n, product.k),
    )  # fmt: skip
    ways = [way for way in WAYS if way.name not in _GENERAL]
    found = ranked(ways, task, request)
    single = product.n == 1 and not is_size(product.n) and product.dtype.kind == "float"
    if not found and single and exceeds(product.batches, 1):
        tail = one.tail and one.tail.of_batches()
        task = Task(rows_of_images(product), (Input(0), Input(1)), one.info, tail=tail)
        found = ranked([way for way in WAYS if way.name not in _COPIED], task, request)
    for work in found:
        yield replace(work, variant=f"product, {work.variant}")


def _streamed(product: Product) -> bool:
    """Return whether memory decides how long a product of few filters takes.

    Images are read once, and products of tiles of which a part is filters take less. Fewer terms
    have a way of their own.
    """
    return bool(_FEWEST <= product.m < _FILTERS and exceeds(product.k, _TERMS))


def rows_of_images(product: Product) -> Product:
    """Return products of one column as the product of all columns, which are its rows.

    The result has the same elements in the same order.
    """
    weights, seen = product.a, product.b
    rows = Operand((0, 0), seen.batch[0], seen.depth, seen.offset, seen.dtype)
    return replace(product, batch=(1, 1), m=product.batches, n=product.m, a=rows, b=weights)


def product_of(problem: Correlation, rounded: bool) -> Product | None:
    """Return a problem as weights times images, None if it is no such product."""
    p = problem
    images, groups, outputs = p.leads
    if p.by_weight or groups.size != 1 or not all(map(_plain, p.axes)):
        return None
    if not dense([(axis.size, axis.a) for axis in p.axes]):
        return None
    places = prod(axis.count for axis in p.axes)
    weights = Operand((0, 0), outputs.b, p.depth.b, p.b.offset, p.b.dtype)
    seen = Operand((images.a, 0), 1, p.depth.a, p.a.offset, p.a.dtype)
    batch = (images.size, 1)
    return Product(batch, outputs.size, places, p.depth.size, weights, seen, p.a.dtype, rounded)


def _plain(axis: Axis[int]) -> bool:
    """Return whether each output pixel reads only the input pixel at its position."""
    moves = axis.terms == axis.divide == axis.result == 1
    return moves and axis.start == 0 and axis.count == axis.size


def dense(axes: Sequence[tuple[int, int]]) -> bool:
    """Return whether axes, given as sizes and strides, are dense as one axis."""
    step = 1
    for size, stride in reversed(axes):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
