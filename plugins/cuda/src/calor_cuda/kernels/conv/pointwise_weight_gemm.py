"""Weight gradients of pointwise convolutions as matrix products of the images in place.

Requirements: nothing is copied. A gradient sums over pixels, from image to image. If there are few
tiles, cubes share the pixels of all images, and the last ones add their sums; where cubes may not
wait for others, the images are parts, which another launch adds. Both add in a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from calor.dtypes import bfloat16, float16, float32
from calor_cuda.kernels.matmul.summed_parts_launch import (
    COMPUTED,
    READ,
    best_parts,
    cycles_of,
    room_of,
    summed_launch,
)
from calor_cuda.kernels.matmul.warpgroup_tma_launch import boxed, tma_refusal
from calor_cuda.kernels.matmul.warpgroup_tma_plan import TmaPlan
from calor_kernel.contract.choices import exceeds, is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Dropped, Input, Request, Scratch, Work
from calor_kernel.library.conv.pointwise_gemm import dense
from calor_kernel.library.conv.problem import Convolution, Correlation
from calor_kernel.library.conv.split_sums import launch_sum, target_of
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.steps import Steps

# With fewer rows and columns products of empty lines would take longer than memory; the rows and
# columns of a tile.
_LEAST, _TILE = 16, 128
# Filters from which images are not read for each of them, if they have channels for a tile, and
# bytes of images that take longer than the sums of parts.
_FILTERS, _CHANNELS, _BYTES = 3, 64, 1 << 21
# Alignment of lines in bytes, minimum of pixels of a part, and elements of an access.
_LINE, _PIECE, _WHOLE = 16, 256, 4
# Rows and columns of a tile of parts, and stages; rows of tiles that share their operands.
_TILES = ((64, 64, 8), (64, 128, 6), (64, 256, 4), (128, 128, 5), (128, 256, 4))
_BAND = 16


def pointwise_weight_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a problem is no weight gradient of such a convolution, None if it is one."""
    if not one.seen.by_weight:
        return "it is no weight gradient"
    found = parts_of(one.seen, one.rounded, one.info)
    if found is None:
        return "it is no product of whole lines that warp groups take"
    return tma_refusal(found, one.info)


def pointwise_weight_works(one: Convolution, request: Request) -> Iterator[Work | Dropped]:
    """Yield products of images, or of pieces of images, as parts of the sum."""
    info, dtype = one.info, one.seen.a.dtype
    found = parts_of(one.seen, one.rounded, info)
    assert found is not None
    count = found.m * found.n
    plans = [TmaPlan(found.a.dtype, float32, *made, True, True, _BAND) for made in _TILES]
    plans = [p for p in plans if p.shared_bytes <= info.shared_bytes and p.units <= info.max_units]
    yield from _in_one_launch(one, plans)
    for plan in sorted(plans, key=lambda plan: _cycles(found, plan, info)):
        steps = Steps()
        parts = target_of(steps, dtype, found.batches * count)
        assert isinstance(parts.place, Scratch)
        launch = boxed(found, (Input(1), Input(0)), info, parts.place)
        if isinstance(launch, Dropped):
            yield launch
            return
        steps.launches.append(launch(plan))
        launch_sum(steps, parts, dtype, (1, 1, count, count), found.batches, count, info)
        name = f"product, boxes {plan.rows}x{plan.columns} of parts"
        yield replace(steps.work(), variant=name)


def _in_one_launch(one: Convolution, plans: Sequence[TmaPlan]) -> Iterator[Work | Dropped]:
    """Yield the sums over the pixels of all images whose parts the last cubes add."""
    info, dtype = one.info, one.seen.a.dtype
    product = replace(images_of(one.seen, one.rounded), dtype=dtype)
    sizes = (product.m, product.n, product.k, *product.batch)
    if not info.has("forward_progress") or any(map(is_size, sizes)):
        return
    found = [(replace(p, result=dtype), best_parts(product, p, info)) for p in plans]
    able = [(p, of) for p, of in found if of is not None]
    for plan, of in sorted(able, key=lambda made: cycles_of(product, made[0], made[1], info)):
        steps = Steps()
        sums = steps.memory(room_of(plan, of))
        steps.launches.append(summed_launch(product, (Input(1), Input(0)), plan, of, sums, info))
        name = f"product, boxes {plan.rows}x{plan.columns} in one launch"
        yield replace(steps.work(), variant=name)


def images_of(problem: Correlation, rounded: bool) -> Product:
    """Return the products of images, whose sum is a weight gradient that has parts."""
    p = problem
    _, outputs, channels = p.leads
    images, size = p.depth, prod(axis.size for axis in p.axes)
    return Product(
        (images.size, 1), outputs.size, channels.size, size,
        Operand((images.b, 0), outputs.b, 1, p.b.offset, p.b.dtype),
        Operand((images.a, 0), channels.a, 1, p.a.offset, p.a.dtype),
        float32, rounded,
    )  # fmt: skip


def _cycles(product: Product, plan: TmaPlan, info: DeviceInfo) -> float:
    """Return the clock cycles of a term of the tiles on a core."""
    tiles = -(-product.m // plan.rows) * -(-product.n // plan.columns) * product.batches
    computed = plan.rows * plan.columns / COMPUTED
    read = (min(plan.rows, product.m) + min(plan.columns, product.n)) / READ
    return float(-(-tiles // info.cores) * max(computed, read))


def parts_of(problem: Correlation, rounded: bool, info: DeviceInfo) -> Product | None:
    """Return the parts of a pointwise weight gradient, None if they are no products.

    Parts are images. If cores are idle, images are cut into one piece for each core.
    """
    p = problem
    groups, outputs, channels = p.leads
    if groups.size != 1 or not all(axis.count == axis.summed == 1 for axis in p.axes):
        return None
    if any(axis.start or axis.size != axis.terms for axis in p.axes):
        return None
    for of in ("a", "b"):
        if not dense([(axis.size, getattr(axis, of)) for axis in p.axes]):
            return None
    places, images, item = prod(axis.size for axis in p.axes), p.depth, p.a.dtype.itemsize
    narrow = p.a.dtype in (float16, bfloat16) or (rounded and p.a.dtype is float32)
    nbytes = images.size * channels.size * places * item
    if not narrow or not _fills(outputs.size, channels.size, nbytes) or channels.size % _WHOLE:
        return None
    # Of lines with a pitch, which are not cut.
    lines = (outputs.b, channels.a, *((images.a, images.b) if images.size > 1 else ()))
    if any(line * item % _LINE for line in lines):
        return None
    tiles = -(-outputs.size // _TILE) * -(-channels.size // _TILE) * images.size
    most = min(info.cores // tiles, places // _PIECE)
    some = range(max(most, 1), 1, -1)
    pieces = next((n for n in some if places * item % (n * _LINE) == 0), 1)
    size = places // pieces
    return Product(
        (images.size, pieces), outputs.size, channels.size, size,
        Operand((images.b, size), outputs.b, 1, p.b.offset, p.b.dtype),
        Operand((images.a, size), channels.a, 1, p.a.offset, p.a.dtype),
        float32, rounded,
    )  # fmt: skip


def _fills(filters: int, channels: int, nbytes: int) -> bool:
    """Return whether a product of as many rows and columns takes no longer than memory.

    ``nbytes``: those of the images.
    """
    if min(filters, channels) >= _LEAST:
        return True
    return filters >= _FILTERS and channels >= _CHANNELS and exceeds(nbytes, _BYTES)
