"""The short way through a plan: a call of a few small kernels costs little more than they do.

Requirements: for a plan with one result whose memory is at hand, and nothing else to see to; when
anything is unusual the plan's own way is taken, from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from calor_kernel.runtime.buffers import KernelBuffer

if TYPE_CHECKING:
    from calor_kernel.planning.plan import Plan

_new = object.__new__
Way = Callable[[Sequence[Any]], list[Any] | None]


def short_way(plan: Plan) -> Way | None:
    """Return what runs a plan, or returns None where it did nothing; None for other plans."""
    base, engine, pool = plan.base, plan.engine, plan.pool
    if len(base.fresh) != 1 or len(base.recording.lists) != 1:
        return None
    if plan.keeper is not None or plan.block_bytes or engine.tells_late:
        return None
    native = plan.queue.direct(base.recording.lists[0])
    if native is None:
        return None
    ((_, idle, _, nbytes),) = base.fresh
    required, given = base.required, plan.given
    nothing, constants = engine.nothing.handle, plan.constants_handle
    arenas = None if base.arena is None else base.arena[0]

    def run(inputs: Sequence[Any]) -> list[Any] | None:
        if pool.in_use + required > pool.ceiling or engine.profiler is not None:
            return None
        arena = nothing
        try:
            if arenas is not None:
                arena = arenas.pop()
            handle = idle.pop()
        except IndexError:
            if arena is not nothing:
                arenas.append(arena)  # type: ignore[union-attr]
            return None
        pool.in_use += nbytes
        made = _new(KernelBuffer)
        made.pool = pool
        made.handle = handle
        made.idle = idle
        made.nbytes = nbytes
        made.outcomes = ()
        made.stamp = 0
        made._window = None
        try:
            handles = [inputs[i].handle for i in given]
            native(*handles, constants, nothing, arena, nothing, handle)
        finally:
            if arena is not nothing:
                arenas.append(arena)  # type: ignore[union-attr]
        return [made]

    return run
