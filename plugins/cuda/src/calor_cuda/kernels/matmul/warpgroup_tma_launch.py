"""Launches of products by TMA, and the products that it can feed.

Requirements: TMA takes dense lines that begin at multiples of 16 bytes, and positive strides. An
operand that all products along an axis share has size 1 there. Sizes and addresses are arguments of
the launch, so that products of many sizes share a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from calor.dtypes import int32, uint32
from calor_cuda.kernels.matmul.split_k_launch import Parts
from calor_cuda.kernels.matmul.split_k_two_pass import sums_of
from calor_cuda.kernels.matmul.summed_parts import Summed
from calor_cuda.kernels.matmul.warpgroup_tma import Places, Products, matmul_tma
from calor_cuda.kernels.matmul.warpgroup_tma_plan import FOUR, TmaPlan
from calor_kernel.contract.choices import least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Grid, Multiple, launch
from calor_kernel.contract.work import Argument, Dropped, Flags, Input, Launch, Output, Scratch
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.task import Given, Sizes, Task, memory

NEEDED = ("async_matrix", "tensor_copy", "mbarrier", "barrier", "planes")
_NBYTES = 16
# Itemsize of operands that the instruction reads along either axis.
_BOTH_WAYS = 2
_RESULT = Output(0)
# Positions in a tensor are 32-bit numbers.
_MOST = 1 << 31


def tma_refusal(
    product: Product, info: DeviceInfo, *, transposed: bool = False, by_units: bool = False
) -> str | None:
    """Return why TMA cannot feed a product, None if it can.

    ``transposed``: the product is that of the transposes, and a is dense along its rows.
    ``by_units``: whether units may write the result.
    """
    if not all(map(info.has, NEEDED)) or info.planes[0] != 32:
        return "the device has no TMA, or no asynchronous matrix instruction"
    a, b = product.a, product.b
    item = a.dtype.itemsize
    if transposed and not (item == product.dtype.itemsize == FOUR and a.depth != 1):
        return "operands in registers are of four bytes, and dense along the rows"
    if item != _BOTH_WAYS and not a.depth == b.depth == 1 and not transposed:
        return f"operands of {a.dtype.name} are read along the K axis alone"
    if max(item, product.dtype.itemsize) > 4 or b.dtype is not a.dtype:
        return f"no instruction multiplies {a.dtype.name} by {b.dtype.name}"
    if not by_units and not lines_of_result(product, transposed):
        return "rows of the result do not begin at multiples of 16 bytes"
    if product.k == 0 or any(n >= _MOST for n in (product.m, product.n, product.k)):
        return "sizes are from 1 to 2**31 - 1"
    for name, operand in (("a", a), ("b", b)):
        reason = _refused(operand, product)
        if reason is not None:
            return f"operand {name} {reason}"
    return None


def lines_of_result(product: Product, transposed: bool = False) -> bool:
    """Return whether rows of the result begin at multiples of 16 bytes."""
    columns = product.pitch or (product.m if transposed else product.n)
    return bool(columns * product.dtype.itemsize % _NBYTES == 0)


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


def boxed(
    product: Product, places: Sequence[Argument], info: DeviceInfo, target: Output | Scratch
) -> Callable[[TmaPlan], Launch] | Dropped:
    """Return the builder of a plan's launch, or why TMA cannot feed the product."""
    reason = tma_refusal(product, info)
    if reason is not None:
        return Dropped("boxes", reason)
    a, b = (memory(place, product.dtype).place for place in places)
    task = Task(product, (a, b), info)
    return lambda plan: tma_launch(task, plan, target)


def tma_launch(
    task: Task,
    plan: TmaPlan,
    target: Output | Scratch = _RESULT,
    parts: Parts | None = None,
    summed: Summed[int] | None = None,
) -> Launch:
    """Return the launch of a plan. ``parts``: of each tile, for split-K.

    ``summed``: parts of the sum over all products, instead. The memory of exchanged sums is then
    the last scratch block of the task.
    """
    product, info = task.product, task.info
    a, b = product.a, product.b
    count, wide = _NBYTES // a.dtype.itemsize, _NBYTES // product.dtype.itemsize
    if plan.by_units:
        wide = 1
    # The stride of the result is a multiple of an access.
    even = 1 if product.pitch else wide
    m, n = Multiple(product.m, even), Multiple(product.n, even)
    sizes: Sizes[Given] = Sizes(product.m, n, product.k)
    if plan.transposed:
        sizes = Sizes(m, product.n, product.k)
    tiles = -(-product.m // plan.rows) * -(-product.n // plan.columns) * product.batches
    cubes = parts.cubes if parts else least(tiles, max(info.cores, 1))
    label = f"matmul boxes {plan.rows}x{plan.columns}{' tf32' if product.tf32 else ''}"
    if plan.pingpong:
        label = f"{label} ping-pong"
    sums = flags = split = None
    if parts is not None:
        label = f"{label} in shares of {cubes}"
        place = Scratch(len(task.scratch) - 1)
        sums = Bound(place, sums_of(product.dtype), _NBYTES)
        flags = Bound(Flags(cubes * plan.groups), uint32)
        split = parts.parts
    batches = product.batches
    if summed is not None:
        label = f"{label} in parts of {summed.parts}"
        work, batches = summed.tiles * summed.parts, 1
        cubes = work + summed.tiles * summed.slices
        sums = Bound(Scratch(len(task.scratch) - 1), sums_of(product.dtype), _NBYTES)
        flags = Bound(Flags((work + summed.tiles) * plan.groups), uint32)
    left, right = (
        Bound(_from(place, operand), operand.dtype, _NBYTES)
        for place, operand in zip(task.places, (a, b), strict=True)
    )
    result = Bound(target, product.dtype, _NBYTES) if task.tail is None else task.result(_NBYTES)
    return launch(
        matmul_tma,
        Grid((cubes, 1, 1), (plan.units, 1, 1), info.planes[0], int32, alone=True),
        task.effort(label),
        a=left, b=right, c=result, sizes=sizes,
        a_stride=Multiple(a.free if plan.a_along else a.depth, count),
        b_stride=Multiple(b.free if plan.b_along else b.depth, count),
        c_stride=Multiple(product.m * (product.pitch or product.n), wide),
        c_pitch=Multiple(product.pitch, wide) if product.pitch else None, batches=batches,
        places=_places(product, plan), of_a=_products(a, product, count),
        of_b=_products(b, product, count), sums=sums, flags=flags, split=split, summed=summed,
        plan=plan,
        **task.following(wide),
    )  # fmt: skip


def _places(product: Product, plan: TmaPlan) -> Places[Given]:
    """Return the divisors that find the place of a tile."""
    down, across = -(-product.m // plan.rows), -(-product.n // plan.columns)
    last = (down - 1) % plan.band + 1
    return Places(down * across, across * plan.band, last, product.batch[1])


def _from(place: object, operand: Operand) -> Input | Scratch:
    assert isinstance(place, Input | Scratch)
    return replace(place, offset=place.offset + operand.offset)


def _products(operand: Operand, product: Product, count: int) -> Products[Given]:
    """Return the number of an operand's products along two axes, and their strides, never 0."""
    several = [n > 1 and s != 0 for n, s in zip(product.batch, operand.batch, strict=True)]
    sizes = [n if many else 1 for n, many in zip(product.batch, several, strict=True)]
    strides = [s if many else count for s, many in zip(operand.batch, several, strict=True)]
    return Products(*sizes, *(Multiple(stride, count) for stride in strides))
