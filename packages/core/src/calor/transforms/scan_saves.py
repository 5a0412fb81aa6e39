"""Values of a scan's steps that its gradient reads, and the stacks that hold them.

Requirements: the gradient of a scan keeps the carries, and computes what its steps read from them
again. That is little work for elementwise ops and as much as the scan itself for products. So a
scan that is differentiated stacks the results of its products too, with the rows that are added to
them, where they are no larger than the carries and rows of a step; its gradient reads them, and
what the body stacks anyway, in place of the products.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from calor.graph.graph import Builder, Graph, Node, prune
from calor.graph.op import signature

_PRODUCT: Final = "dot_general"
_SUMS: Final = frozenset({"add", "sub"})


def with_products(body: Graph, carries: int, captures: int) -> Graph:
    """Return the body of a scan with the products that its gradient reads as further outputs.

    Parameters
    ----------
    body : Graph
        The body; its inputs are carries, rows and captures, its outputs carries and rows.
    carries : int
        The number of carries.
    captures : int
        The number of inputs that are the same at each step.

    Returns
    -------
    Graph
        The body itself if its gradient reads no product.
    """
    own = len(body.inputs) - captures
    known = {*body.outputs[carries:]}
    room = sum(body.specs[i].nbytes for i in body.inputs[:own])
    found: list[int] = []
    for value in _products(body, own):
        nbytes = body.specs[value].nbytes
        if value not in known and nbytes <= room and _is_read(body, value, known):
            found.append(value)
            room -= nbytes
    outputs = [*body.outputs, *found]
    if not found:
        return body
    return Graph(body.specs, body.host, body.nodes, outputs, len(body.inputs))


def _products(body: Graph, own: int) -> list[int]:
    """Return the products of a step, with what adds rows and values that stay to them alone."""
    readers = Counter([*body.outputs, *(i for node in body.nodes for i in node.inputs)])
    # What is there before the steps: rows, and what depends on captures alone.
    given, stays = {*body.inputs[:own]}, {*body.inputs[own:]}
    for node in body.nodes:
        if stays.issuperset(node.inputs):
            stays.update(node.outputs)
    found: dict[int, None] = {}
    for node in body.nodes:
        (value, *others) = node.outputs
        if node.op.name == _PRODUCT and value not in stays:
            found[value] = None
        elif node.op.name in _SUMS and not others:
            made = [i for i in node.inputs if i in found]
            rest = [i for i in node.inputs if i not in found]
            alone = all(readers[i] == 1 for i in made)
            if made and alone and (given | stays).issuperset(rest):
                for i in made:
                    del found[i]
                found[value] = None
    return [*found]


def _is_read(body: Graph, value: int, known: set[int]) -> bool:
    """Return whether a gradient computes with a value; ``known``: the values that are stacked."""
    todo, seen = [value], {value}
    while todo:
        one = todo.pop()
        for node in body.nodes:
            if one not in node.inputs:
                continue
            result, operands = _residuals(body, node)
            if any(kept and i == one for kept, i in zip(operands, node.inputs, strict=True)):
                return True
            if result and not known.issuperset(node.outputs):
                return True
            if not result:
                todo += [v for v in node.outputs if v not in seen]
                seen.update(node.outputs)
    return False


def _residuals(body: Graph, node: Node) -> tuple[bool, tuple[bool, ...]]:
    """Return what a node's gradient reads: the result, and which operands."""
    specs = tuple(body.specs[i] for i in node.inputs)
    needs = tuple(s.dtype.is_inexact for s in specs)
    return node.op.residuals_for(needs, signature(node.op, specs, dict(node.attributes)))


def with_rows(graph: Graph, rows: Sequence[int]) -> Graph:
    """Return a step's graph that reads values from rows instead of computing products for them.

    Parameters
    ----------
    graph : Graph
        The graph of a step; its last outputs are the values, one for each row.
    rows : sequence of int
        The inputs that have these values.

    Returns
    -------
    Graph
        A graph with the same inputs, and without the last outputs. Values that need no product are
        computed as before.
    """
    count = len(graph.outputs) - len(rows)
    behind: set[int] = set()
    for node in graph.nodes:
        if node.op.name == _PRODUCT or not behind.isdisjoint(node.inputs):
            behind.update(node.outputs)
    known = {v: i for v, i in zip(graph.outputs[count:], rows, strict=True) if v in behind}
    builder = Builder()
    numbers = {i: builder.input(graph.specs[i], i in graph.host) for i in graph.inputs}
    for node in graph.nodes:
        builder.take(graph, [node], numbers)
        numbers.update((v, numbers[known[v]]) for v in node.outputs if v in known)
    return prune(builder.build([numbers[v] for v in graph.outputs[:count]]))
