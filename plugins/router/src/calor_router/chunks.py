"""Cutting the work of a member in pieces that read little: a chunk is what runs at once.

Requirements: weights are loaded for a chunk, so what uses the same weights belongs together. A
value that is made and waits would be taken to the host and come back, so what reads it follows at
once: an optimizer's update comes behind the gradient that it reads. What only prepares values that
are there at any time, such as a scaled copy of state, is done when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calor.graph.graph import Graph
from calor_router.effort import VIEWS


def chunked(graph: Graph, nodes: Sequence[int], nbytes: int) -> list[list[int]]:
    """Return nodes in chunks, in an order to run them.

    Parameters
    ----------
    graph : Graph
        The graph.
    nodes : sequence of int
        Some of its nodes, none of which waits for a node that waits for another of them.
    nbytes : int
        About how many bytes a chunk reads and makes.

    Returns
    -------
    list of list of int
        The nodes of each chunk; one node alone may exceed the bytes.
    """
    return _Chunks(graph, nodes, nbytes).found()


# What is so many times smaller than a result is no reason to make the result early.
_SMALL: Final = 16


class _Chunks:
    """Takes one node after another, and begins a chunk where the last one is full."""

    def __init__(self, graph: Graph, nodes: Sequence[int], nbytes: int) -> None:
        self.graph, self.limit = graph, nbytes
        self.maker = {v: i for i in nodes for v in graph.nodes[i].outputs}
        self.users: dict[int, set[int]] = {v: set() for v in self.maker}
        for i in nodes:
            for v in graph.nodes[i].inputs:
                if v in self.maker:
                    self.users[v].add(i)
        # What is done on demand: views, and what reads nothing large that nodes had to make.
        self.late = {i for i in nodes if self._is_late(i)}
        self.before: dict[int, frozenset[int]] = {}
        self.follow: dict[int, list[int]] = {i: [] for i in nodes}
        self.waits: dict[int, int] = {}
        for i in sorted(nodes):
            makers = {self.maker[v] for v in graph.nodes[i].inputs if v in self.maker}
            # What a late node waits for is waited for by who reads it.
            early = makers - self.late
            self.before[i] = frozenset(early).union(*(self.before[j] for j in makers & self.late))
            if i not in self.late:
                self.waits[i] = len(self.before[i])
                for j in self.before[i]:
                    self.follow[j].append(i)
        self.kept = set(graph.outputs)
        self.left = {v: set(users) for v, users in self.users.items()}
        self.done: set[int] = set()
        self.chunks: list[list[int]] = []
        self._begin()

    def found(self) -> list[list[int]]:
        """Return the chunks."""
        ready = {i for i, count in self.waits.items() if count == 0}
        while ready:
            best = min(ready, key=self._rank)
            group = self._with_late(best)
            if self.chunks[-1] and self.held + self._grows(group) > self.limit:
                self._begin()
                continue
            ready.remove(best)
            for i in group:
                self._take(i)
            for j in self.follow[best]:
                self.waits[j] -= 1
                if self.waits[j] == 0:
                    ready.add(j)
        return [sorted(chunk) for chunk in self.chunks if chunk]

    def _begin(self) -> None:
        """Begin a chunk; what the last one made may be there still."""
        made = self.chunks[-1] if self.chunks else ()
        self.touched = {v for i in made for v in self.graph.nodes[i].outputs}
        self.chunks.append([])
        self.held = 0

    def _is_late(self, node: int) -> bool:
        found = self.graph.nodes[node]
        if not any(self.users[v] for v in found.outputs):
            return False
        small = sum(map(self._size, found.outputs)) // _SMALL
        return found.op.name in VIEWS or all(
            v not in self.maker
            or self._size(v) <= small
            or self.graph.nodes[self.maker[v]].op.name in VIEWS
            for v in found.inputs
        )

    def _with_late(self, node: int) -> list[int]:
        """Return a node behind what is to be done for it now."""
        found: list[int] = []
        for v in self.graph.nodes[node].inputs:
            maker = self.maker.get(v)
            if maker in self.late and maker not in self.done and maker not in found:
                assert maker is not None
                found += [i for i in self._with_late(maker) if i not in found]
        return [*found, node]

    def _rank(self, node: int) -> tuple[int, int, int]:
        """Order nodes: those that read most of what waits, then those that load least."""
        inputs = set(self.graph.nodes[node].inputs)
        waiting = (v for v in inputs if v in self.maker and self.maker[v] not in self.late)
        return -sum(map(self._size, waiting)), self._loads(self._with_late(node)), node

    def _loads(self, group: Sequence[int]) -> int:
        read = {v for i in group for v in self.graph.nodes[i].inputs} - self.touched
        made = {v for i in group for v in self.graph.nodes[i].outputs}
        return sum(map(self._size, read - made))

    def _grows(self, group: Sequence[int]) -> int:
        made = (v for i in group for v in self.graph.nodes[i].outputs)
        return self._loads(group) + sum(map(self._size, made))

    def _take(self, node: int) -> None:
        self.held += self._grows([node])
        self.chunks[-1].append(node)
        self.done.add(node)
        found = self.graph.nodes[node]
        self.touched.update(found.inputs, found.outputs)
        here = set(self.chunks[-1])
        for v in set(found.inputs):
            if v in self.left:
                self.left[v].discard(node)
                # What was made here and is read no more takes no room.
                if not self.left[v] and v not in self.kept and self.maker[v] in here:
                    self.held -= self._size(v)

    def _size(self, value: int) -> int:
        return 0 if value in self.graph.host else self.graph.specs[value].nbytes
