"""Coverings of graphs, found on disk where a process before this one made them.

Requirements: the search for groups is nearly all of the planning of a large graph, and depends only
on the graph, the fusers and the device. The key has all of them, and the sources of what searches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from calor.graph.graph import Graph
from calor_kernel.contract.fuser import Fuser, Group
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.device.images import describe, module_digest, sources_digest
from calor_kernel.planning.graph_cache import GraphCache
from calor_kernel.planning.graph_keys import file_digest
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
        known: Any = None if key is None else self._cache.read(key)
        if _covers(known, graph):
            self.found += 1
            found: list[Unit] = known
            return found
        self.searching()
        units = cover(graph, self.fusers, self.info)
        if key is not None:
            self._cache.write(key, list(units))
        return units

    def key(self, graph: Graph) -> str | None:
        """Return the key of a graph's covering; None if nothing is kept, or a part has no text."""
        return self._cache.key(graph, lambda: self.prefix)

    @cached_property
    def _cache(self) -> GraphCache:
        return GraphCache(COVERINGS, _BYTES)

    @cached_property
    def prefix(self) -> str:
        """The text of all that a covering depends on beside the graph."""
        own = (str(_FORM), sources_digest(), file_digest(_PLANNER), module_digest("calor"))
        fusers = [f"{describe(type(f))} {module_digest(type(f).__module__)}" for f in self.fusers]
        settings = [describe(vars(fuser)) for fuser in self.fusers]
        return "\n".join((*own, *fusers, *settings, describe(self.info)))


def _covers(units: Any, graph: Graph) -> bool:
    """Return whether what was read is units that hold each node of a graph once."""
    if not isinstance(units, list):
        return False
    found = [n for u in units for n in (u.nodes if isinstance(u, Group) else (u,))]
    return sorted(found) == list(range(len(graph.nodes)))
