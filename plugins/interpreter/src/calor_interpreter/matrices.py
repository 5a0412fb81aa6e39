"""Matrix products of fragments held by a plane's units.

Requirements: a fragment gives the matrix element of each register of each lane, so any
instruction's layout can be interpreted. Products and sums have the accumulator's type.

The attribute ``fragments`` holds three of them, of a, b and c; each is a table of (row, column) by
lane and register, or an object with such a table as ``coordinates``. ``shape`` is (m, n, k).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor_interpreter.barriers import together
from calor_interpreter.machine import Batch, Compiler, Step
from calor_interpreter.planes import plane_size
from calor_kernel.ir.nodes import Operation

Array = np.ndarray[Any, Any]


def mma_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of c + a @ b."""
    plane = plane_size(compiler, operation)
    m, n, k = operation.attributes["shape"]
    rows, columns = zip(*map(_table, operation.attributes["fragments"]), strict=True)
    short = [getattr(f, "tf32", False) for f in operation.attributes["fragments"]]
    slots, result = compiler.slots(operation.operands), compiler.slot(operation.result)
    host, width = operation.result.type.dtype.numpy, operation.result.type.width

    def step(batch: Batch) -> None:
        together(batch, operation, plane)
        matrices = []
        for i, shape in enumerate(((m, k), (k, n), (m, n))):
            held = batch.full(batch.values[slots[i]]).reshape(-1, plane, rows[i].shape[1])
            matrix = np.zeros((len(held), *shape), host)
            matrix[:, rows[i], columns[i]] = as_factor(held, short[i]).astype(host)
            matrices.append(matrix)
        a, b, c = matrices
        for p in range(k):
            c = c + a[:, :, p, None] * b[:, None, p, :]
        made = c[:, rows[2], columns[2]].reshape(batch.lanes, width)
        batch.values[result] = made if width > 1 else made[:, 0]

    return step


def as_factor(values: Array, short: bool) -> Array:
    """Return elements as the instruction reads them; for TF32 without the lower 13 bits."""
    if not short:
        return values
    bits = np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32)


def _table(fragment: Any) -> tuple[Array, Array]:
    """Return the row and column tables of registers, each by (lane, register)."""
    table = np.array(getattr(fragment, "coordinates", fragment))
    return table[..., 0], table[..., 1]
