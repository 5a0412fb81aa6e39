"""Planned graphs, found on disk where a process before this one planned them.

Requirements: a warm start plans nothing: what a plan is made of, its tasks and their chosen works,
is read. All that planning depends on is in the key: the graph, the device and its toolchain, the
fusers, the choices of the tuner, the settings, and the sources of calor and of every distribution
that lowers ops. Nothing is kept while candidates are timed. A graph is kept under what the device
was asked to claim, so that neither its ops are asked for, nor it is rewritten.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

from calor.graph.graph import Graph
from calor_kernel.contract.ways import Way, brought
from calor_kernel.contract.work import (
    LOWERINGS,
    Build,
    Input,
    Launch,
    Output,
    Scratch,
    View,
    Work,
)
from calor_kernel.device.images import module_digest, sources_digest
from calor_kernel.device.kernels import Kernels
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.planning.coverings import FEW, Coverings
from calor_kernel.planning.graph_cache import GraphCache
from calor_kernel.planning.values import Draft, Piece, Value

_FORM: Final = 1
DRAFTS: Final = "plans"
# The most bytes of all planned graphs; a large one has 0.7 MB.
_BYTES: Final = 256 << 20
# The folders that plan, beside those that make kernels.
_ROOMS: Final = ("planning", "runtime")

# What a plan has thousands of: classes whose arguments are their fields.
_PARTS: Final = frozenset(
    (Build, Launch, Work, Input, Output, Scratch, View, Buffer, Scalar, Value, Piece)
)
Planned = tuple[Draft, Sequence[Work]]
"""A draft with the work of each task, as a plan launches them."""


class Drafts:
    """The planned graphs of one device.

    ``settings`` returns the text of the settings and choices that plans depend on now, None while
    nothing is kept. ``found`` counts the graphs that were on disk.
    """

    def __init__(
        self, coverings: Coverings, kernels: Kernels, settings: Callable[[], str | None]
    ) -> None:
        self.coverings = coverings
        self.kernels = kernels
        self.settings = settings
        self.found = 0
        self._last: tuple[Graph, str | None, Planned | None] | None = None

    def knows(self, graph: Graph) -> bool:
        """Return whether a graph was planned; it is kept, since it is likely to be asked for."""
        return self._look(graph)[2] is not None

    def take(self, graph: Graph) -> tuple[str | None, Planned | None]:
        """Return the key of a graph, None if it is not kept, and what it was planned to."""
        _, key, planned = self._look(graph)
        # A plan changes nothing of its draft, but another one must not share its pieces.
        self._last = None
        self.found += planned is not None
        return key, planned

    def put(self, key: str, planned: Planned) -> None:
        """Keep what a graph was planned to."""
        self._cache.write(key, planned, _Pickler)

    def key(self, graph: Graph) -> str | None:
        """Return the key of a graph; None if it is small, or nothing is kept of it."""
        return self._cache.key(graph, self._beside) if len(graph.nodes) >= FEW else None

    def _beside(self) -> str | None:
        """Return the text of all that plans depend on now beside the graph."""
        settings = self.settings()
        return None if settings is None else f"{self._prefix}\n{settings}"

    def _look(self, graph: Graph) -> tuple[Graph, str | None, Planned | None]:
        last = self._last
        if last is None or last[0] is not graph:
            key = self.key(graph)
            last = self._last = graph, key, None if key is None else self._read(key)
        return last

    def _read(self, key: str) -> Planned | None:
        match self._cache.read(key):
            case (Draft() as draft, [*works]) if len(draft.tasks) == len(works):
                return draft, works
        return None

    @cached_property
    def _cache(self) -> GraphCache:
        return GraphCache(DRAFTS, _BYTES)

    @cached_property
    def _prefix(self) -> str:
        """The text of all that plans depend on beside the graph and the settings."""
        lowered = {op: lower.__module__ for op, lower in LOWERINGS.items()}
        modules = [*lowered.values(), *(entry.point.module for entry in brought())]
        names = sorted({name.partition(".")[0] for name in modules})
        own = (str(_FORM), self.coverings.prefix, self.kernels.images.prefix)
        digests = [f"{name} {module_digest(name)}" for name in names]
        return "\n".join((*own, sources_digest(_ROOMS), *digests, str(sorted(lowered.items()))))


class _Pickler(pickle.Pickler):
    """Writes a way as its name: its row may have functions without a persistent name.

    The parts of launches are written as calls of their classes, which are read in half the time.
    """

    def reducer_override(self, given: Any) -> Any:
        """Return how an object is written; NotImplemented as usual."""
        if isinstance(given, Way):
            return str, (given.name,)
        kind = type(given)
        if kind in _PARTS:
            return kind, tuple([getattr(given, name) for name in kind.__match_args__])
        return NotImplemented
