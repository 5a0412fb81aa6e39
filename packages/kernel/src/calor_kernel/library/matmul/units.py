"""Large products by cubes of many units: which way suits a product, and its launch.

Requirements: what a way asks of sizes and strides is asked here, so that a kernel reads in whole
accesses; the tiles are as large as leaves each core one; what no way here does is done by
:mod:`tiled`.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor.dtypes import bfloat16, float16, float32, int64
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.matmul.fragments import ACCESS, Fragments, matmul_fragments
from calor_kernel.library.matmul.groups import Groups, matmul_groups
from calor_kernel.library.matmul.patches import FOUR, Patches, matmul_patches
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.squares import squares
from calor_kernel.library.work import Argument, Build, Launch, Output
from calor_kernel.runtime.device import DeviceInfo

# Smaller products leave most of a tile empty.
_LEAST = 64
_NEEDED = ("matrix", "load_matrix", "async_copy", "barrier", "planes")
_GROUPED = ("async_matrix", "async_copy", "barrier", "planes")
_HALVES = (float16, bfloat16)
# Rows and columns of a tile, what it takes of the summed axis, planes down and across, stages.
_FRAGMENTS = ((128, 256, 32, 2, 4, 4), (128, 128, 32, 2, 2, 4), (64, 64, 64, 2, 2, 3))
# Rows and columns of a tile, what it takes of the summed axis, stages.
_GROUPS = ((128, 128, 64, 3), (64, 64, 64, 4))
# Units down and across, patches of each down and across, and what is taken of the summed axis.
_PATCHES = ((16, 16, 2, 2, 8), (16, 16, 1, 1, 16))


def ways(product: Product, places: Sequence[Argument], info: DeviceInfo) -> list[Launch]:
    """Return the launches that could each do a product, the likeliest first."""
    if product.m < _LEAST or product.n < _LEAST:
        return []
    found = squares(product, places, info)
    if found:
        return found
    types = {product.a.dtype, product.b.dtype}
    if types == {float32} and product.dtype is float32:
        return _by_patches(product, places, info)
    if len(types) == 1 and types <= set(_HALVES) and product.dtype in (*types, float32):
        found = _by_groups(product, places, info)
        return [*found, *_by_fragments(product, places, info)]
    return []


def _by_patches(product: Product, places: Sequence[Argument], info: DeviceInfo) -> list[Launch]:
    if not info.has("barrier") or not _in_accesses(product, FOUR):
        return []
    along = _along(product)
    for number, made in enumerate(_PATCHES):
        plan = Patches(*made, *along)
        shared = 8 * plan.depth * (plan.rows + plan.columns + 2 * FOUR)
        if plan.units > info.max_units or shared > info.shared_bytes:
            continue
        if _cubes(product, plan.rows, plan.columns) >= info.cores or number:
            return [_launch(matmul_patches, plan, product, places, info, FOUR)]
    return []


def _by_groups(product: Product, places: Sequence[Argument], info: DeviceInfo) -> list[Launch]:
    if not all(map(info.has, _GROUPED)) or info.planes[0] != 32:
        return []
    if not _in_accesses(product, ACCESS):
        return []
    along = _along(product)
    for number, made in enumerate(_GROUPS):
        plan = Groups(product.a.dtype, *made, *along)
        if plan.units > info.max_units or plan.shared_bytes > info.shared_bytes:
            continue
        # Two of these cubes share a core; a smaller tile reads more than a few idle cores cost.
        if 4 * _cubes(product, plan.rows, plan.columns) >= info.cores or number:
            return [_launch(matmul_groups, plan, product, places, info, ACCESS)]
    return []


def _by_fragments(product: Product, places: Sequence[Argument], info: DeviceInfo) -> list[Launch]:
    if not all(map(info.has, _NEEDED)) or info.planes[0] != 32:
        return []
    if not _in_accesses(product, ACCESS):
        return []
    along = _along(product)
    for number, made in enumerate(_FRAGMENTS):
        plan = Fragments(product.a.dtype, *made, *along)
        if plan.units > info.max_units or plan.shared_bytes > info.shared_bytes:
            continue
        last = number == len(_FRAGMENTS) - 1
        if _cubes(product, plan.rows, plan.columns) >= info.cores or last:
            return [_launch(matmul_fragments, plan, product, places, info, ACCESS)]
    return []


def _along(product: Product) -> tuple[bool, bool]:
    """Return whether each operand is dense along the summed axis."""
    return product.a.depth == 1, product.b.depth == 1


def _in_accesses(product: Product, count: int) -> bool:
    """Return whether accesses of so many elements reach all of the operands and the result."""

    def fits(operand: Operand, size: int) -> bool:
        if operand.depth == 1:
            dense, other = product.k, operand.free
        elif operand.free == 1:
            dense, other = size, operand.depth
        else:
            return False
        numbers = (dense, other, operand.offset, *operand.batch)
        return all(number % count == 0 for number in numbers)

    if product.n % count:
        return False
    return fits(product.a, product.m) and fits(product.b, product.n)


def _cubes(product: Product, rows: int, columns: int) -> int:
    return -(-product.m // rows) * -(-product.n // columns) * product.batches


def _launch(
    function: KernelFunction,
    plan: Patches | Fragments | Groups,
    product: Product,
    places: Sequence[Argument],
    info: DeviceInfo,
    count: int,
) -> Launch:
    a, b = product.a, product.b
    size = Scalar(int64, nonnegative=True)
    wide = Scalar(int64, divisible=count, nonnegative=True)
    stride = Scalar(int64, divisible=count)
    read = Buffer(a.dtype, writable=False, align=16)
    build = Build(
        function,
        (
            *(read, read, Buffer(product.dtype, align=16)),
            *(size, wide, size, stride, stride, size),
            *(stride,) * 6,
        ),
        (("plan", plan),),
        cube=(plan.units, 1, 1),
        plane=info.planes[0],
    )
    arguments = (
        *(*places, Output(0)),
        *(product.m, product.n, product.k),
        a.free if plan.a_along else a.depth,
        b.free if plan.b_along else b.depth,
        product.batch[1],
        *(*a.batch, a.offset),
        *(*b.batch, b.offset),
    )
    cubes = (-(-product.n // plan.columns), -(-product.m // plan.rows), product.batches)
    label = f"matmul {type(plan).__name__.lower()} {plan.rows}x{plan.columns}"
    return Launch(build, cubes, arguments, product.flops, product.nbytes, label)
