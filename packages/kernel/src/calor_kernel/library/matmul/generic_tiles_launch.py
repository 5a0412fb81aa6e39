"""Blueprint and launch of products by tiles of many units, for any strides and types.

Requirements: as in :mod:`blueprints`; this way serves the products that no other way suits.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor.dtypes import int64
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch, Output
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.gemm.generic import GenericPlan
from calor_kernel.library.matmul.blueprints import accumulator
from calor_kernel.library.matmul.generic_tiles import tiled_matmul
from calor_kernel.library.matmul.problem import Product

_SIZE = Scalar(int64, nonnegative=True)
_STRIDE = Scalar(int64)


def tiled(product: Product) -> GenericPlan:
    """Return the blueprint for cubes of many units."""
    accumulate = accumulator(product)
    small = product.m * product.n * product.batches < 128 * 128
    rows = columns = 2 if small else 4
    return GenericPlan(16, 8, rows, columns, 8 if accumulate.itemsize == 8 else 16, accumulate)


def tiled_launch(
    product: Product, blueprint: GenericPlan, places: Sequence[Argument], info: DeviceInfo
) -> Launch:
    """Return the launch for a blueprint."""
    a, b = product.a, product.b
    numbers = (
        product.m,
        product.n,
        product.k,
        a.free,
        a.depth,
        b.depth,
        b.free,
        product.batch[1],
        *a.batch,
        a.offset,
        *b.batch,
        b.offset,
    )
    build = Build(
        tiled_matmul,
        (
            Buffer(a.dtype, writable=False),
            Buffer(b.dtype, writable=False),
            Buffer(product.dtype),
            *(_SIZE if n >= 0 else _STRIDE for n in numbers),
        ),
        (("a_along", a.depth == 1), ("b_along", b.depth == 1), ("plan", blueprint)),
        cube=(blueprint.across, blueprint.down, 1),
        plane=info.planes[0],
    )
    cubes = (
        -(-product.n // blueprint.width),
        -(-product.m // blueprint.height),
        product.batches,
    )
    label = f"matmul tiled {blueprint.height}x{blueprint.width}"
    arguments = (*places, Output(0), *numbers)
    return Launch(build, cubes, arguments, product.flops, product.nbytes, label)
