"""Minimum cuts: which nodes go, where each has a price for going, for staying, and for parting."""

from __future__ import annotations

from collections.abc import Mapping
from math import isinf
from typing import Any, Final

_STAY: Final = "stay"
_GO: Final = "go"


def sink_side(
    count: int,
    stay: Mapping[int, float],
    go: Mapping[int, float],
    between: Mapping[tuple[int, int], float],
) -> set[int]:
    """Return the nodes that go in the choice of least cost.

    Parameters
    ----------
    count : int
        The number of nodes.
    stay, go : mapping of int to float
        What each node costs where it stays and where it goes, infinite where it cannot.
    between : mapping of tuple of int to float
        What a pair of nodes costs, at least 0, where the first stays and the second goes.

    Returns
    -------
    set of int
        The nodes that go.
    """
    # Where all want the same, nobody parts from others, and there is no cut to look for.
    if all(go[i] >= stay[i] for i in range(count)):
        return set()
    if all(go[i] < stay[i] for i in range(count)):
        return set(range(count))
    # A router that has nothing to choose does without it.
    import networkx as nx

    graph: Any = nx.DiGraph()
    graph.add_nodes_from((_STAY, _GO))
    for i in range(count):
        # Only the difference counts, and capacities are not negative.
        if isinf(go[i]):
            graph.add_edge(_STAY, i)
        elif go[i] >= stay[i]:
            graph.add_edge(_STAY, i, capacity=go[i] - stay[i])
        else:
            graph.add_edge(i, _GO, capacity=stay[i] - go[i])
    for (i, j), price in between.items():
        if price:
            graph.add_edge(i, j, capacity=price)
    _, (_, gone) = nx.minimum_cut(graph, _STAY, _GO)
    return {i for i in gone if i != _GO}
