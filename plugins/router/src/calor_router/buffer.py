"""The memory of a router: a value lies on one member, and as a copy on others that read it."""

from __future__ import annotations

from typing import Any


class RoutedBuffer:
    """A value on one member or more.

    Parameters
    ----------
    member : int
        The member that has it, by its place in the router's name.
    inner : Buffer
        The member's buffer.

    Attributes
    ----------
    places : dict of int to Buffer
        The buffers by member, the first one the value's own and the others copies of it.
    nbytes : int
        The size in bytes of one of them.
    """

    __slots__ = ("__weakref__", "nbytes", "places")

    def __init__(self, member: int, inner: Any) -> None:
        self.places: dict[int, Any] = {member: inner}
        self.nbytes: int = inner.nbytes

    @property
    def exported(self) -> bool:
        """True while something outside calor can see the memory."""
        return any(inner.exported for inner in list(self.places.values()))

    @property
    def home(self) -> int:
        """The member that has the value itself."""
        home: int = next(iter(self.places))
        return home

    def without_copies(self) -> None:
        """Forget the copies: they are made again where they are needed."""
        home = self.home
        self.places = {home: self.places[home]}
