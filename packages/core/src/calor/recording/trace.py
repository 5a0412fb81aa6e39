"""The pending trace: values, the list of codes that is a plan's key, and its flush.

Requirements: nodes of one thread and device form one linear trace. The list of its codes, with the
positions of the values that somebody still holds, is the key of the plan. Which values are still
held is read from reference counts when the trace is flushed, so recording an op costs no weak
reference.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Final
from weakref import WeakSet

from calor.backends.device import Device
from calor.config import config
from calor.errors import DeviceError, TraceError
from calor.graph.op import Signature
from calor.local import local
from calor.recording.codes import decode, prefix
from calor.recording.nodes import Nodes
from calor.recording.poison import Poison
from calor.specs import Spec
from calor.tensor.tensor import wrap
from calor.tensor.values import Handle, Value, ready

_new = object.__new__
_getrefcount = sys.getrefcount


def _counts(values: list[Any]) -> list[int]:
    """Return how often each value is referred to, this list and the counting included."""
    return list(map(_getrefcount, values))


# What that is for an object that only the list holds; asked of this interpreter.
_ALONE: Final = _counts([object()])[0]
# How many ops in a row make the place of a cut recognisable.
_CONTEXT: Final = 4
# And how many such places are remembered.
_CUTS: Final = 64
# After a cut within a turn of an outer loop, so small a part of a trace is cut where one begins.
_EARLY: Final = 16


class Trace(Nodes):
    """The pending nodes of one thread on one device."""

    __slots__ = ()

    def attach(self, handle: Handle) -> int:
        """Return the position of an operand that is not pending here, adding it as an input."""
        value = handle._value
        found = self.leaves.get(value)
        return self.locate(value) if found is None else found

    def locate(self, value: Value) -> int:
        """Return the position of a value, adding it as an input where it is not pending here."""
        if value.trace is self:
            return value.position
        found = self.leaves.get(value)
        if found is not None:
            return found
        if value.device is not self.device:
            raise DeviceError(
                f"operands are on {self.device.name} and {value.device.name}; "
                f'move one of them: x.to("{self.device.name}"), or of a NumPy array make a tensor '
                f'there: calor.asarray(x, device="{self.device.name}")'
            )
        if value.buffer is None:
            source = value.trace
            if source is not None and source.aside and source.thread == self.thread:
                place: int = source.move(value, self)
                return place
            if source is not None and source.jit:
                return self.locate(source.stood_for(value))
            materialize(value)
        return self.add_input(value, value.spec, False)

    def overflow(self, sig: Signature) -> None:
        """Handle a full trace after an op: eager mode, debug lines, limits of size.

        A flush by limit cuts where the last few ops equal those of an earlier cut, so that a loop
        settles on a few plans.
        """
        if config.debug:
            from calor.lines import user_line

            self.lines[self.count - 1] = user_line()
        if config.eager:
            if config.nans:
                from calor.recording.finite import check

                first = self.count - len(sig.outputs)
                made = [v for v in self.values if v.position >= first]
                check(self.flush, made, list(self.inputs), sig)
            else:
                flush(self)
            return
        if config.debug and self.count < config.trace_nodes:
            return
        if self.due:
            flush(self)
            return
        tail = self.tail
        tail.append(sig)
        if len(tail) < _CONTEXT:
            return
        context = tuple(tail[-_CONTEXT:])
        if context in self.cuts or -self.room > config.trace_nodes:
            if len(self.cuts) >= _CUTS:
                self.cuts.clear()
            self.cuts.add(context)
            flush(self)
            # This place says nothing of an outer loop, so the next turn of that is met early.
            self.small = config.trace_nodes - config.trace_nodes // _EARLY

    def flush(self) -> None:
        """Compute every pending value that somebody holds, and empty the trace."""
        flush(self)


def trace_on(device: Device) -> Trace:
    """Return this thread's trace on a device, and make it the current one."""
    if local.jit:
        current: Trace = local.jit[-1]
        if current.device is not device:
            raise TraceError(
                f"a function traced for {current.device.name} used a tensor on {device.name}; "
                f"move it before the call: x.to({current.device.name!r})"
            )
        return current
    trace = local.traces.get(device)
    if trace is None:
        trace = local.traces[device] = Trace(device)
    local.trace = trace
    return trace


