"""The makers and the readers of a graph's values, found once for all fusers and all their rounds.

Requirements: a fuser looks at a graph of thousands of nodes in each round of the covering. What
depends on the graph alone stays for the next fuser and the next round, and is gone with the graph.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from typing import Any, Final

import numpy as np

from calor.graph.attributes import Scalar
from calor.graph.graph import Graph


class GraphLinks:
    """The node that makes each value, and those that read it, by number, in ascending order.

    ``wanted``: the graph's results. ``answers``: what searches found out about nodes and values,
    by the name of the query.
    """

    def __init__(self, graph: Graph) -> None:
        self.makers = {o: i for i, n in enumerate(graph.nodes) for o in n.outputs}
        self.readers: dict[int, list[int]] = {}
        for i, node in enumerate(graph.nodes):
            for value in dict.fromkeys(node.inputs):
                self.readers.setdefault(value, []).append(i)
        self.wanted = frozenset(graph.outputs)
        self.answers: defaultdict[Any, dict[int, Any]] = defaultdict(dict)


_last: Final[list[tuple[weakref.ref[Graph], GraphLinks]]] = []


def links_of(graph: Graph) -> GraphLinks:
    """Return the links of a graph; those of the last one are remembered."""
    for known, found in [*_last]:
        if known() is graph:
            return found
    made = GraphLinks(graph)
    _last[:] = [(weakref.ref(graph, _forget), made)]
    return made


def _forget(gone: weakref.ref[Graph]) -> None:
    _last[:] = [pair for pair in _last if pair[0] is not gone]


def uniform_of(graph: Graph, value: int) -> complex | None:
    """Return the finite number that a value repeats, None if it is no such constant."""
    number = links_of(graph).makers.get(value)
    if number is None or graph.nodes[number].op.name != "full":
        return None
    given, dtype = graph.nodes[number].attributes["value"], graph.specs[value].dtype
    if type(given) is not Scalar or given.dtype != dtype.name or dtype.kind == "storage":
        return None
    found = complex(np.frombuffer(given.bits, dtype.numpy)[0])
    return found if np.isfinite(found) else None
