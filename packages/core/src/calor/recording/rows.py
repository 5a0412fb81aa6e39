"""Rows that recording itself needs: constants of a graph, and the mark where gradients stop."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import numpy as np

from calor.dtypes import DType, as_dtype
from calor.errors import ArgumentError, DeviceError
from calor.graph.attributes import Scalar
from calor.graph.graph import Builder
from calor.graph.op import Op, register
from calor.recording.poison import Poison
from calor.recording.record import apply
from calor.recording.sites import here, locate
from calor.specs import Spec, spec


class RecordedOp(Op):
    """A row whose call records it on tensors."""

    __slots__ = ()

    __call__ = apply


class CheckedOp(RecordedOp):
    """A row that may fail for the contents of its operands: it is known where it was recorded."""

    __slots__ = ()

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        """Record the op and its place."""
        made = apply(self, *operands, **attributes)
        value = made._value
        trace = value.trace
        shape = operands[0]._value.spec.shape
        site = here(value.position, self.name, shape, attributes.get("axis"))
        if trace is None:
            value.device.sites.append((WeakSet((value,)), [site.loosened()]))
        elif type(trace) is Poison and isinstance(trace.error, DeviceError):
            # In eager mode it was computed, and failed, in the call above.
            locate(trace.error, [site])
        elif type(trace) is not Poison:
            trace.sites.append(site)
        return made


_SOURCE = "it has no operands"


def _full_rule(*, value: Scalar, shape: tuple[int, ...], dtype: DType) -> Spec:
    if any(n < 0 for n in shape):
        raise ArgumentError(f"shape {shape} has a negative size")
    return spec(shape, dtype)


full: Op = register(
    RecordedOp(
        "full",
        _full_rule,
        lambda *, value, shape, dtype: np.full(shape, np.frombuffer(value.bits, dtype.numpy)[0]),
        no_gradient=_SOURCE,
    )
)
constant: Op = register(
    RecordedOp(
        "constant",
        lambda *, array, weak: spec(array.shape, as_dtype(array.dtype), weak),
        lambda *, array, weak: array.array,
        no_gradient=_SOURCE,
    )
)


class _Identity(RecordedOp):
    """A row that stands for its operand where gradients do not matter."""

    __slots__ = ()

    def definition(self, inputs: tuple[Spec, ...], attributes: dict[str, Any]) -> Any:
        """Return the graph without nodes."""
        builder = Builder()
        return builder.build([builder.input(inputs[0])])


stop_gradient: Op = register(
    _Identity(
        "stop_gradient",
        lambda x: x,
        vjp=lambda g, y, x: [None],
        no_gradient="it is where gradients stop",
        decompose=lambda x: x,
        gradient_only=True,
    )
)
