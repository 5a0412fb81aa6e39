"""Coverings of graphs, found on disk where a process before this one made them.

Requirements: the search for groups is nearly all of the planning of a large graph, and depends only
on the graph, the fusers and the device. The key has all of them, and the sources of what searches.
An entry that cannot be read is a covering that is not known. What is read is pickled data of the
user's own cache, and never of a bundle.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final

from calor.graph.graph import Graph
from calor_kernel.contract.fuser import Fuser, Group
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.device.images import describe, module_digest, sources_digest
from calor_kernel.device.storage import Storage, cache_directory, keeps
from calor_kernel.errors import KernelTypeError
from calor_kernel.planning.graph_keys import file_digest, graph_key
from calor_kernel.planning.planner import Unit, cover

_FORM: Final = 1
COVERINGS: Final = "coverings"
# The covering of a smaller graph is found as quickly as a file is read.
FEW: Final = 64
# The most bytes of all coverings; that of a large graph has 0.2 MB.
_BYTES: Final = 64 << 20
_PLANNER: Final = Path(__file__).with_name("planner.py")


class Coverings:
    """The coverings of one device.

    ``searching`` is called before a search that takes long. ``found`` counts the coverings that
    were on disk.
    """

    def __init__(
        self, info: DeviceInfo, fusers: Sequence[Fuser], searching: Callable[[], None]
    ) -> None:
        self.info = info
        self.fusers = fusers
        self.searching = searching
        self.found = 0

    def of(self, graph: Graph) -> list[Unit]:
        """Return the units of a graph, as :func:`calor_kernel.planning.planner.cover` does."""
        if len(graph.nodes) < FEW:
            return cover(graph, self.fusers, self.info)
        key = self.key(graph)
        units = None if key is None else self._read(key, graph)
        if units is not None:
            self.found += 1
            return units
        self.searching()
        units = cover(graph, self.fusers, self.info)
        if key is not None:
            self._write(key, units)
        return units

    def key(self, graph: Graph) -> str | None:
        """Return the key of a graph's covering; None if nothing is kept, or a part has no text."""
        if self._storage is None:
            return None
        try:
            return graph_key(graph, self.prefix)
        except (KernelTypeError, ValueError):
            return None

    @cached_property
    def _storage(self) -> Storage | None:
        return Storage(cache_directory() / COVERINGS, limit=_BYTES) if keeps() else None

    @cached_property
    def prefix(self) -> str:
        """The text of all that a covering depends on beside the graph."""
        own = (str(_FORM), sources_digest(), file_digest(_PLANNER), module_digest("calor"))
        fusers = [f"{describe(type(f))} {module_digest(type(f).__module__)}" for f in self.fusers]
        settings = [describe(vars(fuser)) for fuser in self.fusers]
        return "\n".join((*own, *fusers, *settings, describe(self.info)))

    def _read(self, key: str, graph: Graph) -> list[Unit] | None:
        assert self._storage is not None
        data = self._storage.read(key)
        if data is None:
            return None
        with suppress(Exception):  # Whatever is wrong with it, the covering is made anew.
            made: list[Unit] = pickle.loads(data)
            if _covers(made, graph):
                return made
        return None

    def _write(self, key: str, units: Sequence[Unit]) -> None:
        assert self._storage is not None
        # A group may have parts that are known only to this process.
        with suppress(pickle.PicklingError, AttributeError, TypeError):
            self._storage.write(key, pickle.dumps(list(units), pickle.HIGHEST_PROTOCOL))


def _covers(units: Sequence[Unit], graph: Graph) -> bool:
    """Return whether units hold each node of a graph once."""
    found = [n for u in units for n in (u.nodes if isinstance(u, Group) else (u,))]
    return sorted(found) == list(range(len(graph.nodes)))
