"""Intrinsics on lanes: the reference, with a check of its result against the signature.

Requirements: a reference is user-written NumPy code, so its result is checked before any use.
"""

from __future__ import annotations

import numpy as np

from calor_interpreter.machine import Batch, Compiler, Step
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.nodes import Operation


def inline_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of an intrinsic."""
    intrinsic = operation.attributes["intrinsic"]
    operands = compiler.slots(operation.operands)
    results = compiler.slots(operation.results)

    def step(batch: Batch) -> None:
        given = [batch.values[s] for s in operands]
        made = intrinsic.reference(*given)
        if not results:
            return
        type = operation.result.type
        rows = max((len(v) for v in given), default=1)
        wanted = (rows,) if type.width == 1 else (rows, type.width)
        made = np.asarray(made)
        if made.dtype != type.dtype.numpy or made.shape != wanted:
            raise KernelTypeError(
                f"the reference of intrinsic {intrinsic.name} returns {made.dtype} of shape "
                f"{made.shape}; its signature says {type}, so {type.dtype.numpy} of {wanted}"
            )
        batch.values[results[0]] = made

    return step
