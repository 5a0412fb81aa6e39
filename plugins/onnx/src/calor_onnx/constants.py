"""Constants of a model: weights that stay in the file until a device takes them.

Requirements: a weight goes from the file's pages to the device once, without a copy in between.
Packed elements, and types that devices lack, are converted on demand.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from calor_onnx.scratch import Room
from calor_onnx.types import HostType

Array = np.ndarray[Any, Any]
# Constants with more elements are on the device only; smaller ones are also on the host.
HOST_LIMIT = 4096


class Constant:
    """A constant of a graph: type, shape, and access to its elements.

    ``array()`` returns the elements as a host array, from the file until a device holds them.
    ``read`` computes that array, in memory from its argument if needed. ``tensor`` is the device's
    copy, or None.
    """

    __slots__ = ("_read", "derived", "dtype", "shape", "tensor")

    def __init__(
        self, dtype: HostType, shape: tuple[int, ...], read: Callable[[Room], Array]
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.tensor: Any = None
        # Small tensors that operators derive from it once, by name.
        self.derived: dict[str, Any] = {}
        self._read: Callable[[Room], Array] | Array = read

    @classmethod
    def of(cls, array: Array) -> Constant:
        """Return the constant of a host array."""
        made = cls(array.dtype, array.shape, lambda _: array)
        made._read = array
        return made

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def small(self) -> bool:
        """Whether the host keeps the elements, so that shape computation can use them."""
        return self.size <= HOST_LIMIT

    def array(self, room: Room = np.empty) -> Array:
        """Return the elements as a read-only host array.

        Computed elements of a large constant are in memory from ``room`` and valid as long as it
        is.
        """
        if callable(self._read):
            if self.tensor is not None:
                from calor_onnx.values import to_host

                return to_host(self.tensor)
            found = self._read(np.empty if self.small else room)
            if not self.small:
                return found
            # A writable array could change the file's pages.
            self._read = np.array(found)
        return self._read

    def held_by(self, tensor: Any) -> None:
        """Store the device's copy; the host's copy of a large constant is dropped."""
        self.tensor = tensor
        if not self.small:
            self._read = tensor_only

    def __repr__(self) -> str:
        return f"Constant({self.dtype.name}, {self.shape})"


def tensor_only(_: Room) -> Array:
    """Replace the file's elements once a device holds them."""
    raise AssertionError("a device holds this constant")
