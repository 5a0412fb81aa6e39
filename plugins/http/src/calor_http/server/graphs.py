"""Graphs by the digest of their file form, each read, verified and claimed once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from calor.backends.device import Device
from calor.backends.protocol import Claim
from calor.compiling.partition import claim_of
from calor.errors import GraphError
from calor.graph.file import load
from calor.graph.graph import Graph
from calor_http.described import digest_of
from calor_http.errors import LimitError
from calor_http.server.limits import MIB

# Graphs of all clients that stay for the next one.
_KEPT_BYTES: Final = 256 * MIB


class Graphs:
    """The graphs that a server knows, the least recently used ones forgotten first."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._held: OrderedDict[str, tuple[Graph, int]] = OrderedDict()
        self._claims: dict[tuple[str, str], Claim] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, digest: str, data: bytes) -> Graph:
        """Read a graph; GraphError if its digest or anything in it is wrong."""
        if digest_of(data) != digest:
            raise GraphError("a graph's digest does not fit its contents")
        graph = load(data)
        if _count(graph, set()) > self._nodes:
            raise LimitError(f"a graph has more than {self._nodes} nodes, the server's limit")
        with self._lock:
            if digest not in self._held:
                self._held[digest] = graph, len(data)
                self._bytes += len(data)
            while self._bytes > _KEPT_BYTES and len(self._held) > 1:
                old, (_, nbytes) = self._held.popitem(last=False)
                self._bytes -= nbytes
                for key in [key for key in self._claims if key[1] == old]:
                    del self._claims[key]
        return graph

    def find(self, digest: str) -> Graph | None:
        """Return a graph, if it is known."""
        with self._lock:
            if digest not in self._held:
                return None
            self._held.move_to_end(digest)
            return self._held[digest][0]

    def claim(self, device: Device, digest: str, graph: Graph) -> Claim:
        """Return what a device takes of a graph."""
        key = device.name, digest
        found = self._claims.get(key)
        if found is None:
            found = claim_of(device, graph)
            with self._lock:
                if digest in self._held:
                    self._claims[key] = found
        return found


def _count(graph: Graph, seen: set[int]) -> int:
    """Return the nodes of a graph and of its sub-graphs, each counted once."""
    if id(graph) in seen:
        return 0
    seen.add(id(graph))
    bodies = [
        body
        for node in graph.nodes
        for value in node.attributes.values()
        for body in (value if isinstance(value, tuple) else (value,))
        if isinstance(body, Graph)
    ]
    return len(graph.nodes) + sum(_count(body, seen) for body in bodies)
