"""Nodes whose results nobody reads, and constants that are left."""

from __future__ import annotations

from calor_onnx.graph import Graph, used_by


def dead(graph: Graph) -> None:
    """Take out nodes and constants that the outputs do not need."""
    needed = {info.name for info in graph.outputs if info.name}
    kept = []
    for node in reversed(graph.nodes):
        # What makes nothing that has a name is left for the run to refuse.
        if needed.intersection(node.outputs) or not any(node.outputs):
            kept.append(node)
            needed.update(used_by(node))
    graph.nodes[:] = kept[::-1]
    given = {info.name for info in graph.inputs}
    for name in [n for n in graph.constants if n not in needed and n not in given]:
        del graph.constants[name]
