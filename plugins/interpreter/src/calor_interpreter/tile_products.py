"""Products of tiles in memory: the sums of a block, read and written with bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor_interpreter.machine import Batch, Compiler, Step
from calor_interpreter.memory import reach
from calor_kernel.ir.nodes import Operation
from calor_kernel.language.tiles import TILE, terms

Array = np.ndarray[Any, Any]


def product_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that multiplies a block; float sums are added term by term, as elsewhere.

    Of operands in parts the products are added whose numbers are less than the parts in sum.
    """
    said, memory = operation.attributes, operation.memory
    assert memory is not None
    numbers = [compiler.number(m) for m in (memory, said["source"], said["right"])]
    slots = compiler.slots(operation.operands)
    high, wide = TILE * said["rows"], TILE * said["columns"]
    count = terms(said["source"].type.dtype)
    group = count // TILE
    host = memory.type.dtype.numpy
    parts = range(said["parts"])
    pairs = [(i, j) for i in parts for j in parts if i + j < said["parts"]]

    def taken(batch: Batch, number: int, index: Array) -> Array:
        """Return the elements at indices of shape (lanes, n)."""
        state = batch.states[number]
        places, needed = reach(batch, operation, state, index, None)
        if batch.launch.checks and state.watch is not None:
            state.watch.read(batch, operation, state, places, needed)
        found: Array = state.data.take(places).astype(host)
        return found

    def step(batch: Batch) -> None:
        # The operand behind the steps is only prefetched.
        to, a_at, a_stride, b_at, b_stride, steps, _, a_part, b_part = (
            batch.full(batch.values[s]) for s in slots
        )
        lanes = batch.lanes
        index = to[:, None] + np.arange(high * wide)
        sums = np.zeros((lanes, high, wide), host)
        if said["add"]:
            sums += taken(batch, numbers[0], index).reshape(sums.shape)
        rows, columns = np.arange(high), np.arange(wide)
        for turn in range(int(steps.max(initial=0))):
            going = turn < steps
            for term in range(count):
                line, within = turn * TILE + term // group, term % group
                left = a_at[:, None] + rows * a_stride[:, None] + turn * count + term
                right = b_at[:, None] + line * b_stride[:, None] + columns * group + within
                left = np.where(going[:, None], left, a_at[:, None])
                right = np.where(going[:, None], right, b_at[:, None])
                xs = [taken(batch, numbers[1], left + i * a_part[:, None]) for i in parts]
                ys = [taken(batch, numbers[2], right + i * b_part[:, None]) for i in parts]
                for i, j in pairs:
                    product = xs[i][:, :, None] * ys[j][:, None, :]
                    sums += np.where(going[:, None, None], product, 0)
        state = batch.states[numbers[0]]
        places, needed = reach(batch, operation, state, index, None)
        values = sums.reshape(lanes, -1)
        if batch.launch.checks and state.watch is not None:
            state.watch.write(batch, operation, state, places, needed)
        if needed is None:
            state.data[places] = values
        else:
            mask = np.broadcast_to(needed, places.shape)
            state.data[places[mask]] = values[mask]

    return step
