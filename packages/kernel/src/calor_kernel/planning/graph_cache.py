"""What is kept of planned graphs on disk, pickled under the keys of the graphs.

Requirements: an entry that cannot be read is one that is not known, whatever is wrong with it. What
is read is pickled data of the user's own cache, and never of a bundle.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from typing import Any

from calor.cache import cache_directory, keeps
from calor.graph.graph import Graph
from calor_kernel.device.storage import Storage
from calor_kernel.errors import KernelTypeError
from calor_kernel.planning.graph_keys import graph_key


class GraphCache:
    """The entries in one folder of the cache; ``limit``: the most bytes of all."""

    def __init__(self, folder: str, limit: int) -> None:
        self.storage = Storage(cache_directory() / folder, limit=limit) if keeps() else None

    def key(self, graph: Graph, beside: Callable[[], str | None]) -> str | None:
        """Return the key of a graph and a text; None if nothing is kept, or a part has no text."""
        if self.storage is None:
            return None
        try:
            text = beside()
            return None if text is None else graph_key(graph, text)
        except (KernelTypeError, ValueError):
            return None

    def read(self, key: str) -> Any:
        """Return an entry, None if it is missing or damaged."""
        data = None if self.storage is None else self.storage.read(key)
        if data is not None:
            with suppress(Exception):
                return pickle.loads(data)
        return None

    def write(self, key: str, value: Any, pickler: type[pickle.Pickler] = pickle.Pickler) -> None:
        """Keep a value, unless it has parts that are known only to this process."""
        made = BytesIO()
        with suppress(pickle.PicklingError, AttributeError, TypeError):
            pickler(made, pickle.HIGHEST_PROTOCOL).dump(value)
            if self.storage is not None:
                self.storage.write(key, made.getvalue())
