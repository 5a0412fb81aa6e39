"""Split-K with two passes, for few tiles with a long K axis.

Requirements: with fewer tiles than cores, each part of the K axis is a product of its own, and a
second launch adds the parts. They are added in a fixed order, for reproducible results, and have
the dtype of the sums, so that a result is rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from calor.dtypes import DType, bfloat16, float16, float32, int64
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Build, Launch, Output, Scratch
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import absolute_position, kernel
from calor_kernel.library.matmul.problem import Operand, Product

# The largest number first.
_PARTS = (16, 8, 4, 2)
# Minimum of bytes of the K axis in a part, for which writing it pays.
_LEAST = 1024
_WIDE, _UNITS = 4, 256


@dataclass(frozen=True, slots=True)
class Divided:
    """A product with an axis of parts, and the launch that adds them to the result."""

    product: Product
    target: Scratch
    nbytes: int
    after: Launch


@kernel
def add_parts(parts: Any, c: Any, count: Any, *, many: int) -> None:
    """Add ``many`` adjacent arrays of ``count`` elements each, in their order."""
    i = absolute_position() * _WIDE
    if i < count:
        total = parts.load(i, _WIDE, align=16)
        for part in range(1, many):
            total = total + parts.load(part * count + i, _WIDE, align=16)
        c.store(i, total.to(c.dtype), align=_WIDE * c.dtype.itemsize)


def parts_of(product: Product, tiles: int, info: DeviceInfo) -> int:
    """Return the number of parts of the K axis that fills the cores; 1: no split."""
    nbytes = product.k * product.a.dtype.itemsize
    for many in _PARTS if product.batch[0] == 1 else ():
        fits = not exceeds(tiles * many, info.cores) and exceeds(nbytes, many * _LEAST - 1)
        if fits and product.k % many == 0:
            return many
    return 1


def divided(product: Product, many: int, held: int, info: DeviceInfo) -> Divided:
    """Return the product in parts; ``held``: scratch reserved already."""
    deep = product.k // many
    dtype = sums_of(product.dtype)

    def part(operand: Operand) -> Operand:
        return replace(operand, batch=(deep * operand.depth, operand.batch[1]))

    made = replace(
        product,
        batch=(many, product.batch[1]),
        k=deep,
        a=part(product.a),
        b=part(product.b),
        dtype=dtype,
    )
    count = product.batches * product.m * product.n
    target = Scratch(held)
    build = Build(
        add_parts,
        (
            Buffer(dtype, writable=False, align=16),
            Buffer(product.dtype, align=16),
            Scalar(int64, divisible=_WIDE, nonnegative=True),
        ),
        (("many", many),),
        cube=(_UNITS, 1, 1),
        plane=info.planes[0],
    )
    nbytes = many * count * dtype.itemsize
    after = Launch(
        build,
        (-(-count // (_WIDE * _UNITS)), 1, 1),
        (target, Output(0), count),
        many * count,
        nbytes + count * product.dtype.itemsize,
        f"matmul parts {many}",
    )
    return Divided(made, target, nbytes, after)


def sums_of(dtype: DType) -> DType:
    """Return the dtype of the sums for a result dtype."""
    return float32 if dtype in (float16, bfloat16) else dtype
