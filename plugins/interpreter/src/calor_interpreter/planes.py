"""Plane operations: shuffle, reduce, scan and vote.

Requirements: any plane size is supported, also one unit. All units of a plane reach the operation
or none, as on hardware. Sums add halves first, and scans start at the first lane, so results are
independent of the execution order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor_interpreter.arithmetic import COMBINE
from calor_interpreter.barriers import together
from calor_interpreter.machine import Batch, Compiler, Step
from calor_interpreter.vectors import halves
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.nodes import Operation

Array = np.ndarray[Any, Any]


def plane_size(compiler: Compiler, operation: Operation) -> int:
    """Return the units per plane; KernelTypeError if a cube has no whole number of planes."""
    kernel = compiler.kernel
    if kernel.units % kernel.plane:
        raise KernelTypeError(
            f"kernel {kernel.name} has {operation.name} and {kernel.units} units a cube, which "
            f"is no whole number of planes of {kernel.plane}"
        )
    return kernel.plane


def shuffle_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of a shuffle; up and down keep a unit's own value at the ends."""
    plane = plane_size(compiler, operation)
    value, lane = compiler.slots(operation.operands)
    result, kind = compiler.slot(operation.result), operation.attributes.get("kind", "index")

    def step(batch: Batch) -> None:
        together(batch, operation, plane)
        place = batch.every % plane
        given = batch.values[lane].astype(np.int64)
        if kind == "index":
            other = np.broadcast_to(given, place.shape)
        elif kind == "xor":
            other = place ^ given
        else:
            other = place + (given if kind == "down" else -given)
            other = np.where((other < 0) | (other >= plane), place, other)
        outside = ((other < 0) | (other >= plane)) & batch.active()
        if outside.any():
            first = int(np.argmax(outside))
            batch.fail(operation, "plane", first, f"a plane has no lane {other[first]}")
        source = batch.every - place + np.clip(other, 0, plane - 1)
        batch.values[result] = batch.full(batch.values[value])[source]

    return step


def reduce_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of a reduction over planes."""
    plane = plane_size(compiler, operation)
    (value,), result = compiler.slots(operation.operands), compiler.slot(operation.result)
    kind = operation.attributes["kind"]

    def step(batch: Batch) -> None:
        together(batch, operation, plane)
        rows = _rows(batch, batch.values[value], plane)
        batch.values[result] = _units(np.repeat(halves(kind, rows)[..., None], plane, axis=-1))

    return step


def scan_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of a scan over planes."""
    plane = plane_size(compiler, operation)
    (value,), result = compiler.slots(operation.operands), compiler.slot(operation.result)
    kind, exclusive = operation.attributes["kind"], operation.attributes.get("exclusive", False)
    combine = COMBINE[kind]
    neutral = identity(kind, operation.result.type.dtype.numpy)

    def step(batch: Batch) -> None:
        together(batch, operation, plane)
        rows = _rows(batch, batch.values[value], plane)
        made = np.empty_like(rows)
        total = np.full(rows.shape[:-1], neutral, rows.dtype)
        for i in range(plane):
            if exclusive:
                made[..., i] = total
            total = rows[..., i] if i == 0 else combine(total, rows[..., i])
            if not exclusive:
                made[..., i] = total
        batch.values[result] = _units(made)

    return step


def ballot_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of a vote."""
    plane = plane_size(compiler, operation)
    (value,), result = compiler.slots(operation.operands), compiler.slot(operation.result)
    host = operation.result.type.dtype.numpy
    bits = np.left_shift(host.type(1), np.arange(plane, dtype=host))

    def step(batch: Batch) -> None:
        together(batch, operation, plane)
        rows = _rows(batch, batch.values[value], plane)
        votes = np.where(rows, bits, host.type(0)).sum(axis=-1, dtype=host)
        batch.values[result] = np.repeat(votes, plane)

    return step


def identity(kind: str, host: np.dtype[Any]) -> Any:
    """Return the identity element of a reduction."""
    if kind in ("add", "or", "xor"):
        return host.type(0)
    if kind == "mul":
        return host.type(1)
    if kind == "and":
        return np.invert(host.type(0))
    if host.kind in "iu":
        limits = np.iinfo(host)
        return host.type(limits.max if kind == "min" else limits.min)
    return host.type(np.inf if kind == "min" else -np.inf)


def _rows(batch: Batch, value: Array, plane: int) -> Array:
    """Return a value with the plane's units last: (planes, plane) or (planes, width, plane)."""
    full = batch.full(value)
    if full.ndim == 1:
        return full.reshape(-1, plane)
    return np.moveaxis(full.reshape(-1, plane, full.shape[1]), 1, -1)


def _units(rows: Array) -> Array:
    """Return rows of planes as one row per unit."""
    if rows.ndim == 2:
        return rows.reshape(-1)
    return np.moveaxis(rows, -1, 1).reshape(-1, rows.shape[1])
