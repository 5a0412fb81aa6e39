"""Chains that write their results as parts of joined values.

Requirements: the gradients of a recurrent layer's gates are a chain of several results, which a
concat joins along the features. The chain writes each of them to its part, so no copy follows. A
result that several concats join is written to each; one that other nodes read is written densely
as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from calor.graph.graph import Node
from calor.specs import Spec
from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.cost import moved
from calor_kernel.contract.fuser import Group
from calor_kernel.contract.work import (
    Argument,
    Candidates,
    Input,
    Refusal,
    Request,
    Work,
    lowering,
    row_major,
)
from calor_kernel.library.elementwise.chain_search import Chain, ChainSearch
from calor_kernel.library.elementwise.lower import Target, lower_problem, problem_of
from calor_kernel.library.elementwise.operations import Expression
from calor_kernel.library.elementwise.paths import Path, along, in_place
from calor_kernel.library.steps import redirected

JOINED: Final = "elementwise_joined"


@lowering(JOINED, strided=True)
def lower_joined(request: Request) -> Sequence[Work] | Refusal:
    """Lower an ``expression`` of ``operands``, whose results are outputs or parts of outputs.

    ``operands``: pairs of an input's index and a path. ``places``: for each result the number of
    its output and, for a part, the axis and the start along it; the axis is −1 for whole outputs.
    ``shape``: that of a result.
    """
    attributes = request.attributes
    if "order" in attributes:
        return Refusal("parts are joined in the order of their axes")
    expression: Expression = attributes["expression"]
    operands: tuple[tuple[int, Path], ...] = attributes["operands"]
    moved_to = [along(path, request.inputs[n]) for n, path in operands]
    views = [view for view in moved_to if view is not None]
    if len(views) < len(moved_to):
        return Refusal("an operand has no strides on its way")
    outputs, joins = request.outputs, dict[int, int]()
    targets: list[Target] = []
    for output, axis, start in attributes["places"]:
        if axis < 0:
            targets.append(Target(output))
            continue
        step = row_major(outputs[output].shape)[axis]
        targets.append(Target(output, start * step, joins.setdefault(output, len(joins))))
    strides = [row_major(outputs[output].shape) for output in joins]
    results = [spec_of(attributes["shape"], dtype) for dtype in expression.outputs]
    problem = problem_of(expression, views, results, request.info, strides, targets)
    found = lower_problem(problem)
    sources: dict[Argument, Argument] = {Input(k): Input(n) for k, (n, _) in enumerate(operands)}
    launches = tuple(redirected(launch, sources) for launch in found[0].launches)
    whole = [t.output for t in targets if t.join < 0]
    dense = [outputs[n] for n in whole]
    pairs = in_place(operands, views, dense, request.info)
    written = tuple((n, whole[k]) for n, k in pairs)
    return Candidates.of([replace(found[0], launches=launches, in_place=written)], found.dropped)


def with_joins(search: ChainSearch, chain: Chain) -> Group | None:
    """Return the group of a chain with the concats that read its results alone, None without."""
    graph = search.graph
    made = {graph.nodes[n].outputs[0]: n for n in chain.results}
    shape = search.result(chain.root).shape
    readers = {r for v in made for r in search.readers.get(v, ())}
    joins = [n for n in sorted(readers) if _joins(graph.nodes[n], made, graph.specs)]
    joins = [n for n in joins if n not in search.grouped]
    if not joins:
        return None
    inside = chain.nodes | {*joins}
    whole = sorted(
        n
        for v, n in made.items()
        if v in search.wanted or not inside.issuperset(search.readers.get(v, ()))
    )
    written, places = [*whole], [(k, -1, 0) for k in range(len(whole))]
    for number, join in enumerate(joins, len(whole)):
        node, start = graph.nodes[join], 0
        axis = node.attributes["axis"]
        for value in node.inputs:
            written.append(made[value])
            places.append((number, axis, start))
            start += shape[axis]
    if len(chain.operands) + len(written) > search.arguments:
        return None
    expression, keys = search.expression(chain, written=written)
    inputs = tuple(sorted({value for value, _ in keys}))
    outputs = tuple(graph.nodes[n].outputs[0] for n in (*whole, *joins))
    flops = sum(search.result(n).size for n in chain.places)
    cost = search.ceilings.seconds(moved(graph, inputs, outputs), flops)
    attributes = {
        "expression": expression,
        "operands": tuple((inputs.index(v), path) for v, path in keys),
        "places": tuple(places),
        "shape": shape,
    }
    return Group(tuple(sorted(inside)), JOINED, inputs, outputs, cost, attributes)


def _joins(node: Node, made: dict[int, int], specs: Sequence[Spec]) -> bool:
    """Return whether a node joins results of a chain alone."""
    return node.op.name == "concat" and all(v in made for v in node.inputs)
