"""Claims and compiles graphs; composites that no family supports are decomposed.

Requirements: every refusal of a node has a reason for the user.
"""

from __future__ import annotations

from typing import Final

from calor.backends.protocol import Executable
from calor.graph.decompose import decompose
from calor.graph.graph import Graph, Node
from calor.interning import remember
from calor_kernel.contract.movement import ALWAYS_OF_DENSE, view_of
from calor_kernel.contract.work import Refusal, View
from calor_kernel.planning.control import ControlPlan, Staged
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.flows import FLOWS, flow_refusal, has_flows
from calor_kernel.planning.joins import joining
from calor_kernel.planning.late_casts import casts_behind
from calor_kernel.planning.lean_scans import lean_scans
from calor_kernel.planning.planner import SOURCES
from calor_kernel.planning.recomputing import recomputing
from calor_kernel.planning.replanning import plan_anew
from calor_kernel.planning.structure import structure_of

# Ops that never reach a family: views and sources.
STRUCTURAL: Final = SOURCES | ALWAYS_OF_DENSE


def refusals(engine: Engine, graph: Graph) -> dict[int, str]:
    """Return the nodes that a device refuses, with reasons."""
    reasons = engine.described.objections(graph)
    for number, node in enumerate(graph.nodes):
        if number not in reasons:
            reason = _refusal(engine, graph, node)
            if reason:
                reasons[number] = reason
    return reasons


def _refusal(engine: Engine, graph: Graph, node: Node) -> str | None:
    name = node.op.name
    if name in STRUCTURAL:
        return None
    if name in FLOWS:
        taken = flow_refusal(engine, graph, node) is None
        return None if taken else _body_refusal(engine, node)
    specs = graph.specs
    views = tuple(View.dense(specs[v]) for v in node.inputs)
    if len(views) == 1:
        moved = view_of(name, views[0], node.attributes, specs[node.outputs[0]])
        if moved is not None:
            return None
    if name not in engine.lowerings:
        return "no kernel family does it"
    outputs = tuple(specs[o] for o in node.outputs)
    found = engine.lowerings.ask(name, node.attributes, views, outputs)
    return found.reason if isinstance(found, Refusal) else None


def _body_refusal(engine: Engine, node: Node) -> str | None:
    bodies = [body for body in node.attributes.values() if isinstance(body, Graph)]
    for body in bodies:
        if body not in engine.body_refusals:
            remember(engine.body_refusals, body, _refused_within(engine, body))
        reason = engine.body_refusals[body]
        if reason is not None:
            return reason
    return None


def _refused_within(engine: Engine, body: Graph) -> str | None:
    inner, reasons = fitting(engine, body)
    for number, reason in reasons.items():
        return f"{inner.nodes[number].op.name} in its sub-graph: {reason}"
    return None


def fitting(engine: Engine, graph: Graph) -> tuple[Graph, dict[int, str]]:
    """Return a graph with its refused composites decomposed, and the remaining refusals.

    Core does this for whole graphs, and leaves sub-graphs of control flow to the device.
    """
    while True:
        reasons = refusals(engine, graph)
        smaller = decompose(graph, frozenset(reasons)) if reasons else graph
        if smaller is graph:
            return graph, reasons
        graph = smaller


def known_in_stages(engine: Engine, graph: Graph) -> bool:
    """Return whether a graph has control flow and all its stages fit templates.

    A known program at a new size then asks no family about its nodes. The stages are kept, because
    the graph is likely to be compiled next.
    """
    if not has_flows(engine, graph):
        return False
    staged = Staged.of(engine, arranged(graph))
    engine.staged = graph, staged
    return all(map(engine.replanning.fits, staged.plans())) and not any(
        _body_refusal(engine, node) for node in staged.flows()
    )


def arranged(graph: Graph) -> Graph:
    """Return the graph in the form that is planned: the same numbers with less to store."""
    return casts_behind(joining(recomputing(lean_scans(graph))))


def compile_graph(engine: Engine, graph: Graph) -> Executable:
    """Return the executable of a claimed graph; CompileError."""
    known = engine.replanning.ready(graph)
    if known is not None:
        return known
    held, engine.staged = engine.staged, None
    if held is not None and held[0] is graph:
        return ControlPlan(engine, held[1], compile_body)
    key, planned = engine.drafts.take(graph)
    graph = arranged(graph) if planned is None else planned[0].graph
    structure = structure_of(graph)
    if structure is not None:
        return engine.replanning.plan(graph, structure, key, planned)
    if has_flows(engine, graph):
        return ControlPlan(engine, Staged.of(engine, graph), compile_body)
    return plan_anew(engine, graph, key, planned)


def compile_body(engine: Engine, graph: Graph) -> Executable:
    """Return the executable of a part of a graph, or of a sub-graph."""
    if engine.replanning.fits(graph):
        return compile_graph(engine, graph)
    return compile_graph(engine, fitting(engine, graph)[0])
