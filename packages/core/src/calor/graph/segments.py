"""Cutting a graph into segments that run one after another, each on one device.

A segment is a run of nodes of one colour (a device, or one part of a device's claim). Segments in
their order form a valid schedule, so none depends on a later one and each is convex.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from calor.graph.graph import Graph, part


@dataclass(frozen=True, slots=True)
class Segment:
    """Nodes of one colour as a graph of their own.

    ``inputs`` and ``outputs`` are value numbers of the graph that was cut, in the order of the
    segment's own inputs and outputs.
    """

    colour: Hashable
    nodes: tuple[int, ...]
    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def cut(graph: Graph, colours: Sequence[Hashable]) -> list[Segment]:
    """Return the segments of a graph whose nodes have these colours, in an order to run them.

    Nodes are taken greedily: all that are ready of one colour, then all that are ready of the next.
    Each colour is tried as the first, and the schedule with the fewest segments is taken.
    """
    groups, readers = grouped(graph, colours), readers_of(graph)
    return [segment_of(graph, colours[group[0]], group, readers) for group in groups]


def grouped(graph: Graph, colours: Sequence[Hashable]) -> list[list[int]]:
    """Return the nodes of each segment, in an order to run them."""
    maker = {o: i for i, node in enumerate(graph.nodes) for o in node.outputs}
    read = [{maker[v] for v in node.inputs if v in maker} for node in graph.nodes]
    users: list[list[int]] = [[] for _ in read]
    for i, makers in enumerate(read):
        for j in makers:
            users[j].append(i)
    waits = [*map(len, read)]
    firsts = dict.fromkeys(colours)
    return min((_schedule(colours, c, [*waits], users) for c in firsts), key=len, default=[])


def _schedule(
    colours: Sequence[Hashable],
    colour: Hashable,
    waits: list[int],
    users: Sequence[Sequence[int]],
) -> list[list[int]]:
    """Return a schedule that begins with a colour; it counts down what each node waits for."""
    ready = [i for i, count in enumerate(waits) if count == 0]
    groups: list[list[int]] = []
    while ready:
        if not any(colours[i] == colour for i in ready):
            colour = colours[ready[0]]
        group: list[int] = []
        found = [i for i in ready if colours[i] == colour]
        ready = [i for i in ready if colours[i] != colour]
        while found:
            i = found.pop()
            group.append(i)
            for j in users[i]:
                waits[j] -= 1
                if waits[j] == 0:
                    (found if colours[j] == colour else ready).append(j)
        # Nodes of one colour keep the order that they were recorded in.
        groups.append(sorted(group))
    return groups


def readers_of(graph: Graph) -> Counter[int]:
    """Return how many nodes read each value of a graph; being an output counts as one."""
    found = Counter(v for node in graph.nodes for v in {*node.inputs})
    found.update({*graph.outputs})
    return found


def segment_of(
    graph: Graph,
    colour: Hashable,
    nodes: Sequence[int],
    readers: Mapping[int, int] | None = None,
) -> Segment:
    """Return nodes, by number and in order, as a segment of a colour.

    ``readers``: those of the graph by `readers_of`, for who makes many segments of it.
    """
    readers = readers_of(graph) if readers is None else readers
    inside = {o for i in nodes for o in graph.nodes[i].outputs}
    here = Counter(v for i in nodes for v in {*graph.nodes[i].inputs})
    inputs = tuple(sorted(here.keys() - inside))
    outputs = tuple(sorted(v for v in inside if readers.get(v, 0) > here[v]))
    cut_out = part(graph, inputs, [graph.nodes[i] for i in nodes], outputs)
    return Segment(colour, tuple(nodes), cut_out, inputs, outputs)
