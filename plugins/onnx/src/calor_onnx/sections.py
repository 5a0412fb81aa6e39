"""Groups of consecutive nodes whose names have the same scope, as exporters write them.

``/encoder/layer1/attention/MatMul`` belongs to the section ``encoder_layer1``. Without names, a
section is a fixed number of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from calor_onnx.graph import Graph, Node
from calor_onnx.naming import Names

# A graph with fewer nodes is one section; sections without names have this many nodes.
SMALL, EACH = 30, 25


@dataclass(eq=False)
class Section:
    """Consecutive nodes, and the name of their method."""

    name: str
    nodes: list[Node]


def sections(graph: Graph, names: Names) -> list[Section]:
    """Return the nodes of a graph in sections, in order; ``names`` assigns the names."""
    nodes = graph.nodes
    if len(nodes) <= SMALL:
        return [Section("forward", nodes)]
    scopes = [[part for part in node.name.split("/")[:-1] if part] for node in nodes]
    depth = _depth(scopes)
    if depth is None:
        return [
            Section(names.fresh(f"part_{i // EACH + 1}"), nodes[i : i + EACH])
            for i in range(0, len(nodes), EACH)
        ]
    keyed = zip(("_".join(scope[:depth]) or "whole" for scope in scopes), nodes, strict=True)
    return [
        Section(names.fresh(key), [node for _, node in run])
        for key, run in groupby(keyed, key=lambda pair: pair[0])
    ]


def _depth(scopes: list[list[str]]) -> int | None:
    """Return the depth of scopes that gives sections of some tens of nodes, or None."""
    if sum(map(bool, scopes)) < len(scopes) // 2:
        return None
    best = None
    for depth in range(1, 5):
        count = sum(1 for _ in groupby(tuple(scope[:depth]) for scope in scopes))
        if count > 1 and len(scopes) / count >= 5:
            best = depth
            if len(scopes) / count <= EACH * 2:
                break
    return best
