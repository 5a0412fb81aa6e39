"""The plans of a device: executables by the key of what they compute."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from calor.backends.device import Device
from calor.backends.protocol import Executable
from calor.collecting import collecting_later
from calor.compiling.limits import Limit, compile_within
from calor.compiling.partition import compile_graph
from calor.compiling.pending import compile_pending
from calor.graph.graph import Graph

PLAN_LIMIT: Final = 1024


def plan_for(
    device: Device,
    key: Any,
    build: Callable[[], Graph],
    *,
    jit: bool = False,
    limit: Limit | None = None,
    name: str = "the program",
) -> Executable:
    """Return the executable for a key, building and compiling its graph the first time.

    Parameters
    ----------
    device : Device
        The device that compiles and keeps the executable.
    key : hashable
        What the graph computes; equal for graphs of equal structure.
    build : callable
        Returns the graph; called when there is no executable for the key.
    jit : bool, optional
        Whether the graph is a program, and not what happens to be pending at a look: a device that
        is not interactive compiles nothing else.
    limit : Limit, optional
        The memory that a call of a program may take; part of the key.
    name : str, optional
        What the program is called in errors.

    Returns
    -------
    Executable
        The executable of that key, kept until a thousand others were asked for after it was made.
    """
    found = device.plans.get(key)
    if found is None:
        with collecting_later():
            if limit is not None:
                found = compile_within(device, build(), limit, name)
            else:
                found = compile_graph(device, build()) if jit else compile_pending(device, build())
        device.plans_made += 1
        device.plans[key] = found
        if len(device.plans) > PLAN_LIMIT:
            # Another thread may drop the same one.
            with suppress(KeyError):
                device.plans.popitem(last=False)
    return found
