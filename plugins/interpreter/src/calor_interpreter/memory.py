"""Loads, stores and atomics on NumPy memory, with bounds.

Requirements: one NumPy call serves all units of a batch. Every access is checked against the
memory's bounds, because NumPy's negative indices would hide a defect. Only accesses of active units
are checked and written.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any, NoReturn

import numpy as np

from calor_interpreter.arithmetic import COMBINE
from calor_interpreter.barriers import adopt, publish
from calor_interpreter.machine import Batch, Compiler, Step
from calor_interpreter.state import State
from calor_kernel.ir.nodes import Operation

Array = np.ndarray[Any, Any]
# Integers by NumPy's letter, as unsigned ones of their size, which hold sizes of so many elements.
_UNSIGNED = {np.dtype(f"i{size}").char: np.dtype(f"u{size}") for size in (4, 8)}
_FEW = 2**30


def reach(
    batch: Batch, operation: Operation, state: State, index: Array, wanted: Array | None
) -> tuple[Array, Array | None]:
    """Return the elements of an access in its memory, and the mask of accessed ones (None: all).

    ``index`` has the shape (lanes,) or (lanes, width), ``wanted`` is an access's own mask.
    """
    needed = wanted
    if batch.mask is not None:
        mask = batch.mask if index.ndim == 1 else batch.mask[:, None]
        needed = mask if wanted is None else mask & wanted
    outside = _outside(index, state)
    if np.count_nonzero(outside):
        bad = outside if needed is None else outside & needed
        if bad.any():
            bad = np.broadcast_to(bad, np.broadcast_shapes(bad.shape, (batch.lanes, 1)[: bad.ndim]))
            lane, *rest = (int(i) for i in np.argwhere(bad)[0])
            at = int(np.broadcast_to(index, bad.shape)[(lane, *rest)])
            _fail_outside(batch, operation, state, lane, at)
        index = np.where(outside, state.low, index)
    return state.places(index), needed


def _outside(index: Array, state: State) -> Array:
    """Return which indices are not valid: by one comparison, as negative numbers are large."""
    unsigned = _UNSIGNED.get(index.dtype.char)
    if unsigned is None or state.low < -_FEW:
        return (index < state.low) | (index >= state.high)
    places = index.view(unsigned)
    if state.low:
        places = places + -state.low
    return places >= state.high - state.low


def reach_each(
    batch: Batch, operation: Operation, state: State, index: Array, lanes: Array
) -> Array:
    """Return the elements of single-element accesses, made by the units one after another."""
    outside = _outside(index, state)
    if np.count_nonzero(outside):
        first = int(np.argmax(outside))
        _fail_outside(batch, operation, state, int(lanes[first]), int(index[first]))
    return np.asarray(index + (state.base if isinstance(state.base, int) else state.base[lanes]))


def _fail_outside(
    batch: Batch, operation: Operation, state: State, lane: int, index: int
) -> NoReturn:
    message = (
        f"outside of its elements {state.low} to {state.high - 1}"
        if state.low
        else f"outside of its {state.high} elements"
    )
    batch.fail(operation, "bounds", lane, message, memory=state.memory.name, index=index)


def _claim(operation: Operation) -> int:
    """Return an access's claimed alignment in bytes, beyond its element's size."""
    claim: int = operation.attributes.get("align", 0)
    assert operation.memory is not None
    return claim if claim > operation.memory.type.nbytes else 0


def aligned(
    batch: Batch,
    operation: Operation,
    state: State,
    places: Array,
    needed: Array | None,
    claim: int,
) -> None:
    """Fail if an access's first element is not aligned as claimed.

    A device aligns allocations to any claim; a kernel's own memory is aligned as declared, and to
    its elements.
    """
    memory = state.memory
    starts = places if places.ndim == 1 else places[:, 0]
    own = memory.space != "global"
    offsets = starts - state.base if own else starts
    bad = offsets % (claim // gcd(claim, memory.type.nbytes)) != 0
    if own and max(memory.align, memory.type.nbytes) % claim:
        bad = np.ones_like(bad)
    if np.count_nonzero(bad):
        bad = np.broadcast_to(bad, batch.lanes) & batch.active()
        if needed is not None:
            bad = bad & np.broadcast_to(needed if needed.ndim == 1 else needed.any(1), batch.lanes)
        if bad.any():
            lane = int(np.argmax(bad))
            index = int(np.broadcast_to(starts, batch.lanes)[lane]) - state.start(lane)
            message = f"its address does not divide by {claim} bytes, which align= claims"
            batch.fail(operation, "align", lane, message, memory=memory.name, index=index)


def load_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of a load."""
    number = compiler.number(operation.memory)
    place, *given = compiler.slots(operation.operands)
    result, width = compiler.slot(operation.result), operation.result.type.width
    spread = np.arange(width) if operation.operands[0].type.width < width else None
    claim, order = _claim(operation), operation.attributes.get("order", "")
    masked = bool(given)
    mask, other = given or (0, 0)

    def step(batch: Batch) -> None:
        values, state = batch.values, batch.states[number]
        index = values[place]
        wanted = values[mask] if masked else None
        if spread is not None:
            index = index[:, None] + spread
        places, needed = reach(batch, operation, state, index, wanted)
        if batch.launch.checks:
            if claim:
                aligned(batch, operation, state, places, needed, claim)
            if state.watch is not None:
                if order:
                    adopt(batch, order)
                state.watch.read(batch, operation, state, places, needed, bool(order))
        if state.data.size:
            loaded = state.data.take(places)
        else:
            loaded = np.zeros(places.shape, state.data.dtype)
        values[result] = loaded if wanted is None else np.where(wanted, loaded, values[other])

    return step


