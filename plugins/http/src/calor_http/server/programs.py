"""The programs of a client on a server, and the commands that make and run them.

Requirements: a run is checked against its graph before a device sees it; one that fails leaves
state as it was, and its results the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from calor.backends.device import Device
from calor.errors import (
    CalorError,
    DeviceError,
    DeviceLostError,
    OutOfMemoryError,
    ProtocolError,
)
from calor.graph.graph import Graph, part
from calor.specs import Spec
from calor.units import bytes_text
from calor_http.described import encode_claim, largest_op
from calor_http.errors import LimitError
from calor_http.server.graphs import Graphs, constant_bytes
from calor_http.server.room import Room
from calor_http.server.values import Value, array_of

# A failed run with more results than this keeps none of them.
_ALONE: Final = 64
# After these errors nothing more is computed.
_FINAL: Final = (OutOfMemoryError, DeviceLostError)
_MISSING: Final = "missing"


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled graph on a device."""

    device: Device
    graph: Graph
    executable: Any
    largest: str | None
    # Of each input what it is, and whether it may be a number of the host; of each output, what.
    given: Sequence[tuple[Spec, bool]]
    made: Sequence[Spec]
    # The bytes of its constants.
    constants: int


class Programs:
    """The programs of one client.

    Parameters
    ----------
    room : Room
        Its values.
    graphs : Graphs
        The graphs of all clients.
    """

    def __init__(self, room: Room, graphs: Graphs) -> None:
        self._room = room
        self._graphs = graphs
        self._owner = room.owner
        self._programs: dict[int, Program] = {}

    def clear(self) -> None:
        """Free everything."""
        self._release(list(self._programs))

    def device_of(self, number: Any) -> Device | None:
        """Return the device of a program, if it is known."""
        found = self._programs.get(number) if type(number) is int else None
        return None if found is None else found.device

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Return the commands about graphs, by name."""
        return {
            "graph": self._graph,
            "claim": self._claim,
            "compile": self._compile,
            "within": self._within,
            "release": self._release,
            "run": self._run,
        }

    def _graph(self, digest: str, data: Any) -> None:
        content = self._room.blobs.take(data) if type(data) is int else data
        self._graphs.add(self._owner, digest, bytes(content))

    def _claim(self, index: int, digest: str) -> Any:
        device = self._room.device(index)
        graph = self._graphs.find(self._owner, digest)
        if graph is None:
            return _MISSING
        return encode_claim(self._graphs.claim(device, digest, graph))

    def _compile(self, number: int, index: int, digest: str) -> Any:
        return self._compiled(number, index, digest, None)

    def _within(self, number: int, index: int, digest: str, limit: int, in_place: Any) -> Any:
        places = {int(output): int(given) for output, given in in_place.items()}
        return self._compiled(number, index, digest, (int(limit), places))

    def _compiled(self, number: int, index: int, digest: str, within: Any) -> Any:
        device = self._room.device(index)
        self._room.drain.check()
        graph = self._graphs.find(self._owner, digest)
        if graph is None:
            return _MISSING
        if type(number) is not int or number in self._programs:
            raise ProtocolError(f"{number!r} is no free number of a program", rule="fresh")
        if len(self._programs) >= self._room.limits.handles:
            raise LimitError(
                f"a client holds {self._room.limits.handles} programs, the server's limit"
            )
        for known in graph.specs:
            if known.nbytes > self._room.limits.tensor_bytes:
                most = bytes_text(self._room.limits.tensor_bytes)
                raise LimitError(f"a graph has {known}; the server's limit of a tensor is {most}")
        claim = self._graphs.claim(device, digest, graph)
        if sum(map(len, claim.parts)) != len(graph.nodes) or len(claim.parts) > 1:
            raise ProtocolError(f"{device.name} does not take the whole graph", rule="whole")
        constants = constant_bytes(graph)
        self._room.reserve(constants)
        backend = device.backend
        if within is None:
            made = backend.compile(device.index, graph)
        else:
            made = backend.compile_within(device.index, graph, *within)
        given = [(graph.specs[v], v in graph.host) for v in graph.inputs]
        self._programs[number] = Program(
            device, graph, made, largest_op(graph), given, graph.output_specs, constants
        )
        self._room.constants += constants
        return made.required_bytes

    def _release(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            found = self._programs.pop(number, None) if type(number) is int else None
            self._room.constants -= 0 if found is None else found.constants

    def _run(
        self, number: int, inputs: Sequence[Any], outputs: Sequence[int], into: Sequence[int]
    ) -> None:
        """Run a program; ``into`` are the outputs, by place, that are values written in place."""
        program = self._programs.get(number)
        if program is None:
            raise ProtocolError(f"no program has number {number!r}", rule="foreign")
        device, values = program.device, self._room.values
        written, fresh = self._targets(program, outputs, into)
        read: list[Value] = []
        given: list[Any] = []
        if len(inputs) != len(program.given):
            raise ProtocolError(f"{len(inputs)} inputs for {len(program.given)}", rule="inputs")
        for thing, (known, host) in zip(inputs, program.given, strict=True):
            if host and isinstance(thing, bytes):
                given.append(array_of(thing, known)[()])
                continue
            value = values.get(thing, device, known)
            read.append(value)
            given.append(value.buffer)
        state = list(written.values())
        error = next((value.error for value in (*read, *state) if value.error), None)
        if error is not None and len(fresh) > 1 and not written:
            self._put_rest(program, inputs, given, fresh)
            return
        made: Sequence[Any] = [None] * len(outputs)
        if error is None:
            needed = program.executable.required_bytes
            self._room.raise_peak(device, needed)
            targets = [written[i].buffer if i in written else None for i in range(len(outputs))]
            try:
                self._room.drain.check()
                self._room.reserve(needed, program.largest)
                made = program.executable(given, targets if written else None)
            except Exception as raised:
                error = self._room.failed(raised, device, state)
                if not written:
                    self._put_alone(program, given, fresh, error)
                    return
        else:
            values.failed(error, state)
        for i, result in fresh.items():
            values.put(result, Value(device, program.made[i], made[i], error))

    def _put_rest(
        self,
        program: Program,
        inputs: Sequence[Any],
        given: Sequence[Any],
        fresh: Mapping[int, int],
    ) -> None:
        """Where operands have failed, compute the results that depend on none of them."""
        device, graph, values = program.device, program.graph, self._room.values
        broken: dict[int, CalorError] = {}
        for v, number in zip(graph.inputs, inputs, strict=True):
            if type(number) is int and (error := values.get(number, device).error) is not None:
                broken[v] = error
        for node in graph.nodes:
            found = next((broken[v] for v in node.inputs if v in broken), None)
            if found is not None:
                broken.update(dict.fromkeys(node.outputs, found))
        rest: dict[int, int] = {}
        for i, number in fresh.items():
            lost = broken.get(graph.outputs[i])
            if lost is None:
                rest[i] = number
            else:
                values.put(number, Value(device, program.made[i], error=values.failed(lost, ())))
        try:
            self._room.drain.check()
            made = self._computed(program, given, [*rest]) if rest else []
        except Exception as raised:
            self._put_alone(program, given, rest, self._room.failed(raised, device, ()))
            return
        for (i, number), buffer in zip(rest.items(), made, strict=True):
            values.put(number, Value(device, program.made[i], buffer))

    def _put_alone(
        self, program: Program, given: Sequence[Any], fresh: Mapping[int, int], error: CalorError
    ) -> None:
        """After a failed run, compute its results one by one, as far as that goes."""
        again = 1 < len(fresh) <= _ALONE and not isinstance(error, _FINAL)
        for i, number in fresh.items():
            value = Value(program.device, program.made[i], error=error)
            if again:
                with suppress(Exception):
                    (value.buffer,) = self._computed(program, given, [i])
                    value.error = None
            self._room.values.put(number, value)

    def _computed(
        self, program: Program, given: Sequence[Any], places: Sequence[int]
    ) -> Sequence[Any]:
        """Return some results of a program, computed from the operands that they depend on."""
        device = program.device
        graph, read = _only(program.graph, places)
        executable = device.backend.compile(device.index, graph)
        self._room.reserve(executable.required_bytes, program.largest)
        made: Sequence[Any] = executable([given[v] for v in read])
        return made

    def _targets(
        self, program: Program, outputs: Sequence[int], into: Sequence[int]
    ) -> tuple[dict[int, Value], dict[int, int]]:
        """Return the values that a run writes, and the numbers of those that it makes, by place."""
        specs, values = program.made, self._room.values
        places = set(into)
        if len(outputs) != len(specs) or not places.issubset(range(len(specs))):
            raise ProtocolError(f"{len(outputs)} outputs for {len(specs)}", rule="outputs")
        written = {i: values.get(outputs[i], program.device, specs[i]) for i in places}
        if len({id(value) for value in written.values()}) < len(written):
            raise ProtocolError("one value is written by two outputs", rule="into")
        if written and not program.device.info.feature("in_place"):
            raise DeviceError(f"{program.device.name} writes nothing in place")
        fresh = {i: n for i, n in enumerate(outputs) if i not in places}
        values.check_fresh(fresh.values())
        return written, fresh


def _only(graph: Graph, places: Sequence[int]) -> tuple[Graph, list[int]]:
    """Return a graph with some of its outputs, and the inputs that these depend on."""
    outputs = [graph.outputs[i] for i in places]
    needed, nodes = set(outputs), []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            nodes.append(node)
            needed.update(node.inputs)
    read = [v for v in graph.inputs if v in needed]
    return part(graph, read, nodes[::-1], outputs), read
