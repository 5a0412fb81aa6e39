"""CuPy's arrays on an imitated driver, whose memory is the host's: what DLPack asks of them.

Requirements: capsules and arrays are made while a device and a stream are CuPy's current ones, as
CuPy finds them; who takes an array over sees what was queued on the stream that made it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np


class ImitatedCupy:
    """CuPy's names. ``kind``: the devices' type in DLPack; ``take``: what gives their memory."""

    def __init__(self, runtime: Any, kind: int, take: Callable[[int], int]) -> None:
        self.runtime = runtime
        self.take = take
        self.kind = kind
        self.device: int | None = None
        self.stream: int | None = None
        self.cuda = SimpleNamespace(
            Device=self._current_device,
            Stream=SimpleNamespace(from_external=self._current_stream),
            UnownedMemory=lambda *given: given,
            MemoryPointer=lambda memory, offset: (*memory, offset),
        )

    @contextmanager
    def _current_device(self, number: int) -> Iterator[None]:
        self.device = number
        yield
        self.device = None

    @contextmanager
    def _current_stream(self, given: Any) -> Iterator[None]:
        self.stream = given.__cuda_stream__()[1]
        yield
        self.stream = None

    def wait(self) -> None:
        """Let the current stream finish: its event, which CuPy has another stream wait for."""
        assert self.device is not None
        self.runtime.setDevice(self.device)
        self.runtime.streamSynchronize(self.stream)

    def ndarray(self, shape: tuple[int, ...], dtype: Any, pointer: tuple[Any, ...]) -> Array:
        """Return an array on memory of the device."""
        address, nbytes, owner, number, offset = pointer
        assert number == self.device
        count = int(np.prod(shape, dtype=np.int64))
        held = (ctypes.c_char * nbytes).from_address(address + offset)
        return Array(self, np.frombuffer(held, dtype, count).reshape(shape), number, owner)

    def from_dlpack(self, given: Any) -> Array:
        """Return an array of another library: one that was made here."""
        kind, number = given.__dlpack_device__()
        assert (kind, number) == (self.kind, self.device)
        self.wait()
        return Array(self, given.array, number, given)

    def ascontiguousarray(self, given: Array) -> Array:
        """Return a dense copy in memory of the device, which stays taken."""
        self.wait()
        dense = np.ascontiguousarray(given.array)
        address = self.take(dense.nbytes)
        ctypes.memmove(address, dense.ctypes.data, dense.nbytes)
        pointer = (address, dense.nbytes, None, given.number, 0)
        return self.ndarray(dense.shape, dense.dtype, pointer)


class Array:
    """An array, as far as exchange looks at it."""

    def __init__(self, cupy: ImitatedCupy, array: Any, number: int, owner: Any) -> None:
        self.cupy = cupy
        self.array = array
        self.number = number
        self.owner = owner
        self.shape, self.dtype = array.shape, array.dtype
        self.flags = SimpleNamespace(c_contiguous=array.flags.c_contiguous)
        self.data = SimpleNamespace(ptr=array.__array_interface__["data"][0])

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.cupy.kind, self.number

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        """Return a capsule, which NumPy reads: the memory is the host's."""
        self.cupy.wait()
        return self.array.__dlpack__(max_version=max_version)
