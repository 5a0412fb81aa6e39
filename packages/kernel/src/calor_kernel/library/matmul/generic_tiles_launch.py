"""The blueprint and the launch of products by tiles of many units, for any strides and types.

Requirements: as for :mod:`blueprints`; this is what is left where no other way suits a product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from calor.dtypes import DType, int64
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch, Output
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.matmul.blueprints import accumulator
from calor_kernel.library.matmul.generic_tiles import tiled_matmul
from calor_kernel.library.matmul.problem import Product

_SIZE = Scalar(int64, nonnegative=True)
_STRIDE = Scalar(int64)


@dataclass(frozen=True, slots=True)
class Tiled:
    """Cubes of ``across`` by ``down`` units with ``rows`` by ``columns`` sums each."""

    across: int
    down: int
    rows: int
    columns: int
    depth: int
    accumulate: DType
    a_along: bool
    b_along: bool

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube: two tiles of each operand."""
        sides = self.down * self.rows + self.across * self.columns
        return 2 * self.depth * sides * int(self.accumulate.itemsize)


def tiled(product: Product) -> Tiled:
    """Return the blueprint for cubes of many units."""
    accumulate = accumulator(product)
    small = product.m * product.n * product.batches < 128 * 128
    rows = columns = 2 if small else 4
    along = product.a.depth == 1, product.b.depth == 1
    return Tiled(16, 8, rows, columns, 8 if accumulate.itemsize == 8 else 16, accumulate, *along)


def tiled_launch(
    product: Product, blueprint: Tiled, places: Sequence[Argument], info: DeviceInfo
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
        tuple((name, getattr(blueprint, name)) for name in sorted(f.name for f in fields(Tiled))),
        cube=(blueprint.across, blueprint.down, 1),
        plane=info.planes[0],
    )
    cubes = (
        -(-product.n // (blueprint.across * blueprint.columns)),
        -(-product.m // (blueprint.down * blueprint.rows)),
        product.batches,
    )
    label = f"matmul tiled {blueprint.down * blueprint.rows}x{blueprint.across * blueprint.columns}"
    arguments = (*places, Output(0), *numbers)
    return Launch(build, cubes, arguments, product.flops, product.nbytes, label)
