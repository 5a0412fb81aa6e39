"""Cutting the work of a member in pieces that read little: a chunk is what runs at once.

Requirements: weights are loaded for a chunk, so what uses the same weights belongs together. A
value that is made and waits would be taken to the host and come back, so what reads it follows at
once: an optimizer's update comes behind the gradient that it reads. What only prepares values that
are there at any time, such as a scaled copy of state, is done when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
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
        self.waiting = {i: self._waiting(i) for i in self.waits}
        self.ready = {i for i, count in self.waits.items() if count == 0}
        self.chunks: list[list[int]] = []
        self._begin()

    def found(self) -> list[list[int]]:
        """Return the chunks."""
        while self.ready:
            best = self._best()
            group = self._with_late(best)
            if self.chunks[-1] and self.held + self._grows(group) > self.limit:
                self._begin()
                continue
            self.ready.remove(best)
            for i in group:
                self._take(i)
            for j in self.follow[best]:
                self.waits[j] -= 1
                if self.waits[j] == 0:
                    self.ready.add(j)
                    self._rank(j)
        return [sorted(chunk) for chunk in self.chunks if chunk]

    def _begin(self) -> None:
        """Begin a chunk; what the last one made may be there still."""
        made = self.chunks[-1] if self.chunks else ()
        self.touched = {v for i in made for v in self.graph.nodes[i].outputs}
        self.chunks.append([])
        self.here: set[int] = set()
        self.held = 0
        # Ready nodes by their rank. A node whose rank rose is there twice, and counts by its
        # present loads; who reads a value is ranked anew when that value is touched.
        self.ranked: list[tuple[int, int, int]] = []
        self.loads: dict[int, int] = {}
        self.reading: dict[int, list[int]] = {}
        for i in self.ready:
            self._rank(i)

    def _best(self) -> int:
        """Return the ready node that comes next."""
        while True:
            _, loads, node = self.ranked[0]
            if node in self.ready and self.loads[node] == loads:
                return node
            heappop(self.ranked)

    def _rank(self, node: int) -> None:
        """Rank a node: first what reads most of what waits, then what loads least."""
        group = self._with_late(node)
        loads = self._loads(group)
        if self.loads.get(node) == loads:
            return
        self.loads[node] = loads
        heappush(self.ranked, (-self.waiting[node], loads, node))
        for v in {v for i in group for v in self.graph.nodes[i].inputs} - self.touched:
            self.reading.setdefault(v, []).append(node)

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

    def _waiting(self, node: int) -> int:
        """Return the bytes that a node reads of what other nodes had to make."""
        inputs = {*self.graph.nodes[node].inputs}
        made = (v for v in inputs if v in self.maker and self.maker[v] not in self.late)
        return sum(map(self._size, made))

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
        self.here.add(node)
        self.done.add(node)
        found = self.graph.nodes[node]
        new = {*found.inputs, *found.outputs} - self.touched
        self.touched |= new
        for i in {i for v in new for i in self.reading.pop(v, ())} & self.ready:
            self._rank(i)
        for v in set(found.inputs):
            if v in self.left:
                self.left[v].discard(node)
                # What was made here and is read no more takes no room.
                if not self.left[v] and v not in self.kept and self.maker[v] in self.here:
                    self.held -= self._size(v)

    def _size(self, value: int) -> int:
        return 0 if value in self.graph.host else self.graph.specs[value].nbytes
