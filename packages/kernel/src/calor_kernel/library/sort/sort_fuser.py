"""Sorts of which not everything is read: values or indices alone, or the first few of both.

Requirements: a sort makes values and indices of all elements, and a caller that wants the largest
hundred, or only the values, must not pay for the rest; what is not done so is done as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from calor.graph.graph import Graph, Node
from calor_kernel.contract.fuser import Fuser, Group
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.sort.partial_sort import sorts_candidates

PART: Final = "sort_part"


class SortFuser(Fuser):
    """Covers a sort and the slices of its front, where only a part of its results is read."""

    name = "sort"

    def groups(self, graph: Graph, info: DeviceInfo) -> Iterable[Group]:
        """Return a group for each such sort."""
        sorts = [i for i, node in enumerate(graph.nodes) if node.op.name == "sort"]
        if not sorts or not (sorts_candidates(info) or info.has("planes")):
            return ()
        readers: dict[int, list[int]] = {}
        for i, node in enumerate(graph.nodes):
            for value in node.inputs:
                readers.setdefault(value, []).append(i)
        found = (self._group(graph, i, readers) for i in sorts)
        return [group for group in found if group is not None]

    def _group(self, graph: Graph, number: int, readers: dict[int, list[int]]) -> Group | None:
        node = graph.nodes[number]
        axis = node.attributes["axis"]
        shape = graph.specs[node.inputs[0]].shape
        fronts = [readers.get(value, []) for value in node.outputs]
        slices = [i for front in fronts for i in front]
        counts = {_front(graph.nodes[i], axis, shape) for i in slices}
        if len(counts) == 1 and 0 not in counts and not set(node.outputs) & set(graph.outputs):
            (count,) = counts
            if all(len(front) <= 1 for front in fronts):
                which = tuple(bool(front) for front in fronts)
                outputs = tuple(graph.nodes[i].outputs[0] for i in slices)
                return _made(node, (number, *slices), which, outputs, count)
        which = tuple(
            bool(front) or value in graph.outputs
            for front, value in zip(fronts, node.outputs, strict=True)
        )
        if all(which) or not any(which):
            return None
        outputs = tuple(v for v, read in zip(node.outputs, which, strict=True) if read)
        return _made(node, (number,), which, outputs, shape[axis])


def _made(
    node: Node,
    nodes: tuple[int, ...],
    which: tuple[bool, ...],
    outputs: tuple[int, ...],
    count: int,
) -> Group:
    attributes = {
        "axis": node.attributes["axis"],
        "descending": node.attributes["descending"],
        "count": count,
        "values": which[0],
        "indices": which[1],
    }
    return Group(tuple(sorted(nodes)), PART, (node.inputs[0],), outputs, 0.0, attributes)


def _front(node: Node, axis: int, shape: tuple[int, ...]) -> int:
    """Return how many elements along an axis a slice takes from its front; 0 for anything else."""
    if node.op.name != "slice":
        return 0
    said = node.attributes
    for i, n in enumerate(shape):
        if said["starts"][i] or said["steps"][i] != 1 or (i != axis and said["stops"][i] != n):
            return 0
    return int(said["stops"][axis])
