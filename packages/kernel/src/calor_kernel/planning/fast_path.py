"""The fast path of a plan: a call of a few small kernels costs little more than they do.

Requirements: it serves plans with one result, available memory and no special cases; anything
unusual takes the plan's normal path from the start. Status words stay zero from call to call, so
reading them is their only cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calor_kernel.device.board import Words, words_at
from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.device.outcomes import pending
from calor_kernel.planning.plan import Plan, Short

_new = object.__new__


def short_way(plan: Plan) -> Short | None:
    """Return the fast path of a plan, or None if it has none; it returns None if it did nothing."""
    base, engine, pool = plan.base, plan.engine, plan.pool
    if len(base.fresh) != 1 or len(base.recording.lists) != 1:
        return None
    if plan.keeper is not None or plan.draft.host_bytes:
        return None
    native = plan.queue.direct(base.recording.lists[0])
    if native is None:
        return None
    ((_, idle, _, nbytes),) = base.fresh
    required, given = base.required, plan.given
    nothing, constants, late = engine.nothing.handle, plan.constants_handle, engine.tells_late
    arenas = None if base.arena is None else base.arena[0]
    failing = bool(plan.status)
    if arenas is None and not failing:
        return _shortest(plan, native)
    # With deferred failures a run's words are on a board, else in an exclusive block.
    board, noting, block_bytes = engine.board, late and failing, plan.block_bytes
    failing = failing and not late
    told = plan.depends[0][1]
    # Blocks of zeroed words; a call takes one exclusively.
    blocks: list[Words] = []
    none = Words(engine.nothing, ())

    def run(inputs: Sequence[Any]) -> list[Any] | None:
        if pool.in_use + required > pool.ceiling or engine.profiler is not None:
            return None
        if late and any(inputs[i].outcomes and pending(inputs[i]) for i in given):
            return None
        arena, words, page = nothing, none, None
        if failing:
            try:
                words = blocks.pop()
            except IndexError:
                words = words_at(pool, block_bytes, plan.status.values())
        try:
            if arenas is not None:
                arena = arenas.pop()
            handle = idle.pop()
        except IndexError:
            if arena is not nothing:
                arenas.append(arena)  # type: ignore[union-attr]
            if failing:
                blocks.append(words)
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
        block = words.block.handle
        try:
            if noting:
                page, start, block = board.take(block_bytes, False)
            native(*[inputs[i].handle for i in given], constants, block, arena, nothing, handle)
            if page is not None:
                own, page = board.put(page, start, plan), None
                if told:
                    made.outcomes = ((own, told),)
        finally:
            if arena is not nothing:
                arenas.append(arena)  # type: ignore[union-attr]
            if page is not None:
                board.leave(page)
        if failing:
            for word in words.words:
                if word.value:
                    raise next(iter(plan.errors(words.block.handle).values()))
            blocks.append(words)
        return [made]

    return run


_SHORTEST = """
def run(inputs):
    if pool.in_use + required > pool.ceiling or engine.profiler is not None{late}:
        return None
    try:
        handle = idle.pop()
    except IndexError:
        return None
    pool.in_use += nbytes
    made = new(KernelBuffer)
    made.pool = pool
    made.handle = handle
    made.idle = idle
    made.nbytes = nbytes
    made.outcomes = ()
    made.stamp = 0
    made._window = None
    native({handles} constants, nothing, nothing, nothing, handle)
    return [made]
"""


def _shortest(plan: Plan, native: Callable[..., None]) -> Short:
    """Return the generated, loop-free path of a plan without arena and words."""
    ((_, idle, _, nbytes),) = plan.base.fresh
    scope: dict[str, Any] = {
        "pool": plan.pool,
        "engine": plan.engine,
        "required": plan.base.required,
        "idle": idle,
        "nbytes": nbytes,
        "new": _new,
        "pending": pending,
        "KernelBuffer": KernelBuffer,
        "native": native,
        "constants": plan.constants_handle,
        "nothing": plan.engine.nothing.handle,
    }
    handles = " ".join(f"inputs[{i}].handle," for i in plan.given)
    # Some devices report failures late; operands may then carry a pending failure.
    depend = "".join(f" or inputs[{i}].outcomes and pending(inputs[{i}])" for i in plan.given)
    late = depend if plan.engine.tells_late else ""
    text = _SHORTEST.format(handles=handles, late=late)
    exec(compile(text, "<a plan>", "exec"), scope)
    way: Short = scope["run"]
    return way
