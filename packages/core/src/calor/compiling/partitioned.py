"""An executable made of others: it runs segments in order and moves values between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calor.backends.device import Device
from calor.backends.protocol import Buffer, Executable
from calor.graph.graph import Builder, Graph
from calor.graph.segments import Segment


@dataclass(slots=True, weakref_slot=True, eq=False)
class Stage:
    """A segment, the device that runs it, and its executable there."""

    device: Device
    executable: Executable
    segment: Segment

    @property
    def sites(self) -> Sequence[Any]:
        """Where ops that may fail were recorded: not known here."""
        return ()


class PartitionedExecutable:
    """Segments on several devices, or in several pieces on one.

    ``transfers`` is how many values a call moves between devices, ``transferred_bytes`` their size,
    ``fallbacks`` how many nodes run on another device than the one asked for; the device adds them
    up over all calls. ``reasons`` says, op by op, why.
    """

    def __init__(
        self, device: Device, graph: Graph, stages: Sequence[Stage], reasons: Mapping[int, str]
    ) -> None:
        self.device = device
        self.graph = graph
        self.stages = tuple(stages)
        for stage in stages:
            stage.device.holders.add(stage)
        self.reasons = Counter(f"{graph.nodes[i].op.name}: {why}" for i, why in reasons.items())
        self.fallbacks = sum(len(s.segment.nodes) for s in stages if s.device is not device)
        self._ends = self._last_stages()
        moved = self._moves()
        self.transfers = len(moved)
        self.transferred_bytes = sum(graph.specs[v].nbytes for v in moved)
        self.required_bytes = self._bound(moved)
        self._store: Executable | None = None

    def __call__(
        self, inputs: Sequence[Any], into: Sequence[Buffer | None] | None = None
    ) -> list[Any]:
        """Run the segments in order; in-place outputs are written when all have succeeded."""
        graph, home = self.graph, self.device
        # Where each value is: value number to device to buffer. Host numbers are everywhere.
        held: dict[int, dict[Device, Any]] = {
            v: {home: given} for v, given in zip(graph.inputs, inputs, strict=True)
        }
        for number, stage in enumerate(self.stages):
            segment = stage.segment
            arguments = [self._at(held, v, stage.device) for v in segment.inputs]
            made = stage.executable(arguments)
            for v, buffer in zip(segment.outputs, made, strict=True):
                held[v] = {stage.device: buffer}
            for v in self._ends[number]:
                del held[v]
        results = [self._at(held, v, home) for v in graph.outputs]
        home.fallbacks += self.fallbacks
        home.transfers += self.transfers
        home.transferred_bytes += self.transferred_bytes
        return self._own(results, into)

    def explain(self) -> str:
        """Return a text: the segments with their devices, the transfers, and the reasons."""
        devices = ", ".join(dict.fromkeys(s.device.name for s in self.stages))
        moved = f"{self.transfers} values, {self.transferred_bytes} bytes"
        lines = [f"{len(self.stages)} segments on {devices}; each call moves {moved}"]
        for number, stage in enumerate(self.stages, 1):
            ops = Counter(node.op.name for node in stage.segment.graph.nodes)
            listed = ", ".join(f"{n} {name}" for name, n in ops.most_common())
            lines.append(f"  {number}. {stage.device.name}: {listed}")
        lines += [f"  {self.device.name} refused {n} {why}" for why, n in self.reasons.items()]
        return "\n".join(lines)

    def _at(self, held: dict[int, dict[Device, Any]], value: int, device: Device) -> Any:
        places = held[value]
        if value in self.graph.host:
            return next(iter(places.values()))
        found = places.get(device)
        if found is None:
            source, buffer = next(iter(places.items()))
            found = places[device] = move(buffer, source, device, self.graph.specs[value])
        return found

    def _own(self, results: list[Any], into: Sequence[Buffer | None] | None) -> list[Any]:
        """Return the results in memory of their own, or in the buffers given for them."""
        graph = self.graph
        copied = {v for v in graph.inputs if v in graph.outputs}
        repeated = len(set(graph.outputs)) < len(graph.outputs)
        if into is None or all(target is None for target in into):
            if not copied and not repeated:
                return results
            into = None
        if self._store is None:
            builder = Builder()
            numbers = [
                builder.input(s, v in graph.host)
                for v, s in zip(graph.outputs, graph.output_specs, strict=True)
            ]
            identity = builder.build(numbers)
            self._store = self.device.backend.compile(self.device.index, identity)
        return self._store(results, into)

    def _last_stages(self) -> list[tuple[int, ...]]:
        """Return for each stage the values that nothing reads after it."""
        keep = set(self.graph.outputs)
        ends: list[tuple[int, ...]] = []
        for stage in reversed(self.stages):
            segment = stage.segment
            last = [v for v in (*segment.inputs, *segment.outputs) if v not in keep]
            keep.update(last)
            ends.append(tuple(last))
        return ends[::-1]

    def _moves(self) -> list[int]:
        """Return the values that a call moves, once for each device that receives them."""
        graph, home = self.graph, self.device
        places: dict[int, set[Device]] = {v: {home} for v in graph.inputs}
        moved: list[int] = []

        def need(value: int, device: Device) -> None:
            if value not in graph.host and device not in places[value]:
                places[value].add(device)
                moved.append(value)

        for stage in self.stages:
            for v in stage.segment.inputs:
                need(v, stage.device)
            for v in stage.segment.outputs:
                places[v] = {stage.device}
        for v in graph.outputs:
            need(v, home)
        return moved

    def _bound(self, moved: Sequence[int]) -> int:
        """Return what a call allocates at most: the exchanged values and the largest stage."""
        specs = self.graph.specs
        exchanged = sum(specs[v].nbytes for stage in self.stages for v in stage.segment.outputs)
        exchanged += sum(specs[v].nbytes for v in moved)
        largest = max((stage.executable.required_bytes for stage in self.stages), default=0)
        return exchanged + largest + sum(s.nbytes for s in self.graph.output_specs)


def move(buffer: Any, source: Device, target: Device, known: Any) -> Any:
    """Return a copy of a buffer on another device, through the host if there is no other way."""
    if source.backend is target.backend:
        return source.backend.copy(source.index, buffer, known, target.index)
    received = target.backend.receive(target.index, source, buffer, known)
    if received is not None:
        return received
    array = source.backend.download(source.index, buffer, known)
    return target.backend.upload(target.index, array)
