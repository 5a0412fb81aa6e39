"""Passes that pay and are always right: dead nodes, repeated nodes, constants, and no-ops.

Requirements: what a graph computes stays the same bit for bit on the reference, −0, infinities and
NaN included (only the payload of a NaN, which devices lose in any arithmetic, may change); every
value keeps its spec, weakness included; inputs stay, used or not; an input may become an output.
The cost is linear: one walk in which each node is rewritten until no rule fits. Its operands are
finished by then, so a second walk would find nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from calor.graph.attributes import exact_items
from calor.graph.graph import Graph, prune
from calor.specs import Spec
from calor.transforms.simplify_draft import Draft, Step
from calor.transforms.simplify_rules import RULES, folded

# Rules that fit one node in turn; each takes away a node between it and a source.
REWRITES: Final = 16
# Values under another name on purpose: a recomputation must not be merged with its original.
UNMERGED: Final = frozenset({"barrier"})


def simplify(graph: Graph) -> Graph:
    """Return a smaller graph of the same meaning; the graph itself when there is none.

    Removes nodes that no output needs and repeated nodes, computes small constants, and removes or
    merges nodes that only rename, move or convert. Sub-graphs of control flow are simplified too.
    """
    with np.errstate(all="ignore"):
        return _simplified(graph, {})


def _simplified(graph: Graph, bodies: dict[int, Graph]) -> Graph:
    graph = prune(graph)
    draft = Draft()
    numbers = {i: draft.input(graph.specs[i], i in graph.host) for i in graph.inputs}
    seen: dict[Any, tuple[int, ...]] = {}
    changed = False
    for node in graph.nodes:
        specs = [graph.specs[o] for o in node.outputs]
        attributes = _with_bodies(node.attributes, bodies)
        step = Step(node.op, tuple([numbers[i] for i in node.inputs]), attributes)
        found = _rewritten(draft, step, specs[0]) if len(specs) == 1 else step
        if type(found) is int:
            numbers[node.outputs[0]] = found
            changed = True
            continue
        assert isinstance(found, Step)
        key = (found.op, found.inputs, exact_items(found.attributes), *specs)
        made = seen.get(key)
        if made is None:
            made = draft.add(found, specs)
            if node.op.name not in UNMERGED:
                seen[key] = made
            changed = changed or found is not step or attributes is not node.attributes
        else:
            changed = True
        numbers.update(zip(node.outputs, made, strict=True))
    if not changed:
        return graph
    return prune(draft.builder.build([numbers[o] for o in graph.outputs]))


def _rewritten(draft: Draft, step: Step, out: Spec) -> Step | int:
    """Return what the rules leave of a node: another node, or a value that is there already."""
    for _ in range(REWRITES):
        better: Step | int | None = folded(draft, step, out)
        if better is None:
            for rule in RULES.get(step.op.name, ()):
                better = rule(draft, step, out)
                if better is not None:
                    break
        if better is None:
            return step
        if isinstance(better, int):
            return better
        step = better
    return step


def _with_bodies(attributes: Mapping[str, Any], done: dict[int, Graph]) -> Mapping[str, Any]:
    """Return attributes with their sub-graphs simplified; the same object when nothing changes."""
    better = {}
    for name, value in attributes.items():
        if type(value) is Graph:
            body = done.get(id(value))
            if body is None:
                body = done[id(value)] = _simplified(value, done)
            if body is not value:
                better[name] = body
    return {**attributes, **better} if better else attributes
