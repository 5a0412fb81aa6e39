"""Operands copied to be dense along the K axis, for instructions that need that.

Requirements: an operand that is dense along K is not copied. A copy holds one product if all
products share the operand, and is cached if the operand is constant, as weights are.
"""

from __future__ import annotations

from calor_kernel.contract.work import View, row_major
from calor_kernel.library.matmul.problem import Operand
from calor_kernel.library.matmul.task import Task


def turned(task: Task, *, right: bool = True) -> Task:
    """Return the task with operands dense along K; ``right``: whether b is copied too."""
    product = task.product
    pairs = ((product.a, product.m), (product.b, product.n))
    for number, (operand, size) in enumerate(pairs[: 2 if right else 1]):
        if operand.depth == 1:
            continue
        lead = [
            n if n > 1 and s != 0 else 1 for n, s in zip(product.batch, operand.batch, strict=True)
        ]
        shape = (*lead, size, product.k)
        strides = (*operand.batch, operand.free, operand.depth)
        dense = row_major(shape)
        outer, inner = (s if n > 1 else 0 for n, s in zip(lead, dense[:2], strict=True))
        copy = Operand((outer, inner), product.k, 1, 0, operand.dtype)
        task = task.copied(number, View(shape, strides, operand.dtype, operand.offset), copy)
    return task
