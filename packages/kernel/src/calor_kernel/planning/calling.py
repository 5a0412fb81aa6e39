"""Bound calls of plans, described for compilation by a device.

Requirements: a compiled call behaves like the fast path of a plan; a plan without one has nothing
to compile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from calor.backends.calls import BoundCall, Look, Made
from calor_kernel.device.board import zeroed
from calor_kernel.device.buffers import AdoptedBuffer, KernelBuffer
from calor_kernel.device.calls import NativeCall, Scratch
from calor_kernel.device.pool import Pool
from calor_kernel.device.protocol import Device
from calor_kernel.planning.plan import Plan

_HANDLE: Final = Look((KernelBuffer, AdoptedBuffer), {}, "handle")
_PLAINLY: Final = KernelBuffer.__del__
_LOCK: Final = threading.Lock()


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
