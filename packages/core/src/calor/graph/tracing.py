"""Tracing a function into a Graph: nothing is computed, tensors from outside become inputs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calor.errors import TraceError
from calor.graph import trace as traces
from calor.graph.graph import Graph
from calor.graph.trace import Handle, Trace, Value, decode, leaf_number, local, wrap
from calor.specs import Spec

if TYPE_CHECKING:
    from calor.backends.device import Device

_new = object.__new__


class GraphTrace(Trace):
    """A trace that becomes a graph: tensors from outside are captured, nothing is computed."""

    __slots__ = ("captured", "name")

    jit = True

    def __init__(self, device: Device, name: str = "function") -> None:
        super().__init__(device)
        self.name = name
        self.captured: list[Handle] = []

    def reset(self) -> None:
        """Start empty, without a limit."""
        super().reset()
        self.room = sys.maxsize

    def attach(self, handle: Handle) -> int:
        """Capture a tensor from outside as an input, once per value."""
        value = handle._value
        found = self.leaves.get(value)
        if found is not None:
            return found
        if value.device is not self.device:
            raise TraceError(
                f"{self.name}: traced for {self.device.name} but it uses a tensor on "
                f"{value.device.name}; move it before the call: x.to({self.device.name!r})"
            )
        self.captured.append(handle)
        return self.add_input(value, value.spec, False)

    def placeholder(self, spec_: Spec) -> Any:
        """Return a tensor that stands for an argument."""
        value: Value = _new(Value)
        value.spec = spec_
        value.device = self.device
        value.trace = self
        value.position = self.count
        value.buffer = None
        self.values.append(value)
        self.codes.append(leaf_number(spec_, False))
        self.inputs.append(value)
        self.count += 1
        return wrap(value)

    def constant(self, number: Any, spec_: Spec) -> Any:
        """Return a host number or array as part of the graph."""
        from calor.ops.sources import constant

        return constant(np.asarray(number, spec_.dtype.numpy), weak=spec_.weak)

    def overflow(self, number: int) -> None:
        """A graph has no limit."""

    def look(self) -> None:
        """Raise: a traced value has no number yet."""
        from calor.graph.lines import user_line

        raise TraceError(
            f"{self.name} is being traced, and {user_line()} asks for the value of a traced "
            f"tensor (bool(), item(), numpy(), print). Use calor.cond, calor.where or "
            f"calor.while_loop for a choice that depends on data, or compute it outside."
        )

    def graph(self, outputs: Sequence[Handle]) -> Graph:
        """Return the graph of what was recorded, with these outputs."""
        positions = []
        for h in outputs:
            positions.append(h._value.position if h._value.trace is self else self.attach(h))
        return decode(self.codes, positions)


def trace_function(
    function: Callable[..., Any], inputs: Sequence[Spec], attributes: dict[str, Any]
) -> Graph:
    """Trace a function of tensors that captures nothing; return its graph."""
    from calor.backends.selection import current_device

    trace = GraphTrace(current_device(), getattr(function, "__name__", "function"))
    with tracing(trace):
        arguments = [trace.placeholder(s) for s in inputs]
        result = function(*arguments, **attributes)
        outputs = result if isinstance(result, tuple | list) else (result,)
        if trace.captured:
            raise TraceError(f"{trace.name} captures a tensor; pass it as an argument")
        return trace.graph(outputs)


class tracing:  # noqa: N801 - used as a statement: with tracing(trace)
    """Context in which this thread records into a GraphTrace."""

    def __init__(self, trace: GraphTrace) -> None:
        self.trace = trace

    def __enter__(self) -> GraphTrace:
        self.previous = local.trace
        local.jit.append(self.trace)
        local.trace = self.trace
        return self.trace

    def __exit__(self, *error: object) -> None:
        local.jit.pop()
        local.trace = self.previous
