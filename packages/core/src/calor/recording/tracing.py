"""Tracing a function into a Graph: nothing is computed, tensors from outside become inputs.

A captured tensor is an input that is read by handle at each call, never a baked constant. While a
trace runs, a captured handle holds a placeholder, so that whatever is derived from it (a detached
copy, an in-place change) is derived from the input; the handles are put back at the end.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Self
from weakref import WeakKeyDictionary

import numpy as np

from calor.autocasting import recorded_as
from calor.backends.device import Device
from calor.device_selection import current_device
from calor.errors import TraceError
from calor.graph.attributes import HostArray, Scalar
from calor.graph.graph import Graph
from calor.graph.op import Signature
from calor.lines import user_line
from calor.local import local, nowhere
from calor.recording.codes import INPUT, decode, leaf, walk
from calor.recording.rows import constant, full, stop_gradient
from calor.recording.trace import Trace
from calor.specs import Spec
from calor.tensor.tensor import wrap
from calor.tensor.values import Handle, Value

_new = object.__new__
# Held by the thread that traces: captured tensors hold stand-ins then, so threads take turns.
tracing: Final = threading.RLock()
# Called with each op that a trace records, for tools that ask which line did.
watchers: Final[list[Callable[[Signature], None]]] = []


class Capture:
    """A tensor from outside that a trace uses: the handle, and what it held before and within."""

    __slots__ = ("grad", "handle", "placeholder", "position", "record", "value")

    def __init__(self, handle: Handle, placeholder: Value, position: int) -> None:
        self.handle = handle
        self.value = handle._value
        self.record = handle._record
        self.grad = handle._grad
        self.placeholder = placeholder
        self.position = position

    @property
    def written(self) -> bool:
        """Whether the function gave the handle another value."""
        return self.handle._value is not self.placeholder


class Retrace(BaseException):
    """Ends a trace that begins again, with records on its arguments."""


class GraphTrace(Trace):
    """A trace that becomes a graph; use it as a context: ``with GraphTrace(device) as trace``."""

    __slots__ = (
        "asks_gradients",
        "captures",
        "constants",
        "drawn",
        "enabled",
        "finished",
        "graded",
        "grads",
        "inner",
        "made",
        "modes",
        "name",
        "on_number",
        "previous",
        "quiet",
        "quiet_from",
        "read_only",
        "renewed",
        "stood",
        "unrecorded",
    )

    jit = True

    def __init__(
        self,
        device: Device,
        name: str = "function",
        *,
        inner: bool = False,
        read_only: str | None = None,
    ) -> None:
        super().__init__(device)
        self.name = name
        self.captures: dict[int, Capture] = {}
        self.constants: set[Value] = set()
        # What a stand-in stood for, once the trace is over.
        self.stood: WeakKeyDictionary[Value, Value] = WeakKeyDictionary()
        self.grads: dict[int, tuple[Handle, Any]] = {}
        # The tensors whose gradients are given up before anything is added to them.
        self.renewed: set[int] = set()
        self.finished = False
        # Where gradients were switched off: spans of positions, and the start of the open one.
        self.modes = [inner or local.grad_enabled]
        self.quiet: list[tuple[int, int]] = []
        self.quiet_from = -1 if self.modes[0] else 0
        # Whether gradients were on anywhere; a graph without them needs no spans.
        self.enabled = self.modes[0]
        # Whether this becomes a sub-graph, and then whether gradients are on for the user's code:
        # it is traced without records, since its node is what gets one.
        self.inner = inner
        self.graded = inner and gradients_on()
        # Whether the code asked for gradients of tensors, and whether it must not: arguments
        # require gradients whose stand-ins have no record.
        self.asks_gradients = False
        self.unrecorded = False
        # Called with each object of which the code reads a number; objects that it made itself.
        self.on_number: Callable[[Any], None] | None = None
        self.made: list[Any] = []
        # The counters of random generators that the code drew from.
        self.drawn: list[Handle] = []
        # Advice for a function that must not change tensors from outside.
        self.read_only = read_only

    def reset(self) -> None:
        """Start empty, without a limit."""
        super().reset()
        self.room = -1 if watchers else sys.maxsize

    def __enter__(self) -> Self:
        tracing.acquire()
        self.previous = local.trace
        local.jit.append(self)
        local.trace = self
        return self

    def __exit__(self, *error: object) -> None:
        local.jit.pop()
        local.trace = self.previous
        self.finished = True
        if self.inner and self.sites:
            self._pass_sites(local.jit[-1] if local.jit else self.previous)
        for capture in self.captures.values():
            capture.handle._value = capture.value
            capture.handle._record = capture.record
        for handle, grad in self.grads.values():
            handle._grad = grad
        self._let_go()
        tracing.release()

    def _pass_sites(self, outer: Any) -> None:
        """Give the places of ops that may fail to the trace that gets the node of this graph."""
        if outer.device is not self.device:
            return
        outer.sites += [site._replace(position=outer.count) for site in self.sites]

    def _let_go(self) -> None:
        """Drop all references: traced values live as long as they have other holders.

        Values refer to their trace, so a trace that referred to values would keep captured state
        until a garbage collection. Another thread may wait to learn what a placeholder stood for.
        """
        self.stood = WeakKeyDictionary(
            {capture.placeholder: capture.value for capture in self.captures.values()}
        )
        self.captures = {}
        self.constants = set()
        self.grads = {}
        self.renewed = set()
        self.made = []
        self.drawn = []
        self.on_number = None
        self.reset()

    def attach(self, handle: Handle) -> int:
        """Capture a tensor from outside as an input, or use a constant of this trace."""
        value = handle._value
        if value.trace is self:
            return value.position
        if value.device is not self.device:
            raise TraceError(
                f"{self.name}: traced for {self.device.name} but it uses a tensor on "
                f"{value.device.name}; move it before the call: x.to({self.device.name!r})"
            )
        if type(value.trace) is GraphTrace and value.trace.finished:
            value.trace.look()
        if value in self.constants:
            found = self.leaves.get(value)
            return self.add_input(value, value.spec, False) if found is None else found
        placeholder = self._input(value.spec, handle, False)
        self.captures[id(handle)] = Capture(handle, placeholder, placeholder.position)
        handle._value = placeholder
        return placeholder.position

    def switch(self, enabled: bool | None) -> None:
        """Note that gradients are switched on or off from here; None for back to before."""
        if enabled is None:
            self.modes.pop()
        else:
            self.modes.append(enabled)
            self.enabled = self.enabled or enabled
        if not self.modes[-1] and self.quiet_from < 0:
            self.quiet_from = self.count
        elif self.modes[-1] and self.quiet_from >= 0:
            self.quiet.append((self.quiet_from, self.count))
            self.quiet_from = -1

    def touch(self, handle: Handle) -> None:
        """Capture a tensor before something is derived from its value without an op."""
        self.attach(handle)

    def note_write(self, handle: Handle) -> None:
        """Called before a handle is given another value."""
        if self.read_only is not None and not self.is_local(handle):
            raise TraceError(
                f"{self.name} changes a tensor from outside in place ({user_line()}), which it "
                f"must not; {self.read_only}"
            )
        if handle._value.trace is not self and handle._value not in self.constants:
            self.attach(handle)

    def note_grad(self, handle: Handle, *, assigned: bool = False) -> None:
        """Called before a handle's accumulated gradient changes, or is assigned to."""
        if self.inner and not self.is_local(handle):
            raise TraceError(
                f"{self.name} changes the .grad of a tensor from outside ({user_line()}); take "
                f"the gradient inside with calor.value_and_grad, and return it"
            )
        if assigned and id(handle) not in self.grads:
            self.renewed.add(id(handle))
        self.grads.setdefault(id(handle), (handle, handle._grad))

    def note_look(self, handle: Handle) -> None:
        """Called before a handle's accumulated gradient is looked at."""
        self.grads.setdefault(id(handle), (handle, handle._grad))

    def is_local(self, handle: Handle) -> bool:
        """Return whether a tensor was made within this trace."""
        if id(handle) in self.captures:
            return False
        return handle._value.trace is self or handle._value in self.constants

    def _input(self, spec_: Spec, given: Any, host: bool) -> Value:
        value: Value = _new(Value)
        value.spec = spec_
        value.device = self.device
        value.trace = self
        value.position = self.count
        value.buffer = None
        self.values.append(value)
        self.codes.append(leaf(spec_, host))
        self.inputs.append(given)
        self.count += 1
        return value

    def placeholder(self, spec_: Spec, given: Any = None, host: bool = False) -> Any:
        """Return a tensor that stands for an argument; ``given`` is remembered as its source."""
        return wrap(self._input(spec_, given, host))

    def constant(self, number: Any, spec_: Spec) -> Any:
        """Return a host number or array as part of the graph."""
        if not spec_.shape and not spec_.weak:
            return full(value=Scalar.of(number, spec_.dtype), shape=(), dtype=spec_.dtype)
        array = np.asarray(number, spec_.dtype.numpy)
        return constant(array=HostArray.of(array), weak=spec_.weak)

    def adopt(self, handle: Handle) -> None:
        """Remember a tensor made from host data within the trace: it is a constant of the graph."""
        self.constants.add(handle._value)

    def overflow(self, sig: Signature) -> None:
        """Call the observers of recording: a graph has no limit."""
        for watch in watchers:
            watch(sig)

    def stood_for(self, value: Value) -> Value:
        """Return the value of another thread's tensor that has a placeholder in this trace.

        It waits for the end of the trace, and raises if the value was traced.
        """
        if self.thread != threading.get_ident():
            with tracing:
                found = self.stood.get(value)
                if found is not None:
                    return found
        self.look()
        raise AssertionError("a look at a traced value raises")

    def look(self) -> None:
        """Raise: a traced value has no number yet."""
        if self.finished:
            raise TraceError(
                f"a tensor from the trace of {self.name} was kept and used at {user_line()}; "
                f"return it from the function instead"
            )
        raise TraceError(
            f"{self.name} is being traced, and {user_line()} asks for the value of a traced "
            f"tensor (bool(), item(), numpy(), int()). Use calor.cond, calor.where or "
            f"calor.while_loop for a choice that depends on data; declare a Python number that "
            f"must be known, such as a size or an axis, static: calor.jit(f, static_argnames=...); "
            f"or compute it outside."
        )

    def look_at(self, handle: Handle) -> None:
        """Raise if a captured tensor is read: its number would become a constant of the graph."""
        value = handle._value
        if value.trace is None and value not in self.constants:
            self.look()

    def input_positions(self) -> list[int]:
        """Return the positions of the inputs, in order."""
        return [position for sig, position, _ in walk(self.codes) if sig.op is INPUT]

    def graph(self, outputs: Sequence[Handle]) -> Graph:
        """Return the recorded graph with these outputs."""
        positions = [
            h._value.position if h._value.trace is self else self.attach(h) for h in outputs
        ]
        quiet = list(self.quiet)
        if self.quiet_from >= 0:
            quiet.append((self.quiet_from, self.count))
        return decode(self.codes, positions, quiet if self.enabled else (), stop_gradient)


