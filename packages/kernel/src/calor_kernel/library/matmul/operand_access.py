"""How a product's operands lie, for kernels that read them in whole accesses.

Requirements: kernels without bounds inside an access ask here whether accesses end where rows do,
and whether indices of 32 bits reach all of an operand.
"""

from __future__ import annotations

from calor_kernel.library.gemm.mma import ACCESS
from calor_kernel.library.matmul.problem import Operand, Product

# What a tile reaches over the end of an operand is not counted.
_NARROW = (1 << 31) - (1 << 24)


def access_of(product: Product) -> int:
    """Return the elements of an access."""
    return int(ACCESS // product.a.dtype.itemsize)


def in_accesses(product: Product, count: int) -> bool:
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


def narrow(product: Product) -> bool:
    """Return whether every place in the operands and the result is a number of 32 bits."""
    ends = [product.m * product.n * product.batches]
    for operand, size in ((product.a, product.m), (product.b, product.n)):
        sizes = (*product.batch, size, product.k)
        steps = (*operand.batch, operand.free, operand.depth)
        if any(step < 0 for step in steps):
            return False
        pairs = zip(sizes, steps, strict=True)
        ends.append(operand.offset + sum(n * step for n, step in pairs))
    return all(end < _NARROW for end in ends)
