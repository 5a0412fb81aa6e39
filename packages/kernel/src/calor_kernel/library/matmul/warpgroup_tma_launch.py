"""Launches of products by TMA, and the products that it can feed.

Requirements: TMA takes dense lines that begin at multiples of 16 bytes, and positive strides. An
operand that all products along an axis share has size 1 there. Sizes and addresses are arguments of
the launch, so that products of many sizes share a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from calor.dtypes import int32, int64, uint32
from calor_kernel.contract.choices import least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Dropped, Input, Launch, Output, Scratch
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.split_k_launch import Shared
from calor_kernel.library.matmul.split_k_two_pass import sums_of
from calor_kernel.library.matmul.warpgroup_tma import FOUR, Boxes, matmul_boxes

_NEEDED = ("async_matrix", "tensor_copy", "mbarrier", "barrier", "planes")
_NBYTES = 16
# Itemsize of operands that the instruction reads along either axis.
_BOTH_WAYS = 2
_RESULT = Output(0)
# Positions in a tensor are 32-bit numbers.
_MOST = 1 << 31


def boxed(
    product: Product,
    places: Sequence[Argument],
    info: DeviceInfo,
    target: Output | Scratch = _RESULT,
    *,
    transposed: bool = False,
) -> Callable[..., Launch] | Dropped:
    """Return the builder of a plan's launch, or why TMA cannot feed the product.

    The builder takes the plan, and the division of tiles for split-K. ``transposed``: the product
    is that of the transposes, and a is dense along its rows.
    """
    if not all(map(info.has, _NEEDED)) or info.planes[0] != 32:
        return Dropped("boxes", "the device has no copy engine, or no products beside its units")
    a, b = product.a, product.b
    item = a.dtype.itemsize
    if transposed and not (item == product.dtype.itemsize == FOUR and a.depth != 1 == b.depth):
        return Dropped("boxes", "factors in registers are of four bytes, and lie along the rows")
    if item != _BOTH_WAYS and not a.depth == b.depth == 1 and not transposed:
        return Dropped("boxes", f"factors of {a.dtype.name} are read along the summed axis alone")
    if max(item, product.dtype.itemsize) > 4 or b.dtype is not a.dtype:
        return Dropped("boxes", f"lines of {a.dtype.name} and {b.dtype.name} are not alike")
    if (product.m if transposed else product.n) * product.dtype.itemsize % _NBYTES:
        return Dropped("boxes", "rows of the result do not begin at multiples of 16 bytes")
    if product.k == 0 or any(n >= _MOST for n in (product.m, product.n, product.k)):
        return Dropped("boxes", "sizes are from 1 to 2**31 - 1")
    for name, operand in (("a", a), ("b", b)):
        reason = _refused(operand, product)
        if reason is not None:
            return Dropped("boxes", f"operand {name} {reason}")
    started = [*(_from(p, o) for p, o in zip(places, (a, b), strict=True)), target]
    return lambda plan, shared=None: _launch(plan, product, started, info, shared)


def _refused(operand: Operand, product: Product) -> str | None:
    """Return why TMA refuses an operand, None if it does not."""
    count = _NBYTES // operand.dtype.itemsize
    if 1 not in (operand.depth, operand.free):
        return "is dense along no axis"
    steps = [operand.free if operand.depth == 1 else operand.depth]
    for size, stride in zip(product.batch, operand.batch, strict=True):
        if size > 1 and stride != 0:
            steps.append(stride)
    if any(step <= 0 for step in steps):
        return "has a stride that is not above zero"
    if any(step % count for step in (*steps, operand.offset)):
        return f"does not begin at multiples of {_NBYTES} bytes in every line"
    return None


def _from(place: Argument, operand: Operand) -> Argument:
    assert isinstance(place, Input | Scratch)
    return replace(place, offset=place.offset + operand.offset)


def _launch(
    plan: Boxes,
    product: Product,
    places: Sequence[Argument],
    info: DeviceInfo,
    shared: Shared | None = None,
) -> Launch:
    a, b = product.a, product.b
    count, wide = _NBYTES // a.dtype.itemsize, _NBYTES // product.dtype.itemsize
    size = Scalar(int32, nonnegative=True)
    # The stride of the result.
    dense = Scalar(int32, divisible=wide, nonnegative=True)
    stride = Scalar(int64, divisible=count)
    sums = sums_of(product.dtype)
    read = Buffer(a.dtype, writable=False, align=_NBYTES)
    build = Build(
        matmul_boxes,
        (
            *(read, read, Buffer(product.dtype, align=_NBYTES)),
            *((dense, size, size) if plan.transposed else (size, dense, size)),
            *(stride, stride, Scalar(int64, divisible=wide)),
            *(size,) * 2,
            *(size, size, stride, stride) * 2,
            *((Buffer(sums, align=_NBYTES), Buffer(uint32), *(size,) * 4) if shared else ()),
        ),
        (("plan", plan),),
        cube=(plan.units, 1, 1),
        plane=info.planes[0],
        index=int32,
    )
    arguments = (
        *places,
        *(product.m, product.n, product.k),
        a.free if plan.a_along else a.depth,
        b.free if plan.b_along else b.depth,
        *(product.m * product.n, product.batches, product.batch[1]),
        *_axes(a, product, count),
        *_axes(b, product, count),
        *(shared.arguments(plan) if shared else ()),
    )
    tiles = -(-product.m // plan.rows) * -(-product.n // plan.columns) * product.batches
    cubes = (least(tiles, max(info.cores, 1)), 1, 1)
    label = f"matmul boxes {plan.rows}x{plan.columns}{' tf32' if product.tf32 else ''}"
    if shared:
        cubes, label = (shared.cubes, 1, 1), f"{label} in shares of {shared.cubes}"
    return Launch(build, cubes, arguments, product.flops, product.nbytes, label)


def _axes(operand: Operand, product: Product, count: int) -> tuple[int, ...]:
    """Return the number of an operand's products along two axes, and their strides, never 0."""
    several = [n > 1 and s != 0 for n, s in zip(product.batch, operand.batch, strict=True)]
    sizes = [n if many else 1 for n, many in zip(product.batch, several, strict=True)]
    strides = [s if many else count for s, many in zip(operand.batch, several, strict=True)]
    return (*sizes, *strides)
