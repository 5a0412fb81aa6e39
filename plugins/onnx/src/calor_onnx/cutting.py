"""Splitting a graph at a data-dependent shape, so that the first part can be compiled."""

from __future__ import annotations

from calor_onnx.graph import Graph, Node, ValueInfo, used_by


def cut(graph: Graph, stop: Node) -> tuple[Graph, Graph] | None:
    """Return the nodes independent of a node, and the others; None without independent ones.

    The outputs of the first graph are inputs of the second, before those of the whole graph.
    """
    late = {name for name in stop.outputs if name}
    before, after = [], []
    for node in graph.nodes:
        if node is stop or any(name in late for name in used_by(node)):
            after.append(node)
            late.update(name for name in node.outputs if name)
        else:
            before.append(node)
    made = {name for node in before for name in node.outputs if name}
    wanted = {name for node in after for name in used_by(node)}
    wanted |= {info.name for info in graph.outputs}
    between = [ValueInfo(name, None, None) for name in sorted(made & wanted)]
    if not between:
        return None
    given = [info for info in graph.inputs if info.name not in graph.constants]
    head = Graph(graph.name, given, between, before, graph.constants, types=graph.types)
    tail = Graph(
        graph.name, [*between, *given], graph.outputs, after, graph.constants, types=graph.types
    )
    head.link()
    tail.link()
    return head, tail
