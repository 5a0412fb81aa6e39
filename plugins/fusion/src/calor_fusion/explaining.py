"""What is fused for a function, and why the rest is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import calor
from calor import tree

if TYPE_CHECKING:
    from calor.graph.graph import Graph
    from calor_kernel.contract.fuser import Group
    from calor_kernel.planning.values import Task
    from calor_kernel.runtime.engine import Engine


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of work: the ops that it computes together, the way, and its launches.

    Attributes
    ----------
    ops : tuple of str
        The ops of the graph, in order.
    results : tuple of str
        Dtype and shape of each result.
    way : str
        How it is computed.
    launches : int
        The launches, also those that prepare operands.
    """

    ops: tuple[str, ...]
    results: tuple[str, ...]
    way: str
    launches: int


@dataclass(frozen=True, slots=True)
class Apart:
    """An op that follows a product and is not computed with it.

    Attributes
    ----------
    product : str
        The product or convolution, with its result.
    op : str
        The op that reads the result.
    reason : str
        Why it is work of its own.
    """

    product: str
    op: str
    reason: str


@dataclass(frozen=True, slots=True)
class Flow:
    """An op with sub-graphs: a loop or a branch.

    Attributes
    ----------
    op : str
        The op.
    by_host : str or None
        Why the host takes part in each step; None where all steps are queued together.
    parts : tuple of Explanation
        The work of a step: of each sub-graph, in the order of the op's attributes.
    apart : str or None
        Why a family that takes such ops does not compute all steps in one launch.
    """

    op: str
    by_host: str | None
    parts: tuple[Explanation, ...]
    apart: str | None = None

    def __str__(self) -> str:
        how = "queued as a whole"
        if self.by_host is not None:
            how = f"step by step, by the host: {self.by_host}"
        if self.apart is not None:
            how = f"{how}; not one launch: {self.apart}"
        texts = (str(part).replace("\n", "\n  ") for part in self.parts)
        return "\n".join([f"{self.op}, {how}", *(f"    a step: {text}" for text in texts)])


@dataclass(frozen=True, slots=True)
class Explanation:
    """The work of a function on a device; its text is a table.

    Attributes
    ----------
    pieces : tuple of Piece
        The work in its order.
    apart : tuple of Apart
        What follows products without being joined to them.
    flows : tuple of Flow
        The loops and branches.
    """

    pieces: tuple[Piece, ...]
    apart: tuple[Apart, ...]
    flows: tuple[Flow, ...] = ()

    def __str__(self) -> str:
        launches = sum(piece.launches for piece in self.pieces)
        lines = [f"{len(self.pieces)} pieces of work, {launches} launches"]
        for piece in self.pieces:
            names = " + ".join(piece.ops)
            lines.append(f"  {names} -> {', '.join(piece.results)}: {piece.way}")
        for one in self.apart:
            lines.append(f"  {one.op} is not joined to {one.product}: {one.reason}")
        lines += (f"  {flow}" for flow in self.flows)
        return "\n".join(lines)


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Return what is computed together for a function, and why the rest is not.

    Nothing is computed: the function is traced and planned for the device of its arguments.

    Parameters
    ----------
    function : callable
        A function of tensors, pytrees and modules, jitted or not.
    *args : Any
        Its arguments, as for `calor.jit`.
    **kwargs : Any
        Its keyword arguments.

    Returns
    -------
    Explanation
        The pieces of work, the ops that are not joined to the product before them with the reasons,
        and loops and branches with the work of a step. Its text is a table.

    Raises
    ------
    UnsupportedError
        If the device runs no kernels of calor's.
    TraceError
        If the function reads the value of a traced tensor.

    Examples
    --------
    >>> import calor
    >>> from calor.fusion import explain
    >>> x, w = calor.ones((8, 16), device="cpu"), calor.ones((16, 4), device="cpu")
    >>> print(explain(lambda x, w: calor.relu(x @ w + 1.0), x, w))
    1 pieces of work, 1 launches
      dot_general + add + relu -> float32[8, 4]: tiles
    """
    from calor_kernel.runtime.backend import engine_of

    tensors = (leaf for leaf in tree.leaves((args, kwargs)) if isinstance(leaf, calor.Tensor))
    device = next((tensor.device for tensor in tensors), None)
    engine = engine_of(device, "nothing is fused on it")
    graph = calor.trace(getattr(function, "function", function), *args, **kwargs)
    return _explained(engine, graph)


def _explained(engine: Engine, graph: Graph) -> Explanation:
    """Return the explanation of a graph, with those of its sub-graphs."""
    from calor_kernel.planning.compiling import compile_body, fitting, without_single_steps
    from calor_kernel.planning.control import ControlPlan, Staged
    from calor_kernel.planning.flows import flow_refusal, has_flows, is_flow
    from calor_kernel.planning.lean_scans import lean_scans
    from calor_kernel.planning.planner import Planner, cover
    from calor_kernel.planning.recomputing import recomputing

    graph = without_single_steps(engine, fitting(engine, graph)[0])
    graph = recomputing(lean_scans(graph))
    if not has_flows(engine, graph):
        units = cover(graph, engine.fusers, engine.device.info)
        planner = Planner(engine.lowerings, graph, engine.fusers, engine.deterministic)
        pieces = tuple(map(_piece, planner.draft(units).tasks))
        return Explanation(pieces, tuple(_apart(graph, units, engine)))
    plan = ControlPlan(engine, Staged.of(engine, graph), compile_body)
    found: list[Explanation] = []
    flows: list[Flow] = []
    for segment, runner in plan.parts():
        node = plan.graph.nodes[segment.nodes[0]]
        if not is_flow(engine, plan.graph, node):
            found.append(_explained(engine, segment.graph))
            continue
        bodies = (a for a in node.attributes.values() if isinstance(a, type(graph)))
        inner = tuple(_explained(engine, body) for body in bodies)
        families = engine.lowerings
        apart = flow_refusal(engine, plan.graph, node) if node.op.name in families else None
        flows.append(Flow(node.op.name, runner.by_host, inner, apart))
    pieces = tuple(piece for one in found for piece in one.pieces)
    return Explanation(pieces, tuple(a for one in found for a in one.apart), tuple(flows))


def _piece(task: Task) -> Piece:
    work = task.works[0]
    results = tuple(f"{spec.dtype.name}{list(spec.shape)}" for spec in task.results)
    way = work.variant or ", ".join(dict.fromkeys(la.label for la in work.launches))
    ops = tuple(name for name in task.covers or (task.op,) if name not in ("full", "constant"))
    return Piece(ops, results, way, len(work.launches))


def _apart(graph: Graph, units: list[int | Group], engine: Engine) -> Iterator[Apart]:
    """Yield the readers of products that are in other units."""
    from calor_kernel.library.matmul import ProductFuser

    unit = {n: u for u in units for n in ((u,) if isinstance(u, int) else u.nodes)}
    for number, reader, reason in ProductFuser().apart(graph, engine.device.info):
        if unit[number] == unit[reader]:
            continue
        spec = graph.specs[graph.nodes[number].outputs[0]]
        product = f"{graph.nodes[number].op.name} -> {spec.dtype.name}{list(spec.shape)}"
        if reason is None:
            other = unit[reader]
            reason = "the fuser is not installed"
            if any(fuser.name == "products" for fuser in engine.fusers):
                reason = "it is joined to others, which saves more"
            if isinstance(other, int):
                reason = f"{reason}, or its value is needed elsewhere"
        yield Apart(product, graph.nodes[reader].op.name, reason)
