"""The memory of a router: a value lies on one member, and as a copy on others that read it.

Requirements: reading a value's buffer on a member is one look at a slot, which compiled calls do
too; another thread that reads meanwhile sees a whole buffer or none. A value may lie on the host
instead, from where members with a memory limit load it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Final

import numpy as np

from calor.backends.device import Device
from calor.counting import count

# The place of a value in host memory, beside the members by number.
HOST: Final = -1


class HostBytes:
    """The bytes of a router's values on the host."""

    __slots__ = ("in_use",)

    def __init__(self) -> None:
        self.in_use = 0


class HostBuffer:
    """An array on the host that nothing else refers to.

    Parameters
    ----------
    array : numpy.ndarray
        The contents.
    counts : HostBytes
        Where the bytes are counted while the buffer lives.
    source : Device, optional
        The device from which the contents are on their way.
    """

    __slots__ = ("_array", "counts", "source")
    exported: Final = False

    def __init__(
        self, array: np.ndarray[Any, Any], counts: HostBytes, source: Device | None = None
    ) -> None:
        self._array = array
        self.counts = counts
        self.source = source
        count(counts, array.nbytes)

    # Names of modules are gone when the last buffers of a process go; those of classes are not.
    _count: ClassVar = staticmethod(count)

    def __del__(self) -> None:
        self._count(self.counts, -self._array.nbytes)

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self._array.nbytes

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The contents, which are waited for."""
        source, self.source = self.source, None
        if source is not None:
            source.backend.unloaded(source.index)
        return self._array

    def for_load(self, device: Device) -> np.ndarray[Any, Any]:
        """Return the contents for a load to a device: those from there need not have come."""
        return self._array if device is self.source else self.array


class RoutedBuffer:
    """A value on one place or more; `buffer_type` has the class for a number of members.

    A place is a member, by its number in the router's name, or `HOST`. The buffer on a place is in
    a slot named by ``slots``; an empty slot reads as None.

    Parameters
    ----------
    place : int
        The place that has the value.
    inner : Buffer
        The buffer there.

    Attributes
    ----------
    sole : int or None
        The place that has the value if it is the only one, else None.
    """

    __slots__ = ("__weakref__", "_origin", "sole")

    sole: int | None
    _origin: int

    # The slots' names by place; that of the host is the last one.
    slots: ClassVar[tuple[str, ...]] = ()

    def __init__(self, place: int, inner: Any) -> None:
        self.sole = place
        setattr(self, self.slots[place], inner)

    def __getattr__(self, name: str) -> None:
        if name not in self.slots:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def on(self, place: int) -> Any:
        """Return the buffer on a place, or None."""
        return getattr(self, self.slots[place])

    @property
    def home(self) -> int:
        """The place that has the value itself; the others have copies."""
        sole = self.sole
        return self._origin if sole is None else sole

    @property
    def inner(self) -> Any:
        """The value's own buffer."""
        while (found := getattr(self, self.slots[self.home])) is None:
            # Another thread has just settled the value elsewhere.
            pass
        return found

    @property
    def nbytes(self) -> int:
        """The size in bytes of one of the buffers."""
        nbytes: int = self.inner.nbytes
        return nbytes

    @property
    def exported(self) -> bool:
        """True while something outside calor can see the memory."""
        return any(inner.exported for _, inner in self.places)

    @property
    def places(self) -> list[tuple[int, Any]]:
        """The places that have a buffer, with it."""
        found = ((place, self.on(place)) for place in range(HOST, len(self.slots) - 1))
        return [(place, inner) for place, inner in found if inner is not None]

    def add(self, place: int, inner: Any) -> None:
        """Keep a copy on a place."""
        self._origin = self.home
        self.sole = None
        setattr(self, self.slots[place], inner)

    def drop(self, place: int) -> None:
        """Forget the copy on a place, which is not the value's home."""
        if self.on(place) is not None:
            delattr(self, self.slots[place])
        if len(self.places) == 1:
            self.sole = self._origin

    def settle(self, place: int, inner: Any) -> None:
        """Let the value be on one place alone, in a buffer that may be a new one."""
        # Who reads meanwhile finds one of the buffers.
        setattr(self, self.slots[place], inner)
        self._origin = place
        self.sole = None
        self.without_copies()

    def without_copies(self) -> None:
        """Forget the copies: they are made again where they are needed."""
        home = self.home
        for place, _ in self.places:
            if place != home:
                self.drop(place)
        self.sole = home


@cache
def buffer_type(members: int) -> type[RoutedBuffer]:
    """Return the class of the values of a router with so many members.

    >>> buffer_type(2).slots
    ('at0', 'at1', 'host')
    """
    slots = (*(f"at{n}" for n in range(members)), "host")
    return type("RoutedBuffer", (RoutedBuffer,), {"__slots__": slots, "slots": slots})
