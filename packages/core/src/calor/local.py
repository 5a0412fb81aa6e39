"""What a thread records on: its pending traces, the functions it traces, and its modes."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final

from calor.config import config


class _Local(threading.local):
    def __init__(self) -> None:
        # The trace of the device that was used last, and those of all devices.
        self.trace: Any = nowhere
        self.traces: dict[Any, Any] = {}
        # What interrupted flushes left, as long as somebody holds a value of it.
        self.asides: weakref.WeakSet[Any] = weakref.WeakSet()
        self.jit: list[Any] = []
        # The devices that were entered, on the innermost of which new tensors are made.
        self.devices: list[Any] = []
        self.grad_enabled = True
        # Where gradients end that recomputations take, by ids of records, the innermost last.
        self.ends: list[frozenset[int]] = []
        # The functions with gradients of their own whose forward functions run.
        self.forwarding: list[Any] = []
        # The modules whose forward passes run, the outermost first.
        self.modules: list[Any] = []
        # What axes of the user's tensor those of an op are that is recorded, where they differ.
        self.axes: Any = None
        # How exactly products of float32 are computed; compared by identity.
        self.precision = config.matmul_precision
        # The name of the dtype of floating numbers that no operand decides; compared by identity.
        self.floating = config.default_dtype
        # What a write to a view does; compared by identity.
        self.views = config.views
        # The low type of the innermost autocast, None outside or where it is off; by identity.
        self.autocast: Any = None
        self.autocasts: list[Any] = []
        # What it cast of leaves, by the ids of these: see calor.functions.operands.lowered.
        self.casts: dict[int, Any] = {}


class _Nowhere:
    """The trace of a thread that has recorded nothing; no value's device is its device."""

    device = None
    jit = False


nowhere: Final = _Nowhere()
local = _Local()
