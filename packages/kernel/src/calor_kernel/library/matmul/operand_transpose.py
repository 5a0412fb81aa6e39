"""Operands copied so that they lie along the summed axis, for instructions that read them so.

Requirements: an operand that lies so already is left alone; a copy has one product where all take
the same, and is kept with what does not change, as weights do not.
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
    """A product of copies: where its operands are, the launches that copy, and their memory."""

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
    """Return a product with operands along the summed axis; ``held``: scratch there already is.

    ``right``: whether the right operand is turned too.
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
