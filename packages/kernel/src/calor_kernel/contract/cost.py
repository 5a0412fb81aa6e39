"""Roofline estimates of launches: the larger of transfer and compute time, plus the start.

The estimate chooses between coverings of a graph and orders the blueprints to try. Source:
Williams, Waterman and Patterson, Roofline (2009).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from calor.graph.graph import Graph, Node
from calor.ops.base import TABLE
from calor_kernel.contract.choices import hinted
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.movement import ALWAYS_OF_DENSE
from calor_kernel.contract.work import Work

_FREE = ALWAYS_OF_DENSE | {"full", "constant", "iota"}
# Assumed rates of a core if a device does not give them: bytes and operations per second.
_BANDWIDTH, _FLOPS, _LAUNCH = 2e10, 5e10, 1e-6


@dataclass(frozen=True, slots=True)
class Ceilings:
    """A device's peak rates: bytes and operations per second, and the start of a launch.

    ``timed``: the seconds that a device tells of a launch that does next to nothing. A device with
    known rates has its own ceilings as ``info.native["ceilings"]``.
    """

    bandwidth: float
    flops: float
    launch: float = _LAUNCH
    timed: float = 0.0

    def seconds(self, nbytes: int, flops: int, launches: int = 1) -> float:
        """Return the minimum time of work; symbolic sizes use their hints."""
        moving: float = hinted(nbytes) / self.bandwidth
        computing: float = hinted(flops) / self.flops
        return max(moving, computing) + launches * self.launch


def ceilings_of(info: DeviceInfo) -> Ceilings:
    """Return a device's ceilings, or an assumption."""
    found = info.native.get("ceilings")
    if isinstance(found, Ceilings):
        return found
    return Ceilings(_BANDWIDTH * min(info.cores, 4), _FLOPS * info.cores)


def work_seconds(work: Work, ceilings: Ceilings) -> float:
    """Return the estimate for the launches of some work."""
    return sum(ceilings.seconds(la.nbytes, la.flops) for la in work.launches)


def moved(graph: Graph, inputs: Iterable[int], outputs: Iterable[int]) -> int:
    """Return the bytes of values that are read and written once each.

    Of a value that is broadcast, or a part of another, only what there is in memory is read.
    """
    reads = _reads_of(graph)
    written: int = sum(hinted(graph.specs[v].nbytes) for v in outputs)
    return written + sum(reads[v] for v in inputs)


_known: list[tuple[weakref.ref[Graph], list[int]]] = []


def _reads_of(graph: Graph) -> list[int]:
    """Return the bytes in memory behind each value; those of the last graph are remembered."""
    for known, reads in _known:
        if known() is graph:
            return reads
    found: list[int] = [hinted(s.nbytes) for s in graph.specs]
    for node in graph.nodes:
        if node.op.name in ALWAYS_OF_DENSE:
            (made,) = node.outputs
            found[made] = min(found[made], found[node.inputs[0]])
        elif node.op.name == "full":
            found[node.outputs[0]] = 0
    _known[:] = [(weakref.ref(graph), found)]
    return found


def node_seconds(graph: Graph, node: Node, ceilings: Ceilings) -> float:
    """Return the estimate for a node alone: reading its operands and writing its results."""
    if node.op.name in _FREE:
        return 0.0
    nbytes = moved(graph, set(node.inputs), node.outputs)
    return ceilings.seconds(nbytes, node_flops(graph, node))


def node_flops(graph: Graph, node: Node) -> int:
    """Return the operations of a node, at least one for each value."""
    if node.op is not TABLE.get("dot_general"):
        largest: int = max(hinted(graph.specs[v].size) for v in (*node.inputs, *node.outputs))
        return largest
    a = graph.specs[node.inputs[0]]
    depth = prod(a.shape[i] for i in node.attributes["contract"][0])
    flops: int = 2 * graph.specs[node.outputs[0]].size * depth
    return flops
