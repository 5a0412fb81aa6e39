"""Removal of nodes and constants without readers."""

from __future__ import annotations

from calor_onnx.graph import Graph, used_by


def dead(graph: Graph) -> None:
    """Remove nodes and constants that the outputs do not need."""
    needed = {info.name for info in graph.outputs if info.name}
    kept = []
    for node in reversed(graph.nodes):
        # A node without a named output stays, so that the run refuses it.
        if needed.intersection(node.outputs) or not any(node.outputs):
            kept.append(node)
            needed.update(used_by(node))
    graph.nodes[:] = kept[::-1]
    given = {info.name for info in graph.inputs}
    for name in [n for n in graph.constants if n not in needed and n not in given]:
        del graph.constants[name]
