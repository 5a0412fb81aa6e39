"""The links between a graph's nodes, as fusers ask for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, wraps
from typing import Any, TypeVar

from calor.graph.graph import Graph
from calor_kernel.contract.fuser import Group
from calor_kernel.contract.graph_links import links_of
from calor_kernel.contract.work import View
from calor_kernel.library.elementwise.postponed import postponed

L = TypeVar("L", bound="Links")
T = TypeVar("T")


def once(query: Callable[[L, int], T]) -> Callable[[L, int], T]:
    """Compute the answer to a query of a node or a value once, since searches repeat it."""
    name = query.__name__

    @wraps(query)
    def answer(links: L, number: int) -> T:
        known: dict[int, T] = links.known[name]
        if number not in known:
            known[number] = query(links, number)
        return known[number]

    return answer


def once_of_graph(query: Callable[[L, int], T]) -> Callable[[L, int], T]:
    """Compute an answer that depends on the graph alone once for all searches of a kind."""
    name = query.__name__

    @wraps(query)
    def answer(links: L, number: int) -> T:
        known: dict[int, T] = links.of_graph[type(links), name]
        try:
            return known[number]
        except KeyError:
            made = known[number] = query(links, number)
            return made

    return answer


class Links:
    """The nodes that make and read a graph's values.

    ``units``: a covering in topological order; nodes of a group depend on all that the group reads.
    """

    def __init__(self, graph: Graph, units: Sequence[int | Group]) -> None:
        self.graph = graph
        self.units = units
        self.grouped = {n for one in units if isinstance(one, Group) for n in one.nodes}
        links = links_of(graph)
        self.maker, self.readers, self.wanted = links.makers, links.readers, links.wanted
        # Nodes that join no launch that makes the operand given here; those of them that never do.
        self.late, self.postponed = postponed(graph)
        # The answers to queries that are computed once: for this search, and for the graph.
        self.known: defaultdict[Any, dict[int, Any]] = defaultdict(dict)
        self.of_graph = links.answers

    @cached_property
    def _above(self) -> list[int]:
        """For each node the nodes that it depends on, as bits."""
        found = [0] * len(self.graph.nodes)
        for unit in self.units:
            nodes = (unit,) if isinstance(unit, int) else unit.nodes
            bits = self.bits(nodes) if len(nodes) > 1 else 0
            read = (v for n in nodes for v in self.graph.nodes[n].inputs if v in self.maker)
            for maker in {self.maker[v] for v in read}:
                bits |= found[maker] | 1 << maker
            for n in nodes:
                found[n] = bits
        return found

    def depend(self, values: Iterable[int], nodes: Iterable[int]) -> bool:
        """Return whether the maker of a value depends on one of some nodes."""
        mine = self.bits(nodes)
        makers = {self.maker[v] for v in values if v in self.maker}
        return any(self._above[n] & mine for n in makers)

    def above(self, values: Iterable[int]) -> int:
        """Return the nodes that some values depend on, as bits."""
        found = 0
        for n in {self.maker[v] for v in values if v in self.maker}:
            found |= self._above[n] | 1 << n
        return found

    @once_of_graph
    def dense(self, value: int) -> View:
        """Return the view of a value in memory of its own."""
        return View.dense(self.graph.specs[value])

    @staticmethod
    def bits(nodes: Iterable[int]) -> int:
        """Return nodes as bits."""
        found = 0
        for n in nodes:
            found |= 1 << n
        return found
