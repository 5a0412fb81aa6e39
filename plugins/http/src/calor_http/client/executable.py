"""A graph that a server compiled: a call is one command, and nobody waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from calor.backends.protocol import Buffer
from calor.config import config
from calor.graph.graph import Graph
from calor_http.client.buffer import RemoteBuffer
from calor_http.client.profiles import Profiles
from calor_http.client.requests import Requests
from calor_http.described import largest_op

# A number of the host in a command: its bytes, and what MessagePack adds.
_NUMBER = 24


class Remote(Protocol):
    """The backend of a server, as its executables see it."""

    requests: Requests
    profiles: Profiles

    def reserve(self, index: int, nbytes: int, op: str | None = None) -> None:
        """Raise OutOfMemoryError where bytes would pass the client's limit."""
        ...

    def new(self, index: int, nbytes: int, era: int) -> RemoteBuffer:
        """Return a buffer with a number of its own."""
        ...

    def verify(self, index: int, buffers: Sequence[Any]) -> None:
        """Raise the first error on which a value depends."""
        ...

    def compiled(self, index: int, graph: Graph, within: Any) -> tuple[int, int, int]:
        """Let the server compile a graph; return the program's number, session and bytes."""
        ...


class RemoteExecutable:
    """A compiled graph.

    Parameters
    ----------
    backend : Remote
        The backend.
    index : int
        The device.
    graph : Graph
        The graph.
    within : tuple, optional
        The limit of memory and the outputs in place, of `compile_within`.
    """

    def __init__(self, backend: Remote, index: int, graph: Graph, within: Any = None) -> None:
        self.backend = backend
        self.index = index
        self.graph = graph
        self._within = within
        self._requests = backend.requests
        self.number, self.era, self.required_bytes = backend.compiled(index, graph, within)
        self._given = [(v in graph.host, graph.specs[v]) for v in graph.inputs]
        self._largest = largest_op(graph)
        self._made = [known.nbytes for known in graph.output_specs]
        # What a call sends at least, in bytes.
        self._sent = 9 * (len(graph.inputs) + len(graph.outputs))
        # The program itself is counted by the server.
        self.nbytes = 0

    def __call__(
        self, inputs: Sequence[Any], into: Sequence[Buffer | None] | None = None
    ) -> list[Any]:
        """Queue a run; the results have numbers already."""
        backend, index = self.backend, self.index
        backend.reserve(index, self.required_bytes, self._largest)
        era = self._requests.era
        if era != self.era:
            # The server restarted. Programs are here, and compiled again.
            made = backend.compiled(index, self.graph, self._within)
            self.number, self.era, self.required_bytes = made
            era = self.era
        given: list[Any] = []
        nbytes = self._sent
        for place, thing in enumerate(inputs):
            if type(thing) is RemoteBuffer:
                given.append(thing.number if thing.era == era else thing.at(era))
                continue
            host, known = self._given[place]
            assert host, "an input that is no number of the host"
            data = np.asarray(thing, known.dtype.numpy).tobytes()
            nbytes += len(data) + _NUMBER
            given.append(data)
        results: list[Any] = []
        in_place: list[int] = []
        for place, size in enumerate(self._made):
            target = None if into is None else into[place]
            if type(target) is RemoteBuffer:
                target.at(era)
                target.kept = None
                in_place.append(place)
                results.append(target)
            else:
                results.append(backend.new(index, size, era))
        numbers = [result.number for result in results]
        self._requests.put(["run", self.number, given, numbers, in_place], era, nbytes)
        backend.profiles.report(index)
        if config.debug:
            # An error now is one of the user's line.
            backend.verify(index, results)
        return results

    def __del__(self) -> None:
        if hasattr(self, "era"):
            self._requests.dropped(self, "release")
