"""Collective loads of 8 × 8 blocks of shared memory by a plane.

Requirements: each lane gives the start of one row, and receives two adjacent elements of a row, or
of a column for transposed blocks. Row starts are aligned as hardware requires.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor_interpreter.barriers import together
from calor_interpreter.machine import Batch, Compiler, Step
from calor_interpreter.memory import aligned, reach
from calor_interpreter.planes import plane_size
from calor_kernel.ir.nodes import Operation

Array = np.ndarray[Any, Any]


def load_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of a load of blocks."""
    number, plane = compiler.number(operation.memory), plane_size(compiler, operation)
    (place,), result = compiler.slots(operation.operands), compiler.slot(operation.result)
    count, transposed = operation.attributes["count"], operation.attributes["transposed"]
    lane = np.arange(plane)
    row, column = lane // 4, 2 * (lane % 4)[:, None] + np.arange(2)

    def step(batch: Batch) -> None:
        together(batch, operation, plane)
        state = batch.states[number]
        names_row = (batch.every % plane < 8 * count)[:, None]
        index = batch.full(batch.values[place])[:, None] + np.arange(8)
        places, needed = reach(batch, operation, state, index, names_row)
        if batch.launch.checks:
            aligned(batch, operation, state, places, needed, 8 * state.data.itemsize)
            if state.watch is not None:
                state.watch.read(batch, operation, state, places, needed)
        rows = state.data.take(places).reshape(-1, plane, 8)[:, : 8 * count]
        blocks = rows.reshape(-1, count, 8, 8)
        if transposed:
            blocks = blocks.swapaxes(2, 3)
        made = blocks[:, :, row[:, None], column]
        batch.values[result] = np.moveaxis(made, 1, 2).reshape(batch.lanes, 2 * count)

    return step
