"""Reading and writing parts of tensors."""

from __future__ import annotations

from calor.graph.trace import Handle


class Indexing(Handle):
    """``x[i]`` and ``x[i] = v``."""

    __slots__ = ()
