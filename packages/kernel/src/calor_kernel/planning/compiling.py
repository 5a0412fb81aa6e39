"""Compiles a graph to its executable; composites that no family supports are decomposed."""

from __future__ import annotations

from typing import Final

from calor.backends.protocol import Executable
from calor.graph.graph import Graph
from calor_kernel.contract.fuser import Fuser
from calor_kernel.library.sort import SortFuser
from calor_kernel.planning.claims import fitting
from calor_kernel.planning.control import ControlPlan, has_control
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.fast_path import short_way
from calor_kernel.planning.operand_cache import Keeper
from calor_kernel.planning.plan import Plan
from calor_kernel.planning.planner import Planner
from calor_kernel.planning.structure import structure_of
from calor_kernel.planning.values import Draft

# The library's own fusers: unused results are not computed.
_FUSERS: Final[tuple[Fuser, ...]] = (SortFuser(),)


def compile_graph(engine: Engine, graph: Graph) -> Executable:
    """Return the executable of a claimed graph; CompileError."""
    known = engine.replanning.ready(graph)
    if known is not None:
        return known
    structure = structure_of(graph)
    if structure is not None:
        return engine.replanning.plan(graph, structure)
    if has_control(graph):
        return ControlPlan(engine, graph, compile_body)
    return plan_anew(engine, graph)


def fusers_of(engine: Engine) -> tuple[Fuser, ...]:
    """Return the fusers for a device."""
    return (*_FUSERS, *engine.fusers)


def plan_anew(engine: Engine, graph: Graph) -> Plan:
    """Return a fresh plan of a graph without control flow; CompileError."""
    planner = Planner(engine.lowerings, graph, fusers_of(engine), engine.deterministic)
    return plan_of(engine, planner.draft())


def plan_of(engine: Engine, draft: Draft) -> Plan:
    """Return the plan of a draft, with its keeper and its fast path."""
    plan = Plan(engine, draft)
    plan.keeper = Keeper.of(plan)
    plan.short = short_way(plan)
    return plan


def compile_body(engine: Engine, graph: Graph) -> Executable:
    """Return the executable of a part of a graph, or of a sub-graph."""
    return compile_graph(engine, fitting(engine, graph)[0])