class outside:
    """Context of code that computes while a function is traced, such as sizes from constants.

    Ops on tensors that are no part of the trace are recorded and computed as if nothing were
    traced, on any device.

    >>> import calor
    >>> from calor.recording.tracing import outside
    >>> def twice(x):
    ...     with outside(), calor.device("numpy"):
    ...         n = (calor.asarray(1) + 1).item()
    ...     return x * n
    >>> calor.jit(twice)(calor.ones(2)).tolist()
    [2.0, 2.0]
    """

    def __enter__(self) -> None:
        self._jit, local.jit = local.jit, []
        self._trace, local.trace = local.trace, nowhere

    def __exit__(self, *error: object) -> None:
        local.jit, local.trace = self._jit, self._trace


def gradients_on() -> bool:
    """Tell whether gradients are on for the code that runs here, in a sub-graph too."""
    if local.grad_enabled:
        return True
    return bool(local.jit) and local.jit[-1].graded and local.jit[-1].modes[-1]


def traced_elsewhere(values: Iterable[Value]) -> bool:
    """Tell whether one of the values is a placeholder of a trace that still runs.

    It is called outside of traces, so the trace is another thread's.
    """
    return any(type(v.trace) is GraphTrace and not v.trace.finished for v in values)


def note_gradients() -> None:
    """Called where the code depends on which tensors take gradients: backward(), x.grad.

    Raises Retrace in a trace whose arguments do and that does not know it.
    """
    for trace in local.jit:
        trace.asks_gradients = True
        if trace.unrecorded:
            raise Retrace


def trace_function(
    function: Callable[..., Any], inputs: Sequence[Spec], attributes: dict[str, Any]
) -> Graph:
    """Trace a function of tensors that captures nothing; return its graph."""
    name = getattr(function, "__name__", "function")
    advice = "return the new value instead"
    traced = GraphTrace(current_device(), name, inner=True, read_only=advice)
    with recorded_as(None), traced as trace:
        arguments = [trace.placeholder(s) for s in inputs]
        result = function(*arguments, **attributes)
        outputs = result if isinstance(result, tuple | list) else (result,)
        graph = trace.graph(outputs)
        if trace.captures:
            raise TraceError(f"{name} captures a tensor; pass it as an argument")
    if len(graph.inputs) != len(inputs):
        raise TraceError(f"{name} makes tensors from host arrays; use calor.full or calor.arange")
    return graph
