"""What a recorded list of launches is made into for given handles, kept for runs that have them.

Requirements: a program goes round a few sets of buffers, such as those of the result that it holds
and of the next, and finding what is kept for one is on the way of each call; handles are told apart
by identity, for a piece that was freed may be equal to the one that came in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")


class Kept(Generic[Made]):
    """What ``prepare`` makes for handles, of up to ``most`` sets of them.

    ``prepare`` is called with the handles, and with what was made first of all that is kept where
    there is no room beside it, else None: that is forgotten, and may be changed into the new one.

    >>> held = Kept(lambda handles, oldest: list(handles), 2)
    >>> x, y = "x", "y"
    >>> held((x, y)) is held((x, y))
    True
    """

    __slots__ = ("_known", "_most", "_prepare")

    def __init__(self, prepare: Callable[[Sequence[Any], Made | None], Made], most: int) -> None:
        self._prepare = prepare
        self._most = most
        # Handles are held, so that no other ones get their identities.
        self._known: dict[tuple[int, ...], tuple[Sequence[Any], Made]] = {}

    def __call__(self, handles: Sequence[Any]) -> Made:
        """Return what was made for handles."""
        key = tuple(map(id, handles))
        found = self._known.get(key)
        if found is None:
            known, oldest = self._known, None
            if len(known) >= self._most:
                oldest = known.pop(next(iter(known)))[1]
            found = known[key] = tuple(handles), self._prepare(handles, oldest)
        return found[1]
