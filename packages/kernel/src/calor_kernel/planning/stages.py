"""The stages of a graph with control flow: which nodes run before, between and behind its flows.

Requirements: a stage is a plan of its own, and what it gives to another stage is dense, in memory
of its own. A node that is ready early would run in the first stage, so a loss's mask and the decay
of a momentum would be written before the first layer and read after the last one. So a node waits
for the stage that reads it first, if fewer bytes wait for it than it makes, and is fused with its
readers there. Views and constants are repeated in each stage that reads them, so a bias that is
spread to a whole batch is never written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from calor.graph.graph import Builder, Graph, Node
from calor.graph.segments import Segment, grouped, segment_of
from calor_kernel.contract.movement import MOVEMENTS, view_of
from calor_kernel.contract.work import View

# The colours of nodes that plans compute, and of parts of inputs; flows have colours from 0.
PLANNED: Final = -1
PARTS: Final = -2
# Constants and ramps up to so many bytes are constants of each stage that reads them.
_SHORT: Final = 1 << 16


def stages_of(
    graph: Graph, flows: Collection[int], parts: Collection[int]
) -> tuple[Graph, list[Segment]]:
    """Return a graph's stages, and the graph of which they are segments.

    Parameters
    ----------
    graph : Graph
        A graph with control flow.
    flows : collection of int
        The numbers of nodes with control flow; each is a stage.
    parts : collection of int
        Values that are parts of inputs; those that several stages read form a stage.

    Returns
    -------
    tuple
        A graph with the same inputs and outputs, in which stages have their own views, and its
        segments in an order to run them.
    """
    colours = [i if i in flows else PLANNED for i in range(len(graph.nodes))]
    groups = grouped(graph, colours)
    wanted = _read_elsewhere(graph, colours, groups) & {*parts}
    if wanted:
        for i, node in reversed([*enumerate(graph.nodes)]):
            if node.outputs[0] in wanted:
                colours[i] = PARTS
                wanted.update(v for v in node.inputs if v in parts)
        groups = grouped(graph, colours)
    search = _Search(graph, colours, groups, parts)
    search.wait()
    search.repeat()
    return search.rebuilt()


def _read_elsewhere(
    graph: Graph, colours: Sequence[int], groups: Sequence[Sequence[int]]
) -> set[int]:
    """Return the values of plans that other stages read."""
    stage = {i: number for number, group in enumerate(groups) for i in group}
    makers = {o: i for i, node in enumerate(graph.nodes) for o in node.outputs}
    return {
        v
        for i, node in enumerate(graph.nodes)
        for v in node.inputs
        if v in makers and stage[makers[v]] != stage[i] and colours[makers[v]] == PLANNED
    }


@dataclass
class _Search:
    """A graph whose nodes are in groups, by number, that run one after another."""

    graph: Graph
    colours: Sequence[int]
    groups: list[list[int]]
    parts: Collection[int]
    makers: dict[int, int] = field(init=False)
    readers: dict[int, list[int]] = field(init=False)
    # The group in which each node's results for other groups are made.
    stage: dict[int, int] = field(init=False)
    returned: set[int] = field(init=False)
    # The bytes that a value keeps alive, and its view of them; no view if it is no view.
    behind: dict[int, tuple[int | None, View]] = field(init=False)

    def __post_init__(self) -> None:
        graph = self.graph
        self.returned = {*graph.outputs}
        self.makers = {o: i for i, node in enumerate(graph.nodes) for o in node.outputs}
        self.readers = {}
        for i, node in enumerate(graph.nodes):
            for v in dict.fromkeys(node.inputs):
                self.readers.setdefault(v, []).append(i)
        self.stage = {i: number for number, group in enumerate(self.groups) for i in group}
        self.behind = {v: (v, View.dense(graph.specs[v])) for v in graph.inputs}
        for node in graph.nodes:
            for v in node.outputs:
                self.behind[v] = self._behind(node, v)

    def _behind(self, node: Node, value: int) -> tuple[int | None, View]:
        """Return the value of which another is a view, None for a constant, and the view."""
        known = self.graph.specs[value]
        if node.op.name == "full":
            return None, View(known.shape, (0,) * known.ndim, known.dtype)
        if node.op.name in ("constant", "iota") and known.nbytes <= _SHORT:
            return None, View.dense(known)
        if node.op.name in MOVEMENTS and len(node.inputs) == 1:
            base, view = self.behind[node.inputs[0]]
            moved = view_of(node.op.name, view, node.attributes, known)
            if moved is not None:
                return base, moved
        return value, View.dense(known)

    # Waiting.
    def wait(self) -> None:
        """Move nodes to the last stage before all their readers, if that keeps fewer bytes."""
        planned = [n for n, group in enumerate(self.groups) if self.colours[group[0]] == PLANNED]
        for i in reversed(range(len(self.graph.nodes))):
            reading = self._reading(i)
            if self.colours[i] != PLANNED or not reading:
                continue
            latest = planned[bisect_right(planned, min(reading)) - 1]
            if latest > self.stage[i]:
                chain = self._chain(i)
                if self._waiting(chain, latest) < self._made(i):
                    self.stage.update(dict.fromkeys(chain, latest))
        for number in planned:
            self.groups[number] = [i for i in range(len(self.colours)) if self.stage[i] == number]

    def _reading(self, number: int) -> list[int]:
        """Return the stages that read a node's results; none if the graph returns one."""
        made = self.graph.nodes[number].outputs
        if not self.returned.isdisjoint(made):
            return []
        return [self.stage[r] for v in made for r in self.readers.get(v, ())]

    def _chain(self, number: int) -> set[int]:
        """Return a node with those of its stage that lead to it alone."""
        chain, todo = {number}, [number]
        while todo:
            for v in self.graph.nodes[todo.pop()].inputs:
                maker = self.makers.get(v)
                if maker is None or maker in chain or self.stage[maker] != self.stage[number]:
                    continue
                made = self.graph.nodes[maker].outputs
                readers = {r for o in made for r in self.readers.get(o, ())}
                if self.returned.isdisjoint(made) and chain.issuperset(readers):
                    chain.add(maker)
                    todo.append(maker)
        return chain

    def _made(self, number: int) -> int:
        return sum(self.graph.specs[v].nbytes for v in self.graph.nodes[number].outputs)

    def _waiting(self, chain: Collection[int], stage: int) -> int:
        """Return the bytes that are kept until a stage only because nodes run there."""
        bases = {self.behind[v][0] for i in chain for v in self.graph.nodes[i].inputs}
        return sum(
            self.graph.specs[base].nbytes
            for base in bases
            if base in self.makers
            and self.makers[base] not in chain
            and base not in self.returned
            and self._last(base, chain) < stage
        )

    def _last(self, base: int, but: Collection[int]) -> int:
        """Return the last stage that reads a value, or a view of it, apart from some nodes."""
        last, todo = -1, [base]
        while todo:
            for reader in self.readers.get(todo.pop(), ()):
                if reader not in but:
                    last = max(last, self.stage[reader])
                    outputs = self.graph.nodes[reader].outputs
                    todo += [v for v in outputs if self.behind[v][0] == base]
        return last

    # Views.
    def repeat(self) -> None:
        """Add the views to each stage that read them, with the views and constants behind them."""
        for number, group in enumerate(self.groups):
            if not group or self.colours[group[0]] != PLANNED:
                continue
            own, todo = {*group}, [*group]
            while todo:
                for v in self.graph.nodes[todo.pop()].inputs:
                    maker = self.makers.get(v)
                    if maker is not None and maker not in own and self._is_view(v):
                        own.add(maker)
                        todo.append(maker)
            self.groups[number] = sorted(own)

    def _is_view(self, value: int) -> bool:
        """Return whether a stage reads a value of another as a view, which keeps fewer bytes."""
        base, _ = self.behind[value]
        if base == value or value in self.parts:
            return False
        specs = self.graph.specs
        if base is None or base in self.graph.inputs:
            return True
        return specs[base].nbytes < specs[value].nbytes

    def rebuilt(self) -> tuple[Graph, list[Segment]]:
        """Return the graph with a node for each place in a group, and its segments."""
        graph, groups = self.graph, self._needed()
        builder, made, segments = Builder(), list[list[int]](), list[tuple[int, list[int]]]()
        numbers = {v: builder.input(graph.specs[v], v in graph.host) for v in graph.inputs}
        for number, group in enumerate(groups):
            own = dict(numbers)
            first = len(builder.nodes)
            builder.take(graph, [graph.nodes[i] for i in group], own)
            for i in group:
                if self.stage[i] == number:
                    numbers.update((v, own[v]) for v in graph.nodes[i].outputs)
            made.append([*range(first, len(builder.nodes))])
            if group:
                segments.append((self.colours[group[0]], made[-1]))
        whole = builder.build([numbers[o] for o in graph.outputs])
        return whole, [segment_of(whole, colour, nodes) for colour, nodes in segments]

    def _needed(self) -> list[list[int]]:
        """Return the groups without views that nothing reads where they are."""
        wanted, groups = {*self.graph.outputs}, list[list[int]]()
        for number, group in reversed([*enumerate(self.groups)]):
            inside, kept = {o for i in group for o in self.graph.nodes[i].outputs}, list[int]()
            own = set[int]()
            for i in reversed(group):
                node = self.graph.nodes[i]
                read = own if self.stage[i] != number else own | wanted
                views = all(self.behind[v][0] != v for v in node.outputs)
                if views and read.isdisjoint(node.outputs):
                    continue
                kept.append(i)
                own.update(v for v in node.inputs if v in inside)
                wanted.update(v for v in node.inputs if v not in inside)
            groups.append(kept[::-1])
        return groups[::-1]