def store_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of a store."""
    number = compiler.number(operation.memory)
    place, given, *masks = compiler.slots(operation.operands)
    width = operation.operands[1].type.width
    claim, order = _claim(operation), operation.attributes.get("order", "")
    spread = np.arange(width) if operation.operands[0].type.width < width else None

    def step(batch: Batch) -> None:
        values, state = batch.values, batch.states[number]
        index, value = values[place], values[given]
        wanted = values[masks[0]] if masks else None
        if spread is not None:
            index = index[:, None] + spread
        places, needed = reach(batch, operation, state, index, wanted)
        if batch.launch.checks:
            if claim:
                aligned(batch, operation, state, places, needed, claim)
            if state.watch is not None:
                if order:
                    publish(batch, order)
                state.watch.write(batch, operation, state, places, needed, bool(order))
        if needed is None:
            if len(places) < len(value):
                places = batch.full(places)
            state.data[places] = value
            return
        places, value, chosen = batch.full(places), batch.full(value), batch.full(needed)
        if places.ndim == 2 and chosen.shape[1] == 1:
            chosen = chosen[:, 0]
        state.data[places[chosen]] = value[chosen]

    return step


def select_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that gives a memory the state of the one with a number; of one cube."""
    made = compiler.number(operation.memory)
    (place,) = compiler.slots(operation.operands)
    numbers = [compiler.number(m) for m in operation.attributes["memories"]]

    def step(batch: Batch) -> None:
        given = np.broadcast_to(batch.values[place], batch.lanes)
        active = np.flatnonzero(batch.active())
        if not active.size:
            return
        chosen = given[active]
        if (chosen != chosen[0]).any() or not 0 <= chosen[0] < len(numbers):
            message = f"it selects {sorted(set(chosen.tolist()))} of {len(numbers)} memories"
            lane = int(active[np.argmax(chosen != chosen[0])])
            batch.fail(operation, "selection", lane, f"{message}; a cube selects one of them")
        batch.states[made] = batch.states[numbers[int(chosen[0])]]

    return step


def atomic_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of an atomic, done by one unit after another."""
    number = compiler.number(operation.memory)
    place, *given = compiler.slots(operation.operands)
    result, kind = compiler.slot(operation.result), operation.attributes["kind"]
    order = operation.attributes.get("order", "")

    def step(batch: Batch) -> None:
        values, state = batch.values, batch.states[number]
        places, needed = reach(batch, operation, state, values[place], None)
        if batch.launch.checks and state.watch is not None:
            publish(batch, order)
            state.watch.write(batch, operation, state, places, needed, True)
            adopt(batch, order)
        places = batch.full(places)
        operands = [batch.full(values[s]) for s in given]
        old = np.zeros(batch.lanes, state.data.dtype)
        lanes = batch.every if needed is None else np.flatnonzero(needed)
        for now in _turns(places[lanes], lanes):
            where = places[now]
            found = state.data[where]
            old[now] = found
            state.data[where] = _changed(kind, found, *(v[now] for v in operands))
        values[result] = old

    return step


def _turns(places: Array, lanes: Array) -> Iterator[Array]:
    """Yield lanes in turns: in each turn, the first lane waiting for each element."""
    if not lanes.size:
        return
    order = np.argsort(places, kind="stable")
    sorted_places = places[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = sorted_places[1:] != sorted_places[:-1]
    starts = np.flatnonzero(first)
    turn = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    by_turn = lanes[order[np.argsort(turn, kind="stable")]]
    yield from np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])


def _changed(kind: str, found: Array, value: Array, new: Array | None = None) -> Array:
    if kind == "exchange":
        return value
    if kind == "compare":
        assert new is not None
        return np.where(found == value, new, found)
    return COMBINE[kind](found, value)
