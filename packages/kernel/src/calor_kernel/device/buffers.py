"""Buffers: the blocks of device memory that core holds for tensors.

Requirements: creating and dropping a buffer is on the path of every call, so it only takes from and
returns to the pool. An external view of the memory keeps the buffer alive and marked as exported.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, Final, Protocol

import numpy as np

from calor.counting import ONE_AT_A_TIME, count
from calor.errors import DeviceError
from calor.specs import Spec
from calor_kernel.device.outcomes import Part
from calor_kernel.device.protocol import Memory

Array = np.ndarray[Any, Any]


class Owner(Protocol):
    """The pool's interface to its buffers."""

    memory: Memory
    in_use: int

    def raw(self, nbytes: int) -> tuple[Any, int]:
        """Return the handle of an uncounted block, and its size class in bytes."""

    def give(self, handle: Any, room: int, nbytes: int) -> None:
        """Take back a block of a size class."""


# The stamp of a buffer whose contents may change without notice.
OPEN: Final = -1


class _Window:
    """Held by a view of a buffer's memory; it keeps the buffer alive."""

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
    """A block of device memory that holds one value.

    Attributes: ``handle``, the device's handle; ``nbytes``; ``idle``, the pool's list of idle
    blocks of its class, to which it returns; ``outcomes``, the fallible runs on which the contents
    depend; ``stamp``, a unique number of the contents, 0 if not assigned yet, OPEN if others may
    write at any time.
    """

    __slots__ = ("__weakref__", "_window", "handle", "idle", "nbytes", "outcomes", "pool", "stamp")

    def __init__(self, pool: Owner, handle: Any, idle: list[Any], nbytes: int) -> None:
        self.pool = pool
        self.handle = handle
        self.idle = idle
        self.nbytes = nbytes
        self.outcomes: tuple[Part, ...] = ()
        self.stamp = 0
        self._window: Callable[[], _Window | None] | None = None

    # Names of modules are gone when the last buffers of a process go; those of classes are not.
    _alone: ClassVar = ONE_AT_A_TIME
    _count: ClassVar = staticmethod(count)

    def __del__(self) -> None:
        # As Pool.give, without a call.
        self.idle.append(self.handle)
        if self._alone:
            self.pool.in_use -= self.nbytes
        else:
            self._count(self.pool, -self.nbytes)

    @property
    def exported(self) -> bool:
        """True while a NumPy view or a DLPack consumer sees the memory."""
        return self._window is not None and self._window() is not None

    def lend(self, address: int, writable: bool) -> _Window:
        """Return the token that external views hold; the buffer is exported while it lives."""
        window = None if self._window is None else self._window()
        if window is None:
            window = _Window(self, address)
            self._window = weakref.ref(window)
        window.writable = writable
        if writable:
            self.stamp = OPEN
        return window

    def keep_lent(self) -> None:
        """Mark the buffer as exported for the lifetime of the tensor.

        Dropping the tensor leaves a reference cycle of the buffer and its window, for the garbage
        collector.
        """
        window = self.lend(self.handle, writable=False)
        self._window = lambda: window

    def view(self, spec: Spec, *, writable: bool = False) -> Array | None:
        """Return an array on the buffer's memory; None if the host has no address of it."""
        address = self.pool.memory.address(self.handle)
        if address is None:
            return None
        window = self.lend(address, writable)
        return np.asarray(window).view(spec.dtype.numpy).reshape(spec.shape)


class AdoptedBuffer(KernelBuffer):
    """Host memory with another owner, who may read or write it at any time."""

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
    """Device memory owned by another library, which may write to it at any time."""

    __slots__ = ("owner",)

    exported = True

    def __init__(
        self, pool: Owner, handle: Any, nbytes: int, owner: Any, finish: Callable[[], None]
    ) -> None:
        super().__init__(pool, handle, [], nbytes)
        self.owner = owner
        self.stamp = OPEN
        # When the interpreter ends, nobody writes to the memory again, and modules may be gone.
        weakref.finalize(self, _await_reads, finish).atexit = False

    def __del__(self) -> None:
        """Leave the memory to its owner."""


def _await_reads(finish: Callable[[], None]) -> None:
    """Wait for all queued reads of a buffer that ends; its owner is dropped afterwards."""
    with suppress(DeviceError):
        finish()


class ShadowedBuffer(AdoptedBuffer):
    """An adopted array at an address that kernels cannot use: each use copies it."""

    __slots__ = ("_copy",)

    def __init__(self, pool: Owner, array: Array) -> None:
        super().__init__(pool, None, array)
        self._copy = pool.raw(array.nbytes)

    def __del__(self) -> None:
        """Free the copy's memory."""
        self.pool.give(*self._copy, 0)

    @property
    def handle(self) -> Any:
        """A copy of the array's current contents."""
        self.pool.memory.copy_in(self._copy[0], 0, self.array)
        return self._copy[0]

    @handle.setter
    def handle(self, none: None) -> None:
        """Do nothing; the base class sets it."""
