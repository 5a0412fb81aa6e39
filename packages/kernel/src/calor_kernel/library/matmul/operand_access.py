"""The layout of a product's operands, for kernels that read whole accesses.

Requirements: kernels without bounds checks inside an access ask here whether accesses end where
rows do, and whether 32-bit indices reach all of an operand.
"""

from __future__ import annotations

from calor_kernel.library.gemm.mma import ACCESS
from calor_kernel.library.matmul.problem import Operand, Product

# A margin for the reach of tiles beyond the end of an operand.
_NARROW = (1 << 31) - (1 << 24)


def access_of(product: Product) -> int:
    """Return the number of elements of an access."""
    return int(ACCESS // product.a.dtype.itemsize)


def in_accesses(product: Product, count: int) -> bool:
    """Return whether accesses of ``count`` elements divide the operands and the result."""

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


def narrow(product: Product) -> bool:
    """Return whether 32-bit indices reach all operands and the result."""
    ends = [product.m * product.n * product.batches]
    for operand, size in ((product.a, product.m), (product.b, product.n)):
        sizes = (*product.batch, size, product.k)
        steps = (*operand.batch, operand.free, operand.depth)
        if any(step < 0 for step in steps):
            return False
        pairs = zip(sizes, steps, strict=True)
        ends.append(operand.offset + sum(n * step for n, step in pairs))
    return all(end < _NARROW for end in ends)
