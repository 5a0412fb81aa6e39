"""A cache of prepared launches by handles.

Requirements: a program alternates between a few sets of buffers (the current result, the next one),
and the look-up is part of each call. Handles are compared by identity, because a freed block may be
equal to its successor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")


class Kept(Generic[Made]):
    """The results of ``prepare`` for up to ``most`` sets of handles.

    ``prepare`` receives the handles and, if the cache is full, the oldest result, else None. The
    oldest result is evicted, and may be reused for the new one.

    >>> held = Kept(lambda handles, oldest: list(handles), 2)
    >>> x, y = "x", "y"
    >>> held((x, y)) is held((x, y))
    True
    """

    __slots__ = ("_known", "_most", "_prepare")

    def __init__(self, prepare: Callable[[Sequence[Any], Made | None], Made], most: int) -> None:
        self._prepare = prepare
        self._most = most
        # References to the handles keep their identities unique.
        self._known: dict[tuple[int, ...], tuple[Sequence[Any], Made]] = {}

    def __call__(self, handles: Sequence[Any]) -> Made:
        """Return the result for these handles."""
        key = tuple(map(id, handles))
        found = self._known.get(key)
        if found is None:
            known, oldest = self._known, None
            if len(known) >= self._most:
                oldest = known.pop(next(iter(known)))[1]
            found = known[key] = tuple(handles), self._prepare(handles, oldest)
        return found[1]
