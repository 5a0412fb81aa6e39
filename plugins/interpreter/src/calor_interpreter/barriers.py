"""Barriers and fences: the ordering of units and of cubes.

Requirements: a barrier that some of its units do not reach is an error here, because hardware hangs
or continues with some of them. A clock records the order of barriers for the race detector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor_interpreter.machine import WARPGROUP, Batch, Compiler, Step, cluster_of
from calor_interpreter.roles import wait_named
from calor_kernel.ir.nodes import Operation

Array = np.ndarray[Any, Any]


def together(batch: Batch, operation: Operation, group: int) -> None:
    """Fail unless all units of each group are active, or none."""
    if batch.mask is None or group == 1 or not batch.launch.checks:
        return
    rows = _groups(batch, group)
    active = batch.mask.take(rows).sum(axis=1)
    bad = (active != 0) & (active != group)
    if group == batch.units:
        # The other units have ended.
        bad &= ~np.isin(active, batch.launch.kernel.attributes.get("teams", ()))
    if bad.any():
        first = int(np.argmax(bad))
        lane = int(rows[first, np.argmax(batch.mask[rows[first]])])
        batch.fail(
            operation,
            "barrier",
            lane,
            f"{active[first]} of {group} units reach it; move it out of the branch or loop that "
            f"the others do not take",
        )


def _groups(batch: Batch, group: int) -> Array:
    """Return the units of each group of a cube or cluster, without an incomplete group."""
    size = max(batch.units, group)
    per_cube = batch.every.reshape(-1, size)
    return per_cube[:, : size // group * group].reshape(-1, group)


def barrier_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of a barrier."""
    scope, count = operation.attributes.get("scope", "cube"), operation.attributes.get("count", 0)
    name = operation.attributes.get("name", 0)
    kernel = compiler.kernel
    sizes = {"unit": 1, "plane": kernel.plane, "warpgroup": kernel.plane * WARPGROUP}
    group = min(sizes.get(scope, kernel.units), kernel.units)
    if scope == "cluster":
        group = kernel.units * cluster_of(kernel)

    def step(batch: Batch) -> None:
        if count:
            wait_named(batch, operation, name, count)
            return
        together(batch, operation, group)
        batch.launch.clock += 1
        batch.last_meeting = _now(batch, batch.last_meeting)
        if len(batch.known):
            _tell(batch, group)
        # Without vector clocks, a warpgroup's barrier counts as its cube's: fewer races are found,
        # and none falsely.
        if scope not in ("unit", "plane") and not (scope == "warpgroup" and len(batch.known)):
            batch.passed(_now(batch, batch.last_barrier))

    return step


def _tell(batch: Batch, group: int) -> None:
    """Share the knowledge of each group's active units among them."""
    rows = _groups(batch, group)
    told, active = batch.known[rows].max(axis=1), batch.active()[rows]
    members = (np.arange(len(rows))[:, None], rows % batch.peers)
    told[members] = np.where(active, batch.launch.clock, told[members])
    batch.known[rows] = np.where(active[:, :, None], told[:, None], batch.known[rows])


def _now(batch: Batch, before: Array) -> Array:
    if batch.mask is None:
        return np.full(batch.lanes, batch.launch.clock)
    return np.where(batch.mask, batch.launch.clock, before)


def fence_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of a fence."""
    order = operation.attributes.get("order", "acq_rel")

    def step(batch: Batch) -> None:
        publish(batch, order)
        adopt(batch, order)

    return step


def publish(batch: Batch, order: str) -> None:
    """Note a release by the active units' cubes, if the order includes one."""
    if order in ("release", "acq_rel", "seq_cst"):
        batch.launch.clock += 1
        batch.launch.published = True
        batch.launch.released[_cubes(batch)] = batch.launch.clock


def adopt(batch: Batch, order: str) -> None:
    """Note an acquire by the active units' cubes, if the order includes one."""
    if order in ("acquire", "acq_rel", "seq_cst"):
        batch.launch.clock += 1
        batch.launch.acquired[_cubes(batch)] = batch.launch.clock


def _cubes(batch: Batch) -> Array:
    here = np.arange(batch.first, batch.first + batch.count)
    if batch.mask is None:
        return here
    return here[batch.mask.reshape(batch.count, batch.units).any(axis=1)]
