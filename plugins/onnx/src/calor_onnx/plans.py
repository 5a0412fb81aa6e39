"""Compiled graphs of a model in a bounded cache, one for each set of shapes and host values.

A graph is compiled through ``calor.jit`` for the shapes and types of its inputs. If an operator
reads elements during compilation, the small integer inputs that decide them become host values and
part of the key. If other inputs decide them, the graph is cut: the nodes that do not depend on that
operator are compiled, the rest is interpreted node by node, and ``reason`` names the operator.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor.errors import TraceError
from calor.sizes import Size
from calor.transforms.families import Families
from calor.transforms.hosted import HostCall, host_call, host_call_of
from calor.transforms.program import MISS
from calor_onnx.constants import Constant
from calor_onnx.cutting import cut
from calor_onnx.errors import DataDependentError
from calor_onnx.execution import REMARKS, Run
from calor_onnx.graph import Graph, Node, deciding
from calor_onnx.values import Later, Narrow

# Number of compiled graphs that a model keeps.
LIMIT = 128
# An input with more elements is data, not a shape.
SHAPE_SIZE = 16
# After this many values of host inputs for the same shapes, they count as data too.
VARIETY = 16
# Number of kinds of inputs, by ranks and types, whose traces are kept.
_KINDS = 16


@dataclass(slots=True)
class _Compiled:
    """A compiled graph, its program for host arrays, and whether it has run to its end."""

    program: Callable[[list[Tensor]], list[Any]]
    hosted: Callable[[], HostCall | None]
    ran: bool = False


class _Shared:
    """What graphs share that differ in sizes: their traces, and where outputs are."""

    def __init__(self, declared: Sequence[Any]) -> None:
        self.families = Families(declared)
        self.layout: list[Any] = []


class Plans:
    """Runs a graph on a device, compiled where possible."""

    def __init__(
        self, graph: Graph, device: Any, small: dict[int, Constant], limit: int = LIMIT
    ) -> None:
        self.graph = graph
        self.device = device
        self.small = small
        self.limit = limit
        self.reason: str | None = None
        self._remarks: dict[str, None] = {}
        self.host_inputs: set[str] = set()
        # Whether data-dependent choices are part of compiled graphs. It is tried last, and only
        # for graphs with such nodes.
        self.choices = not any(node.op in ("If", "Loop") for node in graph.walk())
        # The compiled and the interpreted part of the graph, once there is a reason.
        self.head: Plans | None = None
        self.tail = graph
        self._stopped: Node | None = None
        self._compiled: OrderedDict[Any, _Compiled] = OrderedDict()
        # What graphs of the same ranks, types and host values share.
        self._shared: OrderedDict[Any, _Shared] = OrderedDict()
        self._seen: dict[Any, int] = {}
        self._lock = threading.RLock()

    @property
    def count(self) -> int:
        """The number of compiled graphs that are kept."""
        return len(self._compiled) + (0 if self.head is None else self.head.count)

    @property
    def remarks(self) -> tuple[str, ...]:
        """The reasons why nodes are not compiled as one operation."""
        return (*self._remarks, *(() if self.head is None else self.head.remarks))

    def _note(self, run: Run) -> None:
        for text in run.remarks:
            if len(self._remarks) < REMARKS:
                self._remarks[text] = None

    def run(self, values: dict[str, Any]) -> list[Any]:
        """Return the outputs for inputs by name."""
        while True:
            inputs = [self._host(name, value) for name, value in values.items()]
            if self.reason is not None:
                return self.interpret(values, inputs)
            try:
                return self._compiled_run([*values], inputs)
            except TraceError as error:
                with self._lock:
                    if self._decided_by_inputs(error, values):
                        continue
                    if not self.choices:
                        self.choices = True
                    elif self.reason is None:
                        self._cut()
                        part = "interpreted" if self.head is None else "interpreted from there on"
                        self.reason = f"{part}, not compiled: {_plain(error)}"

    def _cut(self) -> None:
        """Compile the nodes that do not depend on the failing node as a graph of their own."""
        parts = None if self._stopped is None else cut(self.graph, self._stopped)
        if parts is not None:
            self.head = Plans(parts[0], self.device, self.small, self.limit)
            self.tail = parts[1]
            # They keep the nodes on both sides of the cut.
            self._compiled.clear()

    def interpret(self, values: dict[str, Any], inputs: Sequence[Any]) -> list[Any]:
        """Run the nodes one after another, without compilation."""
        graph, given = self._with_inputs([*values]), list(inputs)
        if self.head is not None and not self.graph.constants.keys() & values.keys():
            graph, given = self.tail, [*map(_finished, self.head.run(values)), *inputs]
        with calor.device(self.device), calor.no_grad():
            run = Run(self.device, self.small, traced=False)
            try:
                return run.graph(graph, given)
            finally:
                self._note(run)

    def _with_inputs(self, names: list[str]) -> Graph:
        if names == [info.name for info in self.graph.inputs]:
            return self.graph
        known = {info.name: info for info in self.graph.inputs}
        g = self.graph
        constants = {k: v for k, v in g.constants.items() if k not in names}
        return Graph(g.name, [known[n] for n in names], g.outputs, g.nodes, constants)

    def _host(self, name: str, value: Any) -> Any:
        if name not in self.host_inputs or not isinstance(value, Tensor):
            return value
        return value.numpy()

    def _compiled_run(self, names: list[str], inputs: list[Any]) -> list[Any]:
        tensors: list[Tensor] = []
        key = (tuple(names), *(_key(value, tensors) for value in inputs))
        with self._lock:
            found = self._compiled.get(key)
            if found is None:
                self._note_variety(names, inputs)
                shared = self._shared_by(names, inputs)
                program, hosted = self._known_program(names, inputs, shared, tensors)
                found = self._compiled[key] = _Compiled(program, hosted)
                while len(self._compiled) > self.limit:
                    self._compiled.popitem(last=False)
            else:
                self._compiled.move_to_end(key)
        try:
            made = found.program(tensors)
        except BaseException as error:
            with self._lock:
                # A graph that never ran may be incomplete; one that ran before can run again.
                broken = not found.ran or isinstance(error, TraceError)
                if broken and self._compiled.get(key) is found:
                    del self._compiled[key]
            raise
        found.ran = True
        return made

    def _note_variety(self, names: list[str], inputs: list[Any]) -> None:
        if not self.host_inputs:
            return
        key = tuple(
            (n, None if n in self.host_inputs else _key(v, []))
            for n, v in zip(names, inputs, strict=True)
        )
        if len(self._seen) > 1000:
            self._seen.clear()
        self._seen[key] = self._seen.get(key, 0) + 1
        if self._seen[key] > VARIETY:
            self.reason = (
                f"interpreted, not compiled: {', '.join(sorted(self.host_inputs))} decide shapes "
                f"and differ from call to call"
            )

    def hosted(self, values: dict[str, Any]) -> HostCall | None:
        """Return the program for host arrays of the graph that was run for these values.

        It is None for an interpreted graph, or if the host has to finish an output.
        """
        inputs = [self._host(name, value) for name, value in values.items()]
        key = (tuple(values), *(_key(value, []) for value in inputs))
        with self._lock:
            found = None if self.reason is not None else self._compiled.get(key)
            return None if found is None else found.hosted()

    def _shared_by(self, names: list[str], inputs: list[Any]) -> _Shared:
        """Return what graphs for values that differ in sizes only share."""
        key = (tuple(names), *map(_kind, inputs))
        found = self._shared.get(key)
        if found is None:
            # Few calls have the same host inputs, so they show first which sizes differ.
            declared = () if self.host_inputs else self._declared(names, inputs)
            found = self._shared[key] = _Shared(declared)
        self._shared.move_to_end(key)
        while len(self._shared) > _KINDS:
            self._shared.popitem(last=False)
        return found

    def _declared(self, names: list[str], inputs: list[Any]) -> list[Any]:
        """Return the names of the sizes that the graph leaves open; nothing if it tells too little.

        An axis without a name has one of its own.
        """
        known = {info.name: info for info in self.graph.inputs}
        made: list[Any] = []
        for name, value in zip(names, inputs, strict=True):
            if not isinstance(value, Tensor | Narrow):
                continue
            shape = known[name].shape
            if shape is None or len(shape) != len(value.shape):
                return []
            made += [
                (size or (name, axis)) if not isinstance(size, int) or size < 0 else None
                for axis, size in enumerate(shape)
            ]
        return made

    @property
    def shared(self) -> list[Families]:
        """The traces that programs of several sizes share."""
        head = [] if self.head is None else self.head.shared
        return [*(one.families for one in self._shared.values()), *head]

    def _known_program(
        self, names: list[str], inputs: list[Any], shared: _Shared, tensors: list[Tensor]
    ) -> tuple[Callable[..., list[Any]], Callable[[], HostCall | None]]:
        """Return the program of a known trace, or one that traces the graph."""
        known = shared.families.known(tensors) if tensors and shared.layout else None
        if known is None:
            return self._program(names, inputs, shared)
        inputs = [_emptied(value) for value in inputs]
        others: list[Any] = []

        def program(tensors: list[Tensor]) -> list[Any]:
            if not others:
                with calor.device(self.device):
                    made = known.run([*tensors], [], [])
                if made is not MISS:
                    left = iter(made)
                    return [_rebuilt(value, left) for value in shared.layout]
                # A setting changed.
                others.extend(self._program(names, inputs, shared))
            return others[0](tensors)  # type: ignore[no-any-return]

        def hosted() -> HostCall | None:
            if others:
                return others[1]()  # type: ignore[no-any-return]
            plain = all(isinstance(value, _Hole) and value.plain for value in shared.layout)
            return host_call_of(known) if plain else None

        return program, hosted

    def _program(
        self, names: list[str], inputs: list[Any], shared: _Shared
    ) -> tuple[Callable[..., list[Any]], Callable[[], HostCall | None]]:
        graph = self._with_inputs(names)
        # Where outputs are, if this graph is traced for its own sizes.
        own: list[Any] = []
        run = Run(self.device, self.small, traced=True, choices=self.choices)

        def compiled(*tensors: Tensor) -> list[Tensor]:
            left = iter(tensors)
            given = [_rebuilt(value, left) for value in inputs]
            with calor.no_grad():
                try:
                    outputs = run.graph(graph, given)
                except TraceError:
                    self._stopped = run.stopped
                    raise
                finally:
                    self._note(run)
            made: list[Tensor] = []
            layout = [_taken(value, made) for value in outputs]
            if any(isinstance(n, Size) for tensor in tensors for n in tensor.shape):
                if not all(isinstance(value, _Hole) for value in layout):
                    raise DataDependentError("an output is on the host, or a sequence", ())
                shared.layout = layout
            else:
                own[:] = layout
            return made

        jitted = calor.jit(compiled)
        jitted.families = shared.families
        # These inputs are needed for values on the host only.
        inputs = [_emptied(value) for value in inputs]

        def program(tensors: list[Tensor]) -> list[Any]:
            with calor.device(self.device):
                left = iter(jitted(*tensors))
            return [_rebuilt(value, left) for value in own or shared.layout]

        def hosted() -> HostCall | None:
            layout = own or shared.layout
            plain = all(isinstance(value, _Hole) and value.plain for value in layout)
            return host_call(jitted) if plain else None

        return program, hosted

    def _decided_by_inputs(self, error: TraceError, values: dict[str, Any]) -> bool:
        """Move the inputs that decide a shape to the host; return False if there are none."""
        operands = error.operands if isinstance(error, DataDependentError) else ()
        found = deciding(self.graph, operands) - self.host_inputs
        small = {
            name
            for name in found
            if isinstance(value := values.get(name), Tensor)
            and not value.dtype.is_floating
            and value.size <= SHAPE_SIZE
        }
        if not found or small != found:
            return False
        self.host_inputs |= small
        return True


def _kind(value: Any) -> Any:
    """Return the part of a value that a compiled graph depends on, apart from its sizes."""
    if isinstance(value, Tensor):
        return value.ndim, value.dtype.index
    if isinstance(value, Narrow):
        return value.tensor.ndim, value.dtype.name
    if isinstance(value, list):
        return ("sequence", *map(_kind, value))
    return _key(value, [])


def _finished(value: Any) -> Any:
    return value.finish(value.tensor.numpy()) if isinstance(value, Later) else value


def _plain(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _key(value: Any, tensors: list[Tensor]) -> Any:
    """Return the part of a value that a compiled graph depends on; its tensors are appended."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return value.shape, value.dtype.index
    if isinstance(value, Narrow):
        tensors.append(value.tensor)
        return value.shape, value.dtype.name
    if isinstance(value, list):
        return ("sequence", *(_key(item, tensors) for item in value))
    if isinstance(value, np.ndarray):
        if value.dtype == np.object_:
            return value.shape, "text", tuple(value.reshape(-1))
        return value.shape, value.dtype.name, value.tobytes()
    return None


