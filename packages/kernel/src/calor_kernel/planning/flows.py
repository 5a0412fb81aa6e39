"""Which nodes run by stages: flows that no family takes as an op, and functions of the host.

Requirements: whether a family takes a flow does not depend on the number of its steps, so a known
flow of a new length asks no family.
"""

from __future__ import annotations

from typing import Final

from calor.graph.graph import Graph, Node
from calor.interning import remember
from calor_kernel.contract.work import Refusal, View
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.hosted import on_host

FLOWS: Final = frozenset(("cond", "while_loop", "scan", "callback", "ordered_callback"))


def flow_refusal(engine: Engine, graph: Graph, node: Node) -> str | None:
    """Return why no family takes a flow as an op, None if one does.

    Parameters
    ----------
    engine : Engine
        The device.
    graph : Graph
        A graph.
    node : Node
        A node of it with control flow.
    """
    name = node.op.name
    if name not in engine.lowerings:
        return "no kernel family takes its steps together"
    if not graph.host.isdisjoint(node.inputs):
        return "it reads a number of the host"
    bodies = tuple(a for a in node.attributes.values() if isinstance(a, Graph))
    known = engine.flow_refusals.get(bodies)
    if known is not None:
        return known
    views = tuple(View.dense(graph.specs[v]) for v in node.inputs)
    outputs = tuple(graph.specs[v] for v in node.outputs)
    answer = engine.lowerings.ask(name, node.attributes, views, outputs, engine.deterministic)
    if not isinstance(answer, Refusal):
        return None
    # Without steps there is nothing to launch, which tells nothing of other lengths.
    if all(view.size for view in views):
        remember(engine.flow_refusals, bodies, answer.reason)
    return answer.reason


def is_flow(engine: Engine, graph: Graph, node: Node) -> bool:
    """Return whether a node runs by stages; arguments as for :func:`flow_refusal`."""
    if node.op.name in FLOWS:
        return flow_refusal(engine, graph, node) is not None
    return on_host(engine, graph, node)


def has_flows(engine: Engine, graph: Graph) -> bool:
    """Return whether a node of a graph runs by stages."""
    return any(is_flow(engine, graph, node) for node in graph.nodes)
