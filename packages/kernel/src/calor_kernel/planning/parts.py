"""Values that are contiguous parts of an input: slices of its first axes, reshaped.

Requirements: the plans of a graph with control flow exchange whole buffers, and a layer's weights
are often slices of an array shared by several layers. Copying these at every call costs more than
the layer. On a device with handles of parts, such a value is a part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.graph.graph import Graph
from calor_kernel.contract.movement import view_of
from calor_kernel.contract.work import View
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
        given, spec = View.dense(graph.specs[source]), graph.specs[node.outputs[0]]
        view = view_of(node.op.name, given, node.attributes, spec)
        if view is None or not view.is_dense or not spec.nbytes:
            continue
        offset = place.offset + view.offset * spec.dtype.itemsize
        if offset % align == 0:
            found[node.outputs[0]] = Place(place.source, offset, spec.nbytes)
    return found


class Part:
    """A non-owning part of a buffer."""

    __slots__ = ("__weakref__", "base", "handle", "nbytes", "offset", "outcomes")

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
