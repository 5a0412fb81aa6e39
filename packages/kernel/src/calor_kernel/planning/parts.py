"""Values that are contiguous parts of an input: slices of its first axes, reshaped.

Requirements: the plans of a graph with control flow exchange whole buffers, and a layer's weights
are often slices of an array shared by several layers. Copying these at every call costs more than
the layer. On a device with handles of parts, such a value is a part.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from calor.graph.graph import Graph, Node
from calor_kernel.device.buffers import OPEN
from calor_kernel.device.pool import SMALLEST
from calor_kernel.device.protocol import Memory


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a value: the number of an input, the byte offset in it, and the bytes."""

    source: int
    offset: int
    nbytes: int


def places_of(graph: Graph, align: int) -> dict[int, Place]:
    """Return the places of the values that are parts of inputs, except the graph's outputs.

    Offsets of parts are multiples of ``align``; 0 means that the device has no handles of parts.
    """
    found: dict[int, Place] = {}
    if not align:
        return found
    inputs = {v for v in graph.inputs if v not in graph.host}
    for node in graph.nodes:
        if node.op.name not in ("slice", "reshape") or node.outputs[0] in graph.outputs:
            continue
        (source,) = node.inputs
        if source in inputs:
            place = Place(source, 0, graph.specs[source].nbytes)
        elif source in found:
            place = found[source]
        else:
            continue
        skipped = _skipped(graph, node) if node.op.name == "slice" else 0
        nbytes = graph.specs[node.outputs[0]].nbytes
        if skipped is not None and nbytes and not (place.offset + skipped) % align:
            found[node.outputs[0]] = Place(place.source, place.offset + skipped, nbytes)
    return found


def _skipped(graph: Graph, node: Node) -> int | None:
    """Return the byte offset of a slice; None if it is not contiguous."""
    spec = graph.specs[node.inputs[0]]
    shape, options = spec.shape, node.attributes
    starts, stops = options["starts"], options["stops"]
    if any(step != 1 for step in options["steps"]):
        return None
    taken = [b - a for a, b in zip(starts, stops, strict=True)]
    # The first axis with more than one index taken; the axes behind it are taken whole.
    first = next((axis for axis, n in enumerate(taken) if n != 1), len(taken))
    if tuple(taken[first + 1 :]) != tuple(shape[first + 1 :]):
        return None
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    elements = sum(a * n for a, n in zip(starts, strides, strict=True))
    return int(elements * spec.dtype.itemsize)


class Part:
    """A non-owning part of a buffer."""

    __slots__ = ("base", "handle", "nbytes", "offset", "outcomes")

    def __init__(self, memory: Memory, base: Any, place: Place) -> None:
        self.base = base
        self.handle = base.handle
        if place.offset:
            # The handle covers the rounded-up size; kernels may be bound to a little more than they
            # read.
            room = -(-place.nbytes // SMALLEST) * SMALLEST
            self.handle = memory.part(base.handle, place.offset, room)
        self.nbytes = place.nbytes
        self.offset = place.offset
        self.outcomes = base.outcomes

    @property
    def stamp(self) -> int:
        """The buffer's stamp with the offset: different parts have different contents."""
        number: int = self.base.stamp
        return number if number == OPEN else number + (self.offset << 64 if number else 0)

    @stamp.setter
    def stamp(self, number: int) -> None:
        self.base.stamp = number
