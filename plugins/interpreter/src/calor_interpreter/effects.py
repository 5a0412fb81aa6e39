"""Operations with a check or an effect of their own: divisions, shifts, prints, assertions.

Requirements: a kernel must not reach a case that C leaves undefined. A constant that excludes the
case makes the check free.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor_interpreter.arithmetic import ARITHMETIC
from calor_interpreter.machine import Batch, Compiler, Step
from calor_kernel.ir.nodes import Operation

Array = np.ndarray[Any, Any]


def _first(batch: Batch, bad: Array) -> int | None:
    """Return the first active unit with a violation, None if there is none."""
    if not bad.any():
        return None
    wrong = bad if bad.ndim == 1 else bad.any(axis=1)
    wrong = np.broadcast_to(wrong, batch.lanes) & batch.active()
    return int(np.argmax(wrong)) if wrong.any() else None


def division_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of quotient or modulo, which fails for 0 and on overflow."""
    plain = compiler.apply(operation, ARITHMETIC[operation.name])
    a, b = compiler.slots(operation.operands)
    dtype, known = operation.operands[0].type.dtype, operation.operands[1].known
    if isinstance(known, int) and known not in (0, -1):
        return plain
    lowest = np.iinfo(dtype.numpy).min if dtype.kind == "int" else None

    def step(batch: Batch) -> None:
        if batch.launch.checks:
            x, y = batch.values[a], batch.values[b]
            lane = _first(batch, y == 0)
            if lane is not None:
                batch.fail(operation, "division", lane, "the divisor is 0; select another one")
            if lowest is not None and (y == -1).any():
                lane = _first(batch, (y == -1) & (x == lowest))
                if lane is not None:
                    batch.fail(operation, "division", lane, f"{lowest} / -1 has no result")
        plain(batch)

    return step


def shift_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of a shift, which fails for a distance beyond the type's width."""
    plain = compiler.apply(operation, ARITHMETIC[operation.name])
    distance = compiler.slot(operation.operands[1])
    bits = operation.operands[0].type.dtype.itemsize * 8
    known = operation.operands[1].known
    if isinstance(known, int) and 0 <= known < bits:
        return plain

    def step(batch: Batch) -> None:
        if batch.launch.checks:
            by = batch.values[distance]
            lane = _first(batch, (by < 0) | (by >= bits))
            if lane is not None:
                found = np.broadcast_to(by, (batch.lanes, *by.shape[1:]))[lane]
                message = f"a shift by {found} of a type of {bits} bits"
                batch.fail(operation, "shift", lane, message)
        plain(batch)

    return step


def print_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that prints a line per active unit, in order."""
    slots, text = compiler.slots(operation.operands), operation.attributes["text"]

    def step(batch: Batch) -> None:
        rows = [batch.full(batch.values[s]) for s in slots]
        for lane in np.flatnonzero(batch.active()):
            batch.launch.output(text.format(*(row[lane].tolist() for row in rows)))

    return step


def assert_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of an assertion."""
    (condition,), text = compiler.slots(operation.operands), operation.attributes.get("text", "")

    def step(batch: Batch) -> None:
        lane = _first(batch, ~batch.values[condition])
        if lane is not None:
            batch.fail(operation, "assert", lane, text or "the condition does not hold")

    return step
