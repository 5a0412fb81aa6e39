"""Convolutions with windows of one tap as products of matrices, where operands lie as they are.

Requirements: nothing is copied: an image's places are the columns of an operand, which lie dense,
and the products of all images are one launch; of those ways that read in whole accesses, since
others gain nothing over tiles of windows. Of the gradient of the weights, places are summed, and
those of all images are parts that are added in one order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from calor.dtypes import bfloat16, float16, float32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Dropped, Input, Scratch, Work
from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.conv.split_sums import sums_launch
from calor_kernel.library.matmul.gpu_ways import ways
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.warpgroup_tma import Boxes
from calor_kernel.library.matmul.warpgroup_tma_launch import boxed

# Rows and columns of fewer leave most of a tile empty, and of so many are a tile here.
_LEAST, _TILE = 64, 128
# Bytes that lines begin at multiples of, places of a part at least, and elements of an access.
_LINE, _PIECE, _WHOLE = 16, 256, 4
# Rows and columns of a tile of parts, and stages; rows of tiles that are computed together.
_BOXES = ((64, 64, 8), (64, 128, 6), (64, 256, 4), (128, 128, 5), (128, 256, 4))
_BAND = 16
# Bytes of products that a core of an H200 computes in a cycle, and that it reads from the cache.
_COMPUTED, _READ = 4096, 40


def by_products(
    problem: Correlation, info: DeviceInfo, wanted: bool, rounded: bool
) -> Iterator[Work]:
    """Yield the works of a problem that is a product, the likeliest first, if there are any.

    ``rounded``: whether factors of float32 may be rounded to TF32.
    """
    if problem.by_weight:
        yield from _of_weights(problem, info, wanted, rounded)
        return
    product = product_of(problem, rounded)
    if product is None:
        return
    for way in ways(product, (Input(1), Input(0)), info, wanted)[0]:
        if not way.name.startswith("tiled"):
            launches, name = (*way.before, way.launch, *way.after), f"product, {way.name}"
            yield Work(launches, way.scratch, variant=name, group=way.group)


def product_of(problem: Correlation, rounded: bool) -> Product | None:
    """Return a problem as weights times images, None where it is no such product."""
    p = problem
    images, groups, outputs = p.leads
    if p.by_weight or groups.size != 1 or not all(map(_plain, p.axes)):
        return None
    if not _dense([(axis.size, axis.a) for axis in p.axes]):
        return None
    places = prod(axis.count for axis in p.axes)
    weights = Operand((0, 0), outputs.b, p.depth.b, p.b.offset, p.b.dtype)
    seen = Operand((images.a, 0), 1, p.depth.a, p.a.offset, p.a.dtype)
    batch = (images.size, 1)
    return Product(batch, outputs.size, places, p.depth.size, weights, seen, p.a.dtype, rounded)


def _plain(axis: Axis) -> bool:
    """Return whether each place sees itself alone."""
    moves = axis.terms == axis.divide == axis.result == 1
    return moves and axis.start == 0 and axis.count == axis.size


def _dense(axes: Sequence[tuple[int, int]]) -> bool:
    """Return whether axes, of which each is a size and a stride, lie as one."""
    step = 1
    for size, stride in reversed(axes):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def _of_weights(
    problem: Correlation, info: DeviceInfo, wanted: bool, rounded: bool
) -> Iterator[Work]:
    """Yield products of images, of which each or a part of it is a part of the sum."""
    found = parts_of(problem, rounded, info)
    if found is None:
        return
    count = found.m * found.n
    parts = Scratch(0)
    memory = (found.batches * count * float32.itemsize,)
    launch = boxed(found, (Input(1), Input(0)), info, parts)
    if isinstance(launch, Dropped):
        return
    plans = [Boxes(found.a.dtype, float32, *made, True, True, _BAND) for made in _BOXES]
    plans = [p for p in plans if p.shared_bytes <= info.shared_bytes and p.units <= info.max_units]
    for plan in sorted(plans, key=lambda plan: _cycles(found, plan, info)):
        sizes = (1, 1, count, count)
        after = sums_launch(parts, problem.a.dtype, sizes, found.batches, count, info)
        name = f"product, boxes {plan.rows}x{plan.columns} of parts"
        yield Work((launch(plan), after), memory, variant=name)
        if not wanted:
            return


def _cycles(product: Product, plan: Boxes, info: DeviceInfo) -> float:
    """Return what cores take for a term of their tiles of a product, in clock cycles."""
    tiles = -(-product.m // plan.rows) * -(-product.n // plan.columns) * product.batches
    computed = plan.rows * plan.columns / _COMPUTED
    read = (min(plan.rows, product.m) + min(plan.columns, product.n)) / _READ
    return float(-(-tiles // info.cores) * max(computed, read))


def parts_of(problem: Correlation, rounded: bool, info: DeviceInfo) -> Product | None:
    """Return the parts of the gradient of weights of one tap, None where they are no products.

    Parts are images, and where cores are left as many pieces of them as cores have one each.
    """
    p = problem
    groups, outputs, channels = p.leads
    if groups.size != 1 or not all(axis.count == axis.summed == 1 for axis in p.axes):
        return None
    if any(axis.start or axis.size != axis.terms for axis in p.axes):
        return None
    for of in ("a", "b"):
        if not _dense([(axis.size, getattr(axis, of)) for axis in p.axes]):
            return None
    places, images, item = prod(axis.size for axis in p.axes), p.depth, p.a.dtype.itemsize
    least = min(outputs.size, channels.size)
    worth = p.a.dtype in (float16, bfloat16) or (rounded and p.a.dtype is float32)
    if not worth or least < _LEAST or channels.size % _WHOLE or places * item % _LINE:
        return None
    tiles = -(-outputs.size // _TILE) * -(-channels.size // _TILE) * images.size
    most = min(info.cores // tiles, places // _PIECE)
    pieces = next(n for n in range(max(most, 1), 0, -1) if places * item % (n * _LINE) == 0)
    size = places // pieces
    return Product(
        (images.size, pieces), outputs.size, channels.size, size,
        Operand((images.b, size), outputs.b, 1, p.b.offset, p.b.dtype),
        Operand((images.a, size), channels.a, 1, p.a.offset, p.a.dtype),
        float32, rounded,
    )  # fmt: skip
