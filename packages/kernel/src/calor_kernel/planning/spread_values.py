"""Values of few elements, spread over many, that each reduction computes for itself.

Requirements: differences of all pairs of points are as many as pairs and coordinates, and are
elementwise in fewer numbers, which are read again and again. Reductions along other axes are other
launches, so one of them would store such a value for the others. Each gets copies of the nodes
that lead to it instead, which the fuser of rows joins to the reduction: the operations, and so the
numbers, are the same, and nothing of the large size is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from calor.graph.graph import Builder, Graph, prune
from calor.ops.base import TABLE
from calor_kernel.contract.choices import hinted
from calor_kernel.contract.graph_links import GraphLinks, links_of
from calor_kernel.contract.movement import MOVEMENTS
from calor_kernel.library.elementwise.operations import ROWS
from calor_kernel.library.reduce.fusion_groups import FOLDS

# A value is spread if what it is made of has at most one of so many of its elements.
_SHARE: Final = 2
# Instructions of an element from which it is stored rather than computed again.
_HEAVY: Final = 48
# Bytes of a value that caches hold anyway.
_FEW: Final = 1 << 16
_SOURCES: Final = ("full", "iota")


def spreading(graph: Graph) -> Graph:
    """Return the graph in which reductions along different axes share no spread value.

    The graph itself where none do.
    """
    if sum(node.op.name in FOLDS for node in graph.nodes) < 2:
        return graph
    search = _Search(graph)
    chains = search.shared()
    return _rewritten(graph, chains) if chains else graph


class _Search:
    """A graph, and for each spread value the nodes that lead to it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.links: GraphLinks = links_of(graph)
        self._known: dict[int, tuple[frozenset[int], frozenset[int]] | None] = {}

    def chain(self, value: int) -> tuple[frozenset[int], frozenset[int]] | None:
        """Return the nodes that make a value of few numbers, and those; None if it is stored."""
        if value not in self._known:
            self._known[value] = None
            self._known[value] = self._chain(value)
        return self._known[value]

    def _chain(self, value: int) -> tuple[frozenset[int], frozenset[int]] | None:
        specs, number = self.graph.specs, self.links.makers.get(value)
        if number is None or specs[value].dtype.is_complex:
            return None
        node = self.graph.nodes[number]
        if node.op.name in _SOURCES:
            return frozenset((number,)), frozenset()
        moves = node.op.name in MOVEMENTS and len(node.inputs) == 1
        if not (moves or node.op.name in ROWS) or node.op.name == "barrier":
            return None
        nodes, leaves = {number}, set[int]()
        for operand in node.inputs:
            if self._is_few(operand, value):
                leaves.add(operand)
                continue
            found = self.chain(operand)
            if found is None:
                return None
            nodes |= found[0]
            leaves |= found[1]
        return frozenset(nodes), frozenset(leaves)

    def _is_few(self, operand: int, value: int) -> bool:
        """Return whether a value is read again and again for another one."""
        specs, number = self.graph.specs, self.links.makers.get(operand)
        made = number is not None and self.graph.nodes[number].op.name in _SOURCES
        return not made and bool(hinted(specs[operand].size) * _SHARE <= hinted(specs[value].size))

    def shared(self) -> dict[int, frozenset[int]]:
        """Return the reductions that compute their operand again, each with the nodes for that."""
        specs, nodes = self.graph.specs, self.graph.nodes
        folds: dict[int, frozenset[int]] = {}
        for number, node in enumerate(nodes):
            if node.op.name not in FOLDS or hinted(specs[node.inputs[0]].nbytes) < _FEW:
                continue
            found = self.chain(node.inputs[0])
            if found is not None and self._light(node.inputs[0], *found):
                folds[number] = found[0]
        # Nodes that make large values, and the axes of the reductions that they lead to.
        ends: dict[int, set[object]] = {}
        for number, chain in folds.items():
            for one in self._large(number, chain):
                ends.setdefault(one, set()).add(nodes[number].attributes["axes"])
        made: dict[int, frozenset[int]] = {}
        for number, chain in folds.items():
            own = nodes[number].attributes["axes"]
            apart = [n for n in self._large(number, chain) if ends[n] != {own}]
            if any(own != self._first(n, folds) for n in apart):
                made[number] = chain
        return made

    def _first(self, node: int, folds: Mapping[int, frozenset[int]]) -> object:
        """Return the axes of the first reduction that a node leads to, which keeps it."""
        number = min(n for n, chain in folds.items() if node in chain)
        return self.graph.nodes[number].attributes["axes"]

    def _large(self, fold: int, chain: frozenset[int]) -> list[int]:
        """Return the nodes of a chain that compute values of the size that is reduced."""
        specs, nodes = self.graph.specs, self.graph.nodes
        shape = specs[nodes[fold].inputs[0]].shape
        return [
            n
            for n in chain
            if nodes[n].op.name in ROWS
            and nodes[n].op.name not in MOVEMENTS
            and specs[nodes[n].outputs[0]].shape == shape
        ]

    def _light(self, value: int, chain: frozenset[int], leaves: frozenset[int]) -> bool:
        """Return whether a value is sooner computed of the numbers behind it than read."""
        specs, nodes = self.graph.specs, self.graph.nodes
        weight = sum(
            ROWS[nodes[n].op.name].weight
            for n in chain
            if nodes[n].op.name in ROWS and nodes[n].op.name not in MOVEMENTS
        )
        few = sum(hinted(specs[v].nbytes) for v in leaves) * _SHARE <= hinted(specs[value].nbytes)
        return few and weight <= _HEAVY and bool(leaves)


def _rewritten(graph: Graph, chains: Mapping[int, frozenset[int]]) -> Graph:
    """Return the graph with copies of chains, of which reductions along equal axes share one."""
    builder = Builder()
    numbers = {i: builder.input(graph.specs[i], i in graph.host) for i in graph.inputs}
    copies: dict[object, dict[int, int]] = {}
    for number, node in enumerate(graph.nodes):
        known = numbers
        if number in chains:
            known = _copied(graph, sorted(chains[number]), builder, numbers, copies.setdefault(
                node.attributes["axes"], {}))  # fmt: skip
        builder.take(graph, [node], known)
        numbers.update((v, known[v]) for v in node.outputs)
    return prune(builder.build([numbers[o] for o in graph.outputs]))


def _copied(
    graph: Graph,
    chain: Sequence[int],
    builder: Builder,
    numbers: Mapping[int, int],
    copies: dict[int, int],
) -> dict[int, int]:
    """Add the copies of a chain's nodes that are not there yet; return the values to read."""
    for number in chain:
        node = graph.nodes[number]
        if node.outputs[0] not in copies:
            for value in node.inputs:
                if value not in copies:
                    # A barrier keeps the copies from the group that makes the few numbers.
                    (copies[value],) = builder.add(
                        TABLE["barrier"], [numbers[value]], {}, [graph.specs[value]]
                    )
            known = {**numbers, **copies}
            builder.take(graph, [node], known)
            copies[node.outputs[0]] = known[node.outputs[0]]
    return {**numbers, **copies}
