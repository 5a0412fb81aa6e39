"""Rows that recording itself needs: constants of a graph, and the mark where gradients stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

import numpy as np

from calor.dtypes import DType, as_dtype, float32
from calor.errors import ArgumentError, DeviceError
from calor.graph.attributes import Scalar
from calor.graph.graph import Builder
from calor.graph.op import Op, find, register
from calor.recording.poison import Poison
from calor.recording.record import apply
from calor.recording.sites import here, locate
from calor.specs import Spec, spec
from calor.tensor.values import Handle


class RecordedOp(Op):
    """A row whose call records it on tensors."""

    __slots__ = ()

    __call__ = apply

    def pullback(
        self,
        needs: tuple[bool, ...],
        g: Any,
        y: Any,
        x: tuple[Any, ...],
        attributes: Mapping[str, Any],
    ) -> list[Any]:
        """Return the gradients of the operands, as for `Op`.

        The slope of a function of floating elements is several ops, which compute half types in
        float32 and round once; a slope that is an op rounds once itself.

        Parameters
        ----------
        needs : tuple of bool
            Which operands want gradients.
        g : Tensor
            The gradient of the result.
        y : Tensor or Spec
            The result.
        x : tuple of Tensor or Spec
            The operands.
        attributes : mapping of str to Any
            The attributes.

        Returns
        -------
        list of Tensor or None
            One for each operand; None where none is wanted or none exists.
        """
        if self.promotion != "float" or not _is_half(g) or isinstance(self.vjp, Op):
            return super().pullback(needs, g, y, x, attributes)
        operands = tuple(map(_wide, x))
        found = super().pullback(needs, _wide(g), _wide(y), operands, attributes)
        return [r if r is None else _cast(r, g.dtype) for r in found]


def _is_half(x: Any) -> bool:
    if not isinstance(x, Handle):
        return False
    dtype = x._value.spec.dtype
    return dtype.kind == "float" and dtype.itemsize == 2


def _wide(x: Any) -> Any:
    return _cast(x, float32) if _is_half(x) else x


def _cast(x: Any, dtype: DType) -> Any:
    return x if x.dtype is dtype else find("cast")(x, dtype=dtype)


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
