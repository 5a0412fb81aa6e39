"""What the steps of a scan would compute anew, though it is known before the first one.

Requirements: a cell in a scan multiplies each row by the same weights, and converts or slices these
weights, in each step. What depends on captures alone is computed once, and rows that products read
in another dtype are converted together. A product of rows with captures is one product of all
steps, which reads the weights once and fills a device; its stack is no larger than what the steps
read anyway, up to a factor. So a scan over a cell is as fast as a layer.

Source: Appleyard, Kociský, Blunsom, "Optimizing Performance of Recurrent Neural Networks on GPUs",
2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from calor.graph.graph import Builder, Graph, Node, prune
from calor.recording.record import apply
from calor.recording.replay import replay
from calor.transforms.scan_products import apart

# Views of what stays cost nothing in a step, and spread values are larger than their source.
_VIEWS: Final = frozenset({"permute", "reshape", "expand"})
_APART: Final = frozenset({"cond", "while_loop", "scan", "callback", "ordered_callback"})
# The stacks of products are at most so many times what a step reads and writes otherwise.
_LARGER: Final = 8


def ahead(
    body: Graph, carries: int, rows: Sequence[Any], held: Sequence[Any]
) -> tuple[Graph, list[Any], list[Any]]:
    """Return a scan's body without what is known before its steps, its rows and its captures.

    Parameters
    ----------
    body : Graph
        The body; its inputs are carries, rows and captures.
    carries : int
        The number of carries.
    rows : sequence of Tensor
        The stacks of rows.
    held : sequence of Tensor
        The captures.

    Returns
    -------
    tuple
        The body, of the same carries and results; the stacks of its rows; its captures.
    """
    lean, fixed = _fixed(body, carries + len(rows), held)
    lean, wider = _converted(lean, carries, rows)
    lean, stacks = _products(lean, carries, wider, fixed)
    if lean is body:
        return body, [*rows], [*held]
    begin, end = carries + len(wider), carries + len(wider) + len(fixed)
    given = [*lean.inputs[carries:begin], *lean.inputs[end:]], lean.inputs[begin:end]
    read = {*lean.outputs, *(i for node in lean.nodes for i in node.inputs)}
    order = [*lean.inputs[:carries], *(v for part in given for v in part if v in read)]
    builder = Builder()
    numbers = {v: builder.input(lean.specs[v], v in lean.host) for v in order}
    builder.take(lean, lean.nodes, numbers)
    made = builder.build([numbers[v] for v in lean.outputs])
    left = [
        [tensor for v, tensor in zip(part, tensors, strict=True) if v in read]
        for part, tensors in zip(given, (stacks, fixed), strict=True)
    ]
    return made, left[0], left[1]


def _fixed(body: Graph, own: int, held: Sequence[Any]) -> tuple[Graph, list[Any]]:
    """Compute what depends on captures alone, which are the inputs from ``own`` on."""
    stays = {*body.inputs[own:]} - body.host
    wanted: set[int] = set()
    for node in body.nodes:
        if not node.inputs or node.op.name in _APART or not stays.issuperset(node.inputs):
            continue
        stays.update(node.outputs)
        given = sum(body.specs[i].size for i in node.inputs)
        size = sum(body.specs[o].size for o in node.outputs)
        if node.op.name not in _VIEWS and size <= given:
            wanted.update(node.outputs)
    if not wanted:
        return body, [*held]
    left = [n for n in body.nodes if wanted.isdisjoint(n.outputs)]
    read = {*body.outputs, *(i for node in left for i in node.inputs)}
    known = [v for v in sorted(wanted) if v in read]
    needed, first = {*known}, list[Node]()
    for node in reversed(body.nodes):
        if not needed.isdisjoint(node.outputs):
            first.insert(0, node)
            needed.update(node.inputs)
    builder = Builder()
    numbers = {v: builder.input(body.specs[v], v in body.host) for v in body.inputs[own:]}
    builder.take(body, first, numbers)
    made = replay(builder.build([numbers[v] for v in known]), held)
    builder = Builder()
    numbers = {v: builder.input(body.specs[v], v in body.host) for v in body.inputs}
    numbers |= {v: builder.input(body.specs[v]) for v in known}
    builder.take(body, left, numbers)
    return prune(builder.build([numbers[v] for v in body.outputs])), [*held, *made]


def _converted(body: Graph, carries: int, rows: Sequence[Any]) -> tuple[Graph, list[Any]]:
    """Convert rows that products read in another dtype; converted rows follow the others."""
    own = dict(zip(body.inputs[carries:], rows, strict=False))
    factors = {i for node in body.nodes if node.op.name == "dot_general" for i in node.inputs}
    found = [
        node
        for node in body.nodes
        if node.op.name == "cast" and node.inputs[0] in own and node.outputs[0] in factors
    ]
    if not found:
        return body, [*rows]
    made = [apply(node.op, own[node.inputs[0]], **node.attributes) for node in found]
    builder, end = Builder(), carries + len(rows)
    numbers = {v: builder.input(body.specs[v], v in body.host) for v in body.inputs[:end]}
    numbers |= {node.outputs[0]: builder.input(body.specs[node.outputs[0]]) for node in found}
    numbers |= {v: builder.input(body.specs[v], v in body.host) for v in body.inputs[end:]}
    gone = {node.outputs[0] for node in found}
    builder.take(body, [node for node in body.nodes if node.outputs[0] not in gone], numbers)
    return builder.build([numbers[v] for v in body.outputs]), [*rows, *made]


def _products(
    body: Graph, carries: int, rows: Sequence[Any], held: Sequence[Any]
) -> tuple[Graph, list[Any]]:
    """Compute products of rows with captures for all steps; their rows follow all inputs."""
    if not rows:
        return body, []
    own = carries + len(rows)
    stays = body.inputs[own:]
    made = apart(body, range(carries, own), stays, (), ())
    before = sum(body.specs[v].size for v in made.before)
    others = sum(body.specs[v].size for v in (*body.inputs[:own], *body.outputs))
    if not before or before > _LARGER * others:
        return body, [*rows]
    stacks = dict(zip(range(carries, own), rows, strict=True))
    return made.graph, [*rows, *made.rows(stacks, dict(zip(stays, held, strict=True)))]
