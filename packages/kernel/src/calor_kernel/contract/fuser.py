"""Fusers: cover several nodes of a graph with one piece of work.

A fuser offers groups with their costs and the planner chooses, so that independent fusers can serve
one graph. A package provides a fuser by the hook ``calor_fusers``; a backend may be made with
fusers of its own.

>>> class Nothing(Fuser):
...     name = "nothing"
...
...     def groups(self, graph, info):
...         return ()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calor.graph.graph import Graph, part
from calor_kernel.contract.graph_links import links_of
from calor_kernel.contract.info import DeviceInfo


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Nodes that are executed together.

    ``nodes`` are numbers of the graph's nodes, movement and sources included. ``op`` names the
    lowering, with hashable ``attributes``: its operands are the views of ``inputs``, its results
    the values ``outputs``. Every value of the group with a reader outside is an output, or a view
    of one by movement ops of the group. No path
    leaves the group and returns to it. ``cost`` is in seconds, by
    :mod:`calor_kernel.contract.cost`; the planner takes a group if it costs less than its nodes one
    by one. ``spare``: the group is taken only where no other is left.
    """

    nodes: tuple[int, ...]
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    cost: float
    attributes: Mapping[str, Any] = field(default_factory=dict)
    spare: bool = False


class Fuser(ABC):
    """Finds groups in graphs."""

    name: str

    @abstractmethod
    def groups(self, graph: Graph, info: DeviceInfo) -> Iterable[Group]:
        """Return possible groups; they may overlap each other and other fusers' groups."""

    def among(
        self, graph: Graph, info: DeviceInfo, units: Sequence[int | Group]
    ) -> Iterable[Group]:
        """Return possible groups of the nodes that no group has taken.

        ``units``: the covering so far, in topological order: numbers of nodes, and groups.
        """
        free = {unit for unit in units if isinstance(unit, int)}
        return (group for group in self.groups(graph, info) if free.issuperset(group.nodes))


def reads_of(graph: Graph, group: Group) -> tuple[frozenset[int], ...]:
    """Return, for each of several outputs of a group, the places of the inputs it depends on.

    Nodes between the group and its inputs, of movement and sources, need not be the group's.
    """
    if len(group.outputs) < 2:
        return ()
    makers = links_of(graph).makers
    every = frozenset(range(len(group.inputs)))
    known: dict[int, frozenset[int]] = {}
    for place, value in enumerate(group.inputs):
        known[value] = known.get(value, frozenset()) | {place}
    waiting = list(group.outputs)
    while waiting:
        value = waiting[-1]
        number = makers.get(value)
        sources = () if number is None else graph.nodes[number].inputs
        missing = [v for v in sources if v not in known]
        if value not in known and missing:
            waiting += missing
            continue
        waiting.pop()
        if value not in known:
            found = frozenset[int]().union(*(known[v] for v in sources))
            known[value] = every if number is None else found
    return tuple(known[o] for o in group.outputs)


def boundary(graph: Graph, nodes: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the inputs of a set of nodes from outside, and their values read outside.

    Both in ascending order, with the graph's results among the latter.
    """
    inside = set(nodes)
    made = {o for i in inside for o in graph.nodes[i].outputs}
    read = {v for i in inside for v in graph.nodes[i].inputs}
    links = links_of(graph)
    outside = [
        v
        for v in sorted(made)
        if v in links.wanted or not inside.issuperset(links.readers.get(v, ()))
    ]
    return tuple(sorted(read - made)), tuple(outside)


def group_of(graph: Graph, nodes: Iterable[int], op: str, cost: float, **attributes: Any) -> Group:
    """Return the group of some nodes for a lowering that takes them as a graph.

    The lowering finds that graph as the attribute ``graph``; its inputs are the operands.
    """
    chosen = tuple(sorted(nodes))
    inputs, outputs = boundary(graph, chosen)
    inner = part(graph, inputs, [graph.nodes[i] for i in chosen], outputs)
    return Group(chosen, op, inputs, outputs, cost, {"graph": inner, **attributes})
