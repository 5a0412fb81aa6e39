"""Scans without results that nothing reads, and without what only these need.

Requirements: the gradient of a scan adds up the gradients of all that its steps read, wanted or
not, and a layer returns states that a model drops. A carry that only feeds itself, a stack that
nothing reads, and inputs that are left without a reader cost a write or a read in every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calor.graph.graph import Builder, Graph, Node, prune

_SCAN = "scan"


def lean_scans(graph: Graph) -> Graph:
    """Return the graph with scans that make only what is read; the graph itself if all do."""
    read, lean = {*graph.outputs}, dict[int, _Lean]()
    for number, node in reversed([*enumerate(graph.nodes)]):
        if node.op.name == _SCAN and not read.isdisjoint(node.outputs):
            made = _lean(node, read)
            if made is not None:
                lean[number] = made
                read.update(made.inputs)
                continue
        read.update(node.inputs)
    if not lean:
        return graph
    builder = Builder()
    numbers = {v: builder.input(graph.specs[v], v in graph.host) for v in graph.inputs}
    for number, node in enumerate(graph.nodes):
        found = lean.get(number)
        if found is None:
            builder.take(graph, [node], numbers)
            continue
        given = [numbers[v] for v in found.inputs]
        specs = [graph.specs[v] for v in found.outputs]
        numbers.update(
            zip(found.outputs, builder.add(node.op, given, found.attributes, specs), strict=True)
        )
    return prune(builder.build([numbers[v] for v in graph.outputs]))


@dataclass(frozen=True, slots=True)
class _Lean:
    """A scan's inputs, attributes and outputs, as it is left."""

    inputs: Sequence[int]
    attributes: dict[str, Any]
    outputs: Sequence[int]


def _lean(node: Node, read: set[int]) -> _Lean | None:
    """Return what is left of a scan of which some outputs are read, None if all is."""
    attributes = node.attributes
    body: Graph = attributes["body"]
    captures, carries = attributes["captures"], attributes["carries"]
    last = node.outputs[:carries]
    stacks = node.outputs[carries : len(body.outputs)]
    kept = node.outputs[len(body.outputs) :]
    if kept and not read.isdisjoint(kept):
        # What is kept is of all carries.
        return None
    wanted = [n for n, value in enumerate(stacks) if value in read]
    alive = {k for k, value in enumerate(last) if value in read}
    while True:
        needed = _needed(body, [body.outputs[k] for k in alive] + _of(body, carries, wanted))
        more = {k for k in range(carries) if body.inputs[k] in needed}
        if more <= alive:
            break
        alive |= more
    # A carry that is returned starts somewhere, even if no step reads it.
    own = sorted(alive)
    used = [n for n in range(carries, len(body.inputs)) if body.inputs[n] in needed]
    if not kept and (len(own) + len(used), len(wanted)) == (len(body.inputs), len(stacks)):
        return None
    builder = Builder()
    order = [*own, *used]
    numbers = {
        v: builder.input(body.specs[v], v in body.host) for v in map(body.inputs.__getitem__, order)
    }
    nodes = [one for one in body.nodes if not needed.isdisjoint(one.outputs)]
    builder.take(body, nodes, numbers)
    results = [body.outputs[k] for k in own] + _of(body, carries, wanted)
    made = builder.build([numbers[v] for v in results])
    rows = len(body.inputs) - captures
    # The node's inputs are captures, carries and stacks of rows.
    held = [node.inputs[n - rows] for n in used if n >= rows]
    given = [node.inputs[captures + n] for n in order if n < rows]
    changed = {
        **attributes,
        "body": made,
        "captures": len(held),
        "carries": len(own),
        "keep": False,
    }
    return _Lean([*held, *given], changed, [*(last[k] for k in own), *(stacks[n] for n in wanted)])


def _of(body: Graph, carries: int, stacks: Sequence[int]) -> list[int]:
    return [body.outputs[carries + n] for n in stacks]


def _needed(body: Graph, outputs: Sequence[int]) -> set[int]:
    """Return the values of which outputs are made."""
    needed = {*outputs}
    for node in reversed(body.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
    return needed
