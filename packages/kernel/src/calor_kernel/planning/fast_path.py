"""The fast path of a plan: a call of a few small kernels costs little more than they do.

Requirements: it serves plans with one result, available memory and no special cases; anything
unusual takes the plan's normal path from the start. Status words stay zero from call to call, so
reading them is their only cost. A bound call compiled by a device behaves like this path.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from calor.backends.calls import BoundCall, Look, Made
from calor.counting import ONE_AT_A_TIME, count
from calor_kernel.device.board import Words, words_at, zeroed
from calor_kernel.device.buffers import AdoptedBuffer, KernelBuffer
from calor_kernel.device.calls import NativeCall, Scratch
from calor_kernel.device.outcomes import pending
from calor_kernel.device.pool import Pool
from calor_kernel.device.protocol import Device
from calor_kernel.planning.plan import Plan, Short

_HANDLE: Final = Look((KernelBuffer, AdoptedBuffer), {}, "handle")
_PLAINLY: Final = KernelBuffer.__del__
_LOCK: Final = threading.Lock()


def short_way(plan: Plan) -> Short | None:
    """Return the fast path of a plan, or None if it has none; it returns None if it did nothing."""
    if len(plan.output_bytes) != 1 or plan.keeper is not None or plan.draft.host_bytes:
        return None
    base, engine, pool = plan.base, plan.engine, plan.pool
    if len(base.recording.lists) != 1:
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
        if ONE_AT_A_TIME:
            pool.in_use += nbytes
        else:
            count(pool, nbytes)
        made = KernelBuffer(pool, handle, idle, nbytes)
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
    {adding}
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
        "count": count,
        "engine": plan.engine,
        "required": plan.base.required,
        "idle": idle,
        "nbytes": nbytes,
        "new": object.__new__,
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
    adding = "pool.in_use += nbytes" if ONE_AT_A_TIME else "count(pool, nbytes)"
    text = _SHORTEST.format(handles=handles, late=late, adding=adding)
    exec(compile(text, "<a plan>", "exec"), scope)
    way: Short = scope["run"]
    return way


def caller(executable: Any, call: BoundCall) -> Callable[..., Any] | None:
    """Return a plan's bound call, compiled by its device; None if it cannot be compiled."""
    plan = executable.settled if isinstance(executable, Plan) else None
    if plan is None or plan.short is None or not _gives_back(plan.engine.device):
        return None
    ((_, idle, _, nbytes),) = plan.base.fresh
    operands = [replace(o, looks=(*o.looks, _HANDLE)) for o in call.operands]
    nothing: Any = plan.engine.nothing.handle
    # The memory of the words lives as long as the call.
    block = zeroed(plan.pool, plan.block_bytes) if plan.status else None
    words = nothing if block is None else Scratch([block.handle], tuple(plan.status.values()))
    arena = nothing if plan.base.arena is None else Scratch(plan.base.arena[0])
    kept = {"pool": plan.pool, "idle": idle, "nbytes": nbytes}
    whole = NativeCall(
        arguments=call.arguments,
        same=(*call.same, (plan.engine, "profiler", None)),
        thread=call.thread,
        operands=tuple(operands),
        slots=tuple(plan.given),
        fixed=(plan.constants_handle, words, arena, nothing),
        scratch=tuple(s for s in (words, arena) if isinstance(s, Scratch)),
        recorded=plan.base.recording.lists[0],
        pool=plan.pool,
        idle=idle,
        nbytes=nbytes,
        required=plan.base.required,
        made=(
            Made(KernelBuffer, {**kept, "outcomes": (), "stamp": 0, "_window": None}, "handle"),
            *call.made,
        ),
        otherwise=call.otherwise,
    )
    made: Callable[..., Any] | None = plan.engine.device.caller(whole, keep=(plan, block))
    return made


def _gives_back(device: Device) -> bool:
    """Let compiled code release buffers; False if the device cannot."""
    with _LOCK:
        if KernelBuffer.__del__ is _PLAINLY:
            finalizer = device.finalizer(KernelBuffer, Pool)
            if finalizer is None:
                return False
            KernelBuffer.__del__ = finalizer  # type: ignore[method-assign]
    return True
