"""Operands copied to be dense along the K axis, for instructions that need that.

Requirements: an operand that is dense along K is not copied. A copy holds one product if all
products share the operand, and is cached if the operand is constant, as weights are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Launch, Scratch, View, row_major
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.redirection import copy_to_scratch


@dataclass(frozen=True, slots=True)
class Turned:
    """A product of copied operands: their positions, the launches of the copies, and memory."""

    product: Product
    places: tuple[Argument, ...]
    before: tuple[Launch, ...]
    scratch: tuple[int, ...]


def turned(
    product: Product,
    places: Sequence[Argument],
    held: int,
    info: DeviceInfo,
    *,
    right: bool = True,
) -> Turned:
    """Return a product with operands dense along K; ``held``: scratch reserved already.

    ``right``: whether the right operand is transposed too.
    """
    made, launches, sizes = list(places), list[Launch](), list[int]()
    operands = []
    for number, (operand, size) in enumerate(((product.a, product.m), (product.b, product.n))):
        if operand.depth == 1 or (number == 1 and not right):
            operands.append(operand)
            continue
        pairs = zip(product.batch, operand.batch, strict=True)
        lead = [n if n > 1 and s != 0 else 1 for n, s in pairs]
        shape = (*lead, size, product.k)
        strides = (*operand.batch, operand.free, operand.depth)
        view = View(shape, strides, operand.dtype, operand.offset)
        place = Scratch(held + len(sizes))
        copies = copy_to_scratch(view, made[number], place.number, info)
        launches += [replace(launch, prepares=True) for launch in copies]
        sizes.append(view.size * operand.dtype.itemsize)
        made[number] = place
        dense = row_major(shape)
        outer, inner = (s if n > 1 else 0 for n, s in zip(lead, dense[:2], strict=True))
        operands.append(Operand((outer, inner), product.k, 1, 0, operand.dtype))
    a, b = operands
    return Turned(replace(product, a=a, b=b), tuple(made), tuple(launches), tuple(sizes))
