"""Plans that allocate no more than a given number of bytes.

Requirements: the room counts what a call allocates when its state is written in place: results,
intermediates, scratch memory and constants. Families are asked for ways with little scratch memory.
Prepared operands are not kept, since they are memory beside the plan. A graph with control flow is
planned as usual, and refused if it needs more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from calor.backends.protocol import Executable
from calor.errors import MemoryLimitError
from calor.graph.graph import Graph
from calor_kernel.contract.cost import ceilings_of
from calor_kernel.contract.work import Work
from calor_kernel.planning.arena import Lives
from calor_kernel.planning.compiling import arranged, compile_graph
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.fast_path import short_way
from calor_kernel.planning.flows import has_flows
from calor_kernel.planning.lowering import Lowerings
from calor_kernel.planning.plan import Plan
from calor_kernel.planning.planner import Planner
from calor_kernel.planning.recording import Recorder
from calor_kernel.planning.rematerialise import Fitted, Step, fit
from calor_kernel.planning.shared_copies import shared_copies
from calor_kernel.planning.side_by_side import side_by_side
from calor_kernel.planning.values import Draft


def compile_within(
    engine: Engine, graph: Graph, limit: int, in_place: Mapping[int, int]
) -> Executable:
    """Return the executable of a claimed graph whose calls allocate at most ``limit`` bytes.

    ``in_place``: the input in whose memory an output is written, by number. MemoryLimitError if
    more is needed when all that helps is recomputed.
    """
    if has_flows(engine, graph):
        made = compile_graph(engine, graph)
        if made.required_bytes > limit:
            raise MemoryLimitError(smallest=made.required_bytes)
        return made
    graph = arranged(graph, fused=bool(engine.fusers))
    lowerings = Lowerings(engine.device.info, engine.lowerings.wants, lean=True)
    planner = Planner(lowerings, graph, engine.fusers, engine.deterministic)
    draft = planner.draft(engine.coverings.of(graph))
    works = engine.tuner.choose_all(draft.tasks)
    # Work side by side has fewer launches, and may need more memory.
    info = engine.device.info
    joined = side_by_side(*shared_copies(draft, works, info), info)
    for one, chosen in (joined, (draft, works))[joined[0] is draft :]:
        found, nbytes = _fitted(engine, one, chosen, limit, in_place)
        if nbytes <= limit:
            draft = replace(one, tasks=[task for task, _ in found.steps])
            plan = Plan(engine, draft, [work for _, work in found.steps])
            plan.again = found.again
            plan.short = short_way(plan)
            return plan
    raise MemoryLimitError(smallest=nbytes)


def _fitted(
    engine: Engine, draft: Draft, works: Sequence[Work], limit: int, in_place: Mapping[int, int]
) -> tuple[Fitted, int]:
    """Return the tasks of a draft that fit a limit, or need least, and the bytes of a call."""
    align = engine.device.info.align

    def recorder(steps: Sequence[Step]) -> Recorder:
        some = replace(draft, tasks=[task for task, _ in steps])
        chosen = [work for _, work in steps]
        return Recorder(engine, some, chosen, some.status(chosen, align))

    def lives(steps: Sequence[Step]) -> Lives:
        return recorder(steps).lives(in_place)

    def arena(steps: Sequence[Step]) -> int:
        return recorder(steps).layout(in_place)[0].nbytes

    fresh = sum(p.nbytes for o, p in enumerate(draft.outputs) if o not in in_place)
    words = draft.host_bytes + len(draft.status(works, align)) * align
    beside = fresh + len(draft.constants) + words
    written = {i: draft.outputs[o] for o, i in in_place.items()}
    steps = list(zip(draft.tasks, works, strict=True))
    ceilings = ceilings_of(engine.device.info)
    found = fit(steps, draft.outputs, ceilings, limit - beside, lives, arena, written)
    return found, found.nbytes + beside