class Exports:
    """Counts exports of memory (``numpy()``, DLPack), so that jit checks again."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


exports: Final = Exports()


def computed(spec_: Spec, device: Device, buffer: Any) -> Any:
    """Return a new tensor with a buffer; within a trace it is a constant of that graph."""
    tensor = wrap(ready(spec_, device, buffer))
    if local.jit:
        local.jit[-1].adopt(tensor)
    return tensor


def pending(trace: Trace, spec_: Spec, position: int) -> Value:
    """Return a new value of the trace, made by the node at ``position``."""
    value: Value = _new(Value)
    value.spec = spec_
    value.device = trace.device
    value.trace = trace
    value.position = position
    value.buffer = None
    trace.values.append(value)
    return value


def flush(trace: Trace) -> None:
    """Compute every pending value that has a holder, and empty the trace.

    After an interruption the pending operations are set aside; a read then computes what it needs.
    """
    try:
        _flush(trace)
    except BaseException:
        from calor.recording.unfinished import set_aside

        set_aside(trace)
        raise


def _flush(trace: Trace) -> None:
    values = trace.values
    live = [
        v for v, n in zip(values, _counts(values), strict=True) if n > _ALONE and v.trace is trace
    ]
    if live:
        codes = trace.codes
        positions = [v.position for v in live]
        key = (tuple(codes), tuple(positions))
        inputs = [v.buffer if type(v) is Value else v for v in trace.inputs]
        device = trace.device
        plan = device.plans.get(key)
        try:
            if plan is None:
                # Compiling is imported with the first plan, so that ``import calor`` stays quick.
                from calor.compiling.plans import plan_for

                plan = plan_for(device, key, lambda: decode(codes, positions))
            buffers = plan(inputs)
        except Exception as error:
            from calor.recording.recover import recover

            recover(trace, live, inputs, error)
        else:
            for value, buffer in zip(live, buffers, strict=True):
                value.buffer = buffer
                value.trace = None
        if trace.sites:
            # A device may tell later that one of them failed, also of those computed alone.
            device.sites.append((WeakSet(live), [s.loosened() for s in trace.sites]))
    trace.reset()


def materialize(value: Value) -> Any:
    """Return the buffer of a value, computing pending operations; raise the error of its plan."""
    buffer = value.buffer
    if buffer is None:
        trace = value.trace
        if trace is None:
            # Another thread finished the flush between the two reads.
            return materialize(value)
        if type(trace) is Poison:
            raise trace.again()
        if trace.jit:
            return materialize(trace.stood_for(value))
        if trace.thread != threading.get_ident():
            _compute_elsewhere(trace, value)
        elif trace.aside:
            trace.compute([value])
        else:
            flush(trace)
        buffer = value.buffer
        if buffer is None:
            return materialize(value)
    return buffer


def _compute_elsewhere(trace: Trace, value: Value) -> None:
    """Compute one value that is pending in another thread, from a snapshot of its trace.

    The owner records without a lock and only appends, so the prefix up to the value is whole; the
    owner's own flush computes it again when it still needs it.
    """
    codes, inputs, position = trace.codes, trace.inputs, value.position
    # Read last: while the trace is the same, so is all of the above.
    if value.trace is not trace:
        return
    from calor.compiling.plans import plan_for

    graph = decode(prefix(codes, position), [position])
    given = [v.buffer if type(v) is Value else v for v in inputs[: len(graph.inputs)]]
    plan = plan_for(value.device, ("elsewhere", graph.key), lambda: graph)
    value.buffer = plan(given)[0]


def flush_all(device: Device | None = None) -> None:
    """Flush this thread's pending traces of one device or of all, and the operations set aside."""
    for trace in list(local.traces.values()):
        if (device is None or trace.device is device) and trace.values:
            flush(trace)
    for aside in list(local.asides):
        if device is None or aside.device is device:
            aside.compute(aside.waiting())
