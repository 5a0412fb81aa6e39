"""Constants of a model: weights that stay in the file until a device takes them.

Requirements: a weight is read once, from the file's pages to the device, with no copy between;
elements that are packed or of types that devices lack are converted when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from calor_onnx.scratch import Room
from calor_onnx.types import HostType

Array = np.ndarray[Any, Any]
# Constants of more elements are held by the device, smaller ones by the host too.
HOST_LIMIT = 4096


class Constant:
    """A constant of a graph: type and shape, and a way to its elements.

    ``array()`` gives the elements as a host array, from the file as long as no device holds them.
    ``read`` makes that array, in memory that its argument gives where it computes one.
    ``tensor`` is the device's, None before it was asked for.
    """

    __slots__ = ("_read", "derived", "dtype", "shape", "tensor")

    def __init__(
        self, dtype: HostType, shape: tuple[int, ...], read: Callable[[Room], Array]
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.tensor: Any = None
        # Small tensors of the device that operators make of it once, by what they are.
        self.derived: dict[str, Any] = {}
        self._read: Callable[[Room], Array] | Array = read

    @classmethod
    def of(cls, array: Array) -> Constant:
        """Return the constant of a host array, which it holds."""
        made = cls(array.dtype, array.shape, lambda _: array)
        made._read = array
        return made

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def small(self) -> bool:
        """Whether the host holds it, so that shape computation can use it."""
        return self.size <= HOST_LIMIT

    def array(self, room: Room = np.empty) -> Array:
        """Return the elements as a host array, which must not be written to.

        Where they are computed and the constant is not small, they are in the memory that ``room``
        gives, and as long as that says.
        """
        if callable(self._read):
            if self.tensor is not None:
                from calor_onnx.values import to_host

                return to_host(self.tensor)
            found = self._read(np.empty if self.small else room)
            if not self.small:
                return found
            # Pages of a file would change with it.
            self._read = np.array(found)
        return self._read

    def held_by(self, tensor: Any) -> None:
        """Note the device's copy; the host's of a large constant is let go."""
        self.tensor = tensor
        if not self.small:
            self._read = tensor_only

    def __repr__(self) -> str:
        return f"Constant({self.dtype.name}, {self.shape})"


def tensor_only(_: Room) -> Array:
    """Stand for the file once a device holds the elements."""
    raise AssertionError("a device holds this constant")
