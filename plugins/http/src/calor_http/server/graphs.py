"""Graphs by the digest of their file form, each read, verified and claimed once.

Requirements: a digest opens nothing to those who have not sent the graph, since digests are no
secrets; where there is no more room, the token with the most graphs gives up its oldest ones.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Collection
from typing import Final

from calor.backends.device import Device
from calor.backends.protocol import Claim
from calor.compiling.partition import claim_of
from calor.errors import GraphError
from calor.graph.attributes import HostArray
from calor.graph.file import load
from calor.graph.graph import Graph
from calor_http.described import digest_of
from calor_http.errors import LimitError
from calor_http.server.limits import MIB

# Graphs of all clients that stay for the next one: the bytes of their file forms, and of what each
# node takes beside, since most of a small graph is its nodes.
_KEPT_BYTES: Final = 256 * MIB
_NODE_BYTES: Final = 2048


class Graphs:
    """The graphs that a server knows by their owners, the least recently used forgotten first."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._held: OrderedDict[tuple[str, str], tuple[Graph, int]] = OrderedDict()
        self._claims: dict[tuple[str, str], Claim] = {}
        self._bytes: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, owner: str, digest: str, data: bytes) -> Graph:
        """Read a graph; GraphError if its digest or anything in it is wrong."""
        if digest_of(data) != digest:
            raise GraphError("a graph's digest does not fit its contents")
        graph = load(data)
        nodes = _count(graph)
        if nodes > self._nodes:
            raise LimitError(f"a graph has more than {self._nodes} nodes, the server's limit")
        with self._lock:
            if (owner, digest) not in self._held:
                nbytes = len(data) + _NODE_BYTES * (nodes + 1)
                self._held[owner, digest] = graph, nbytes
                self._bytes[owner] += nbytes
            while self._bytes.total() > _KEPT_BYTES and len(self._held) > 1:
                self._forget_oldest()
        return graph

    def _forget_oldest(self) -> None:
        """Forget the oldest graph of the owner with the most bytes."""
        ((most, _),) = self._bytes.most_common(1)
        old = next(key for key in self._held if key[0] == most)
        _, nbytes = self._held.pop(old)
        self._bytes[most] -= nbytes
        if not any(digest == old[1] for _, digest in self._held):
            for key in [key for key in self._claims if key[1] == old[1]]:
                del self._claims[key]

    def find(self, owner: str, digest: str) -> Graph | None:
        """Return a graph that an owner sent, if it is still there."""
        key = owner, digest
        with self._lock:
            if key not in self._held:
                return None
            self._held.move_to_end(key)
            return self._held[key][0]

    def claim(self, device: Device, digest: str, graph: Graph) -> Claim:
        """Return what a device takes of a graph."""
        key = device.name, digest
        found = self._claims.get(key)
        if found is None:
            found = claim_of(device, graph)
            with self._lock:
                if any(digest == known for _, known in self._held):
                    self._claims[key] = found
        return found


def constant_bytes(graph: Graph) -> int:
    """Return the bytes of a graph's constants, those of its sub-graphs included, each once."""
    held = {
        id(value): len(value.data)
        for part in _parts(graph, {})
        for node in part.nodes
        for value in node.attributes.values()
        if isinstance(value, HostArray)
    }
    return sum(held.values())


def _count(graph: Graph) -> int:
    """Return the nodes of a graph and of its sub-graphs, each counted once."""
    return sum(len(part.nodes) for part in _parts(graph, {}))


def _parts(graph: Graph, seen: dict[int, Graph]) -> Collection[Graph]:
    """Return a graph and its sub-graphs, each once."""
    if id(graph) not in seen:
        seen[id(graph)] = graph
        for node in graph.nodes:
            for value in node.attributes.values():
                for body in value if isinstance(value, tuple) else (value,):
                    if isinstance(body, Graph):
                        _parts(body, seen)
    return seen.values()
