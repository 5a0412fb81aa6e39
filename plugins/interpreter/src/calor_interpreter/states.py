"""The memories of a launch: the kernel's own, and arguments with shared cells.

Requirements: two arguments may be one buffer, with different types and offsets (an op in place),
and races between them are detected. Memory that is only read, or private to a unit, is not watched.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from calor_interpreter.races import Shadow
from calor_interpreter.state import State, selections
from calor_interpreter.watch import Watch

if TYPE_CHECKING:
    from calor_interpreter.program import Program

Array = np.ndarray[Any, Any]


def watch_arguments(program: Program, states: Sequence[State]) -> None:
    """Attach the checks to the memories of arguments."""
    for group in _overlapping(states):
        if not any(s.memory in program.written for s in group):
            continue
        reads = any(s.memory in program.read for s in group)
        starts = [_address(s.data) for s in group]
        first = min(starts)
        stop = max(a + s.data.nbytes for a, s in zip(starts, group, strict=True))
        cell = gcd(*(a - first for a in starts), *(s.data.itemsize for s in group))
        shadow = Shadow(-(-(stop - first) // cell), reads)
        for state, start in zip(group, starts, strict=True):
            origin, cells = (start - first) // cell, state.data.itemsize // cell
            state.watch = Watch(shadow, None, origin, cells)


def _address(data: Array) -> int:
    return int(data.__array_interface__["data"][0])


def _overlapping(states: Sequence[State]) -> list[list[State]]:
    """Return the memories in groups that share bytes."""
    groups: list[list[State]] = []
    end = -1
    for state in sorted(states, key=lambda s: _address(s.data)):
        start = _address(state.data)
        if not groups or start >= end:
            groups.append([])
            end = start
        groups[-1].append(state)
        end = max(end, start + state.data.nbytes)
    return groups


def own_states(program: Program, states: Sequence[State], cubes: int, checks: bool) -> list[State]:
    """Return the states of the arguments' memories, and fresh ones of the kernel's own."""
    made = list(states)
    units = program.kernel.units
    for memory in program.kernel.memories:
        size, shared = memory.size or 0, memory.space == "shared"
        copies = cubes if shared else cubes * units
        base: int | Array = 0
        if copies > 1:
            base = np.arange(copies) * size
            if shared and units > 1:
                base = np.repeat(base, units)
        data = np.zeros(copies * size, memory.type.dtype.numpy)
        watch = None
        if checks:
            shadow = Shadow(len(data), True, True) if shared and units > 1 else None
            watch = Watch(shadow, np.ones(len(data), np.bool_))
        made.append(State(memory, data, base, 0, size, watch))
    # A selected memory has a state once it is selected.
    made += [State(m, np.zeros(0, m.type.dtype.numpy), 0, 0, 0) for m in selections(program.kernel)]
    return made
