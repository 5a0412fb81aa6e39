"""Values, and the handle on one that every tensor is."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from calor.backends.device import Device
from calor.specs import Spec

_new = object.__new__


class Value:
    """One computed or pending array. Immutable in meaning; tensors are handles on values."""

    __slots__ = ("__weakref__", "buffer", "device", "position", "spec", "trace")

    spec: Spec
    device: Device
    trace: Any
    position: int
    buffer: Any


def ready(spec_: Spec, device: Device, buffer: Any) -> Value:
    """Return a value that is already computed."""
    value: Value = _new(Value)
    value.spec = spec_
    value.device = device
    value.trace = None
    value.position = 0
    value.buffer = buffer
    return value


class Handle:
    """What a Tensor is to the recorder: a mutable reference to a value and its gradient record."""

    __slots__ = ("__weakref__", "_grad", "_record", "_value", "_view")

    _value: Value
    _record: Any
    _grad: Any
    # What it is a view of, if anything: see calor.recording.views.
    _view: Any


def is_weak(x: Any) -> bool:
    """Return whether an object stands for a Python number in a trace."""
    return isinstance(x, Handle) and x._value.spec.weak


# What functions take for a tensor: NumPy's arrays and numbers, and Python's.
Operand: TypeAlias = "Handle | complex | np.ndarray[Any, Any] | np.generic"
