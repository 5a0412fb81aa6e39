"""The memory of members that have a limit: what lies there, and who makes room.

Requirements: the bytes in use on a member stay within its limit, whatever values programs leave
there; a value that makes room is not lost, it goes to the host and comes back when it is read.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np

from calor.backends.device import Device
from calor.specs import Spec
from calor_router.buffer import HOST, HostBuffer, HostBytes, RoutedBuffer

Array = np.ndarray[Any, Any]


class Owner(Protocol):
    """The backend of a router, as its rooms see it."""

    members: tuple[Device, ...]

    def count(self, nbytes: int) -> None:
        """Count a value that was moved."""
        ...


class Rooms:
    """The limits of a router's members, and the values on those that have one.

    Parameters
    ----------
    backend : Owner
        The router.
    limits : sequence of int or None
        The most bytes in use on each member; None where only the member's own limit counts.

    Attributes
    ----------
    lock : threading.RLock
        Held by a call of a program that reads from or writes to a member with a limit.
    host : HostBytes
        The bytes of values on the host.
    """

    def __init__(self, backend: Owner, limits: Sequence[int | None]) -> None:
        self._backend = backend
        self.limits = tuple(limits)
        self.limited = any(limit is not None for limit in limits)
        self.lock = threading.RLock()
        self.host = HostBytes()
        # The values on each member by identity, the one that was read longest ago first.
        self._there: list[OrderedDict[int, tuple[weakref.ref[Any], Spec]]] = [
            OrderedDict() for _ in limits
        ]

    def note(self, buffer: RoutedBuffer, member: int, spec: Spec) -> None:
        """Remember that a value lies on a member and was read now."""
        if member == HOST or self.limits[member] is None:
            return
        there, key = self._there[member], id(buffer)
        there[key] = weakref.ref(buffer, lambda _: there.pop(key, None)), spec
        there.move_to_end(key)

    def free(self, member: int) -> int | None:
        """Return the bytes that may still be used on a member; None if it has no limit."""
        limit = self.limits[member]
        return None if limit is None else limit - self._backend.members[member].memory.in_use

    def make(self, member: int, nbytes: int, keep: Collection[int] = ()) -> bool:
        """Make room for bytes on a member, and tell whether there is.

        Parameters
        ----------
        member : int
            The member.
        nbytes : int
            The bytes.
        keep : collection of int
            The identities of values that have to stay.

        Returns
        -------
        bool
            True if the bytes fit now.
        """
        free = self.free(member)
        if free is None or free >= nbytes:
            return True
        found = [(ref(), spec) for key, (ref, spec) in [*self._there[member].items()]
                 if key not in keep]  # fmt: skip
        # Copies first: nothing is moved for them.
        for copies in (True, False):
            for buffer, spec in found:
                if buffer is None or (buffer.home != member) is not copies:
                    continue
                if copies or not buffer.exported:
                    self.leave(buffer, member, spec)
                free = self.free(member)
                if free is None or free >= nbytes:
                    return True
        return False

    def leave(self, buffer: RoutedBuffer, member: int, spec: Spec, late: bool = False) -> None:
        """Take a value off a member; it goes to the host if it is nowhere else.

        Parameters
        ----------
        buffer : RoutedBuffer
            The value.
        member : int
            The member.
        spec : Spec
            The value's shape and dtype.
        late : bool, optional
            Whether a copy to the host may be under way on return; see `Backend.unload`.
        """
        self._there[member].pop(id(buffer), None)
        if buffer.on(member) is None:
            return
        if buffer.home == member:
            self.to_host(buffer, spec, late)
        else:
            buffer.drop(member)

    def to_host(self, buffer: RoutedBuffer, spec: Spec, late: bool = False) -> None:
        """Let a value be on the host alone."""
        if buffer.home == HOST:
            buffer.without_copies()
            return
        member = self._backend.members[buffer.home]
        copied = member.backend.unload if late else member.backend.offload
        array = copied(member.index, buffer.inner, spec)
        buffer.settle(HOST, HostBuffer(array, self.host, member if late else None))
        self._backend.count(spec.nbytes)

    def on_host(self, buffer: RoutedBuffer, spec: Spec) -> Array:
        """Return a copy of a value's contents."""
        if buffer.home == HOST:
            return as_spec(buffer.inner.array, spec).copy()
        member = self._backend.members[buffer.home]
        array = member.backend.download(member.index, buffer.inner, spec)
        return np.array(array, order="C") if member.info.feature("host_views") else array

    def kept(self, array: Array) -> HostBuffer:
        """Return a copy of an array, which waits on the host until a member reads it."""
        member = next(
            (m for m, limit in zip(self._backend.members, self.limits, strict=True)
             if limit is not None),
            self._backend.members[0],
        )  # fmt: skip
        room = member.backend.host_array(member.index, array.nbytes)
        made = room.view(array.dtype).reshape(array.shape)
        np.copyto(made, array)
        return HostBuffer(made, self.host)


def as_spec(array: Array, spec: Spec) -> Array:
    """Return the bytes of a dense array as those of a spec."""
    if array.dtype == spec.dtype.numpy and array.shape == spec.shape:
        return array
    return array.reshape(-1).view(spec.dtype.numpy).reshape(spec.shape)
