"""Buffers: the pieces of device memory that core holds for tensors.

Requirements: making one and dropping one is on the path of every call, so it does no more than take
from and give to the pool; who sees the memory from outside keeps the buffer alive and marks it as
exported, for as long as a view lives.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

import numpy as np

from calor.errors import DeviceError
from calor.specs import Spec
from calor_kernel.device.outcomes import Part
from calor_kernel.device.protocol import Memory

Array = np.ndarray[Any, Any]


class Owner(Protocol):
    """What buffers ask of the pool that they belong to."""

    memory: Memory
    in_use: int

    def raw(self, nbytes: int) -> tuple[Any, int]:
        """Return the handle of a piece that is not counted, and its size class in bytes."""

    def give(self, handle: Any, room: int, nbytes: int) -> None:
        """Take a piece of a size class back."""


# The stamp of a buffer whose contents change without anybody's saying so.
OPEN: Final = -1


class _Window:
    """What a view of a buffer's memory holds: the buffer, for as long as the view lives."""

    def __init__(self, buffer: KernelBuffer, address: int) -> None:
        self.buffer = buffer
        self.address = address
        self.writable = False

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "data": (self.address, not self.writable),
            "shape": (self.buffer.nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


class KernelBuffer:
    """A piece of a device's memory that holds one value.

    Attributes: ``handle``, what the device knows it by; ``nbytes``; ``idle``, the pool's list of
    pieces of its class, to which it returns; ``outcomes``, what the contents depend on that may
    have failed; ``stamp``, a number that no other contents have, 0 where none was given yet, OPEN
    where somebody else may write at any time.
    """

    __slots__ = (
        "__weakref__",
        "_window",
        "handle",
        "idle",
        "nbytes",
        "outcomes",
        "pool",
        "stamp",
    )

    def __init__(self, pool: Owner, handle: Any, idle: list[Any], nbytes: int) -> None:
        self.pool = pool
        self.handle = handle
        self.idle = idle
        self.nbytes = nbytes
        self.outcomes: tuple[Part, ...] = ()
        self.stamp = 0
        self._window: Callable[[], _Window | None] | None = None

    def __del__(self) -> None:
        # As Pool.give, without a call.
        self.idle.append(self.handle)
        self.pool.in_use -= self.nbytes

    @property
    def exported(self) -> bool:
        """True while a NumPy view or a DLPack consumer sees the memory."""
        return self._window is not None and self._window() is not None

    def lend(self, address: int, writable: bool) -> _Window:
        """Return what others hold who see the memory; the buffer is exported while it lives."""
        window = None if self._window is None else self._window()
        if window is None:
            window = _Window(self, address)
            self._window = weakref.ref(window)
        window.writable = writable
        if writable:
            self.stamp = OPEN
        return window

    def keep_lent(self) -> None:
        """Count as exported from now on: others see the memory for as long as they see the tensor.

        Dropping the tensor leaves a cycle of the buffer and its window, which a collector finds.
        """
        window = self.lend(self.handle, writable=False)
        self._window = lambda: window

    def view(self, spec: Spec, *, writable: bool = False) -> Array | None:
        """Return an array on the buffer's memory; None where the host has no address."""
        address = self.pool.memory.address(self.handle)
        if address is None:
            return None
        window = self.lend(address, writable)
        return np.asarray(window).view(spec.dtype.numpy).reshape(spec.shape)


class AdoptedBuffer(KernelBuffer):
    """Host memory that somebody else owns, and may look at or write to at any time."""

    __slots__ = ("array",)

    exported = True

    def __init__(self, pool: Owner, handle: Any, array: Array) -> None:
        super().__init__(pool, handle, [], array.nbytes)
        self.array = array
        self.stamp = OPEN

    def __del__(self) -> None:
        """Leave the memory to its owner."""

    def view(self, spec: Spec, *, writable: bool = False) -> Array:
        """Return a view of the array."""
        made = self.array.view()
        made.flags.writeable = writable and made.flags.writeable
        return made


class ForeignBuffer(KernelBuffer):
    """Memory of the device that another library owns, and may write to at any time."""

    __slots__ = ("finish", "owner")

    exported = True

    def __init__(
        self, pool: Owner, handle: Any, nbytes: int, owner: Any, finish: Callable[[], None]
    ) -> None:
        super().__init__(pool, handle, [], nbytes)
        self.owner = owner
        self.finish = finish
        self.stamp = OPEN

    def __del__(self) -> None:
        """Leave the memory to its owner, when nothing that was queued reads it any more."""
        with suppress(DeviceError):
            self.finish()


class ShadowedBuffer(AdoptedBuffer):
    """An adopted array at an address that kernels cannot use: each use reads it anew."""

    __slots__ = ("_copy",)

    def __init__(self, pool: Owner, array: Array) -> None:
        super().__init__(pool, None, array)
        self._copy = pool.raw(array.nbytes)

    def __del__(self) -> None:
        """Give back the copy's memory."""
        self.pool.give(*self._copy, 0)

    @property
    def handle(self) -> Any:
        """A copy of the array as it is now."""
        self.pool.memory.copy_in(self._copy[0], 0, self.array)
        return self._copy[0]

    @handle.setter
    def handle(self, none: None) -> None:
        """There is nothing to set; the base class does."""
