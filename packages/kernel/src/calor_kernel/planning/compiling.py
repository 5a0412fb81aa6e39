"""Claims and compiles graphs; composites that no family supports are decomposed.

Requirements: every refusal of a node has a reason for the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from calor.backends.protocol import Executable
from calor.graph.decompose import decompose
from calor.graph.graph import Graph, Node
from calor.interning import remember
from calor_kernel.contract.movement import ALWAYS_OF_DENSE, view_of
from calor_kernel.contract.work import Refusal, View
from calor_kernel.planning.activations import rewriting_activations
from calor_kernel.planning.control import ControlPlan, Staged
from calor_kernel.planning.coverings import FEW
from calor_kernel.planning.dense_results import dense_results
from calor_kernel.planning.drafts import Planned
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.flows import FLOWS, flow_refusal, has_flows, is_flow
from calor_kernel.planning.hosted import on_host, with_factors
from calor_kernel.planning.joins import joining
from calor_kernel.planning.late_casts import casts_behind
from calor_kernel.planning.lean_scans import lean_scans
from calor_kernel.planning.narrow_spectra import narrow_spectra
from calor_kernel.planning.norm_shapes import in_norm_shapes
from calor_kernel.planning.planner import SOURCES
from calor_kernel.planning.recomputing import recomputing
from calor_kernel.planning.repeating import Unrepeated, repeats
from calor_kernel.planning.replanning import plan_anew
from calor_kernel.planning.single_steps import has_single_steps, single_steps
from calor_kernel.planning.spread_values import spreading
from calor_kernel.planning.structure import structure_of
from calor_kernel.planning.work_behind_joins import with_work_before_joins

# Ops that never reach a family: views and sources.
STRUCTURAL: Final = SOURCES | ALWAYS_OF_DENSE
# Ops whose kernels are usually those of the node alone, and take the longest to compile.
_PRODUCTS: Final = frozenset(("dot_general", "conv", "conv_input_gradient", "conv_weight_gradient"))


def refusals(engine: Engine, graph: Graph) -> dict[int, str]:
    """Return the nodes that a device refuses, with reasons.

    Workers meanwhile begin to compile the products of a large graph.
    """
    if len(graph.nodes) >= FEW:
        engine.kernels.expect()
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
    if on_host(engine, graph, node):
        return None
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
    if isinstance(found, Refusal):
        return found.reason
    if name in _PRODUCTS and len(graph.nodes) >= FEW:
        engine.kernels.begin(launch.build for launch in found[0].launches)
    return None


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
    if not has_flows(engine, graph) or has_single_steps(graph, partial(_by_host, engine)):
        return False
    if _repeats(engine, graph):
        structure = structure_of(graph)
        if structure is not None and structure.key not in engine.unrepeated:
            return False
    staged = Staged.of(engine, arranged(graph, fused=bool(engine.fusers)))
    engine.staged = graph, staged
    return all(map(engine.replanning.fits, staged.plans())) and not any(
        _body_refusal(engine, node) for node in staged.flows()
    )


def arranged(graph: Graph, fused: bool = True) -> Graph:
    """Return the graph in the form that is planned: the same numbers with less to store.

    ``fused``: whether a fuser looks at it.
    """
    graph = spreading(recomputing(in_norm_shapes(narrow_spectra(lean_scans(graph)))))
    graph = rewriting_activations(graph)
    # Without a fuser each part would be a launch.
    graph = with_work_before_joins(graph) if fused else graph
    return dense_results(casts_behind(joining(graph)))


def _by_host(engine: Engine, graph: Graph, node: Node) -> bool:
    return not engine.device.info.has("repeats") and is_flow(engine, graph, node)


def without_single_steps(engine: Engine, graph: Graph) -> Graph:
    """Return a claimed graph with the steps of scans of one step in it, if the device takes it."""
    joined = single_steps(graph, partial(_by_host, engine))
    if joined is graph:
        return graph
    # Sub-graphs are claimed by the device, composites in them too.
    joined, reasons = fitting(engine, joined)
    return graph if reasons else joined


def compile_graph(engine: Engine, graph: Graph) -> Executable:
    """Return the executable of a claimed graph; CompileError."""
    known = engine.replanning.ready(graph)
    if known is not None:
        return known
    held, engine.staged = engine.staged, None
    if held is not None and held[0] is graph:
        return ControlPlan(engine, held[1], compile_body)
    key, planned = engine.drafts.take(graph)
    graph = (
        arranged(without_single_steps(engine, graph), fused=bool(engine.fusers))
        if planned is None
        else planned[0].graph
    )
    if has_flows(engine, graph):
        made = None
        if _repeats(engine, graph):
            made = _repeated(engine, graph, key, planned)
        return made or ControlPlan(engine, Staged.of(engine, graph), compile_body)
    # A family that takes all steps of a scan is asked for each number of steps.
    scans = any(node.op.name in FLOWS for node in graph.nodes)
    structure = None if scans else structure_of(graph)
    if structure is not None:
        return engine.replanning.plan(graph, structure, key, planned)
    return plan_anew(engine, graph, key, planned)


def _repeats(engine: Engine, graph: Graph) -> bool:
    return repeats(engine.device.info, graph) and not with_factors(engine, graph)


def _repeated(
    engine: Engine, graph: Graph, key: str | None, planned: Planned | None
) -> Executable | None:
    """Return the plan of a graph whose scans the device repeats; None if one is not repeated."""
    structure = structure_of(graph)
    if structure is None or structure.key in engine.unrepeated:
        return None
    if planned is None:
        graph = _with_bodies(engine, graph)
    fitted = structure_of(graph)
    assert fitted is not None
    try:
        return engine.replanning.plan(graph, fitted, key, planned)
    except Unrepeated:
        engine.unrepeated[structure.key] = None
        return None


def planned_form(engine: Engine, graph: Graph) -> Graph:
    """Return a graph that a device takes in the form in which it is planned."""
    graph = arranged(graph, fused=bool(engine.fusers))
    return _with_bodies(engine, graph) if _repeats(engine, graph) else graph


def _with_bodies(engine: Engine, graph: Graph) -> Graph:
    nodes = [
        replace(node, attributes=_with_body(engine, node.attributes))
        if node.op.name in FLOWS
        else node
        for node in graph.nodes
    ]
    return Graph(graph.specs, graph.host, nodes, graph.outputs, len(graph.inputs))


def _with_body(engine: Engine, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        **attributes,
        "body": arranged(fitting(engine, attributes["body"])[0], fused=bool(engine.fusers)),
    }


def compile_body(engine: Engine, graph: Graph) -> Executable:
    """Return the executable of a part of a graph, or of a sub-graph."""
    if engine.replanning.fits(graph):
        return compile_graph(engine, graph)
    return compile_graph(engine, fitting(engine, graph)[0])
