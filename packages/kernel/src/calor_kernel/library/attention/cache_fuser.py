"""Attention of few queries to caches, of which a row each was written just before: one launch.

Requirements: a step of decoding writes a key and a value to caches and attends to these. The rows
are read from where they were made and written by the cubes that would read them, so no launch waits
for a launch that copies a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from calor.graph.graph import Graph
from calor_kernel.contract.fuser import Fuser, Group, boundary
from calor_kernel.contract.info import DeviceInfo

OP: Final = "attention_cached"
_UPDATE: Final = "dynamic_update_slice"
# Maximum of queries; more have a way of their own on some devices.
_QUERIES: Final = 15


class CacheFuser(Fuser):
    """Covers attention and the updates of both of its caches."""

    name = "cache"

    def groups(self, graph: Graph, info: DeviceInfo) -> Iterable[Group]:
        """Return a group for each attention to updated caches."""
        attending = [i for i, node in enumerate(graph.nodes) if node.op.name == "attention"]
        if not attending or not (info.has("planes") and info.has("barrier")):
            return ()
        makers = {
            node.outputs[0]: i for i, node in enumerate(graph.nodes) if node.op.name == _UPDATE
        }
        found = (self._group(graph, i, makers) for i in attending)
        return [group for group in found if group is not None]

    def _group(self, graph: Graph, number: int, makers: dict[int, int]) -> Group | None:
        node = graph.nodes[number]
        query, key, value, *extras = node.inputs
        if key not in makers or value not in makers or key == value:
            return None
        nodes = tuple(sorted((makers[key], makers[value], number)))
        keys, values = graph.nodes[makers[key]], graph.nodes[makers[value]]
        (cache, new_key, place), (other, new_value, second) = keys.inputs, values.inputs
        whole = graph.specs[key].shape
        _, outputs = boundary(graph, nodes)
        if (
            place != second
            or cache == other
            or graph.specs[new_key].shape != (*whole[:2], 1, whole[3])
            or graph.specs[new_value].shape != (*whole[:2], 1, graph.specs[value].shape[3])
            or graph.specs[query].shape[2] > _QUERIES
            or set(outputs) != {node.outputs[0], key, value}
        ):
            return None
        inputs = query, cache, other, new_key, new_value, place, *extras
        return Group(nodes, OP, inputs, (node.outputs[0], key, value), 0.0, dict(node.attributes))