class _Hole:
    """The place of a tensor: the type of a narrow one, or the host's conversion of it."""

    __slots__ = ("dtype", "finish")

    def __init__(self, dtype: Any = None, finish: Any = None) -> None:
        self.dtype = dtype
        self.finish = finish

    @property
    def plain(self) -> bool:
        """Whether the tensor itself is the value."""
        return self.dtype is None and self.finish is None


def _emptied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _Hole()
    if isinstance(value, Narrow):
        return _Hole(value.dtype)
    if isinstance(value, Later):
        return _Hole(finish=value.finish)
    return [_emptied(item) for item in value] if isinstance(value, list) else value


def _taken(value: Any, tensors: list[Tensor]) -> Any:
    """Return a value with its tensors replaced by holes; the tensors are appended."""
    if isinstance(value, Tensor):
        tensors.append(value)
    elif isinstance(value, Narrow | Later):
        tensors.append(value.tensor)
    elif isinstance(value, list):
        return [_taken(item, tensors) for item in value]
    return _emptied(value)


def _rebuilt(value: Any, tensors: Any) -> Any:
    """Return a value with tensors in place of its holes or tensors."""
    if isinstance(value, _Hole):
        made = next(tensors)
        if value.finish is not None:
            return Later(made, value.finish)
        return made if value.dtype is None else Narrow(made, value.dtype)
    if isinstance(value, Tensor):
        return next(tensors)
    if isinstance(value, Narrow):
        return Narrow(next(tensors), value.dtype)
    return [_rebuilt(item, tensors) for item in value] if isinstance(value, list) else value
