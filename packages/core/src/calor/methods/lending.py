"""Host arrays that C code writes to, in :class:`calor.shared_views`: writes are carried back.

Requirements: ``scipy.ndimage.f(x, output=t)`` fills ``np.asarray(t)``. A tensor's memory may not
change under recorded operations, so the array is a copy. When it and all views of it are gone,
which is when the call returns, the elements that were changed are written to the tensor. As long as
the array lives, another ``np.asarray`` of the tensor is of the same memory.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

import numpy as np

from calor.functions.creation import asarray
from calor.recording.records import Leaf
from calor.recording.views import turns
from calor.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]


class _Lent:
    """Memory that holds a tensor's elements, and what they were."""

    __slots__ = ("before", "dtype", "memory", "tensor", "value")

    def __init__(self, tensor: Tensor, before: Array) -> None:
        # Strong: a slice that has no name is written through to its root when its array is gone.
        self.tensor = tensor
        self.value = tensor._value
        # A copy: who lent the memory to the tensor may write to it meanwhile.
        self.before = before.tobytes()
        self.dtype = before.dtype
        self.memory = bytearray(self.before)

    def write_back(self) -> None:
        """Write the elements that differ to the tensor."""
        if _lent.get(id(self.tensor), (None,))[0] is self:
            del _lent[id(self.tensor)]
        # Compared as bytes: a NaN that stays is no change, and −0.0 for 0.0 is one.
        size = self.dtype.itemsize
        was = np.frombuffer(self.before, np.uint8).reshape(-1, size)
        now = np.frombuffer(self.memory, np.uint8).reshape(-1, size)
        changed = (was != now).any(axis=1)
        if not changed.any():
            return
        with turns:
            array = self.tensor.numpy(copy=True)
            flat = array.reshape(-1)
            flat[changed] = np.frombuffer(self.memory, array.dtype)[changed]
            self.tensor[...] = asarray(array, device=self.tensor.device)


# What is lent of tensors that have arrays, and the array that is the base of all of these.
_lent: Final[dict[int, tuple[_Lent, weakref.ref[Array]]]] = {}


def lend(tensor: Tensor) -> Array | None:
    """Return a writable host array of a tensor's elements; None where it cannot be written back.

    Parameters
    ----------
    tensor : Tensor
        Any shape and dtype.

    Returns
    -------
    numpy.ndarray or None
        The shape and dtype of the tensor; None for one without elements, or for a leaf that
        requires gradients, which no write may change.
    """
    if not tensor.size or type(tensor._record) is Leaf:
        return None
    lent, known = _lent.get(id(tensor), (None, None))
    base = None if known is None else known()
    if base is None or lent is None or lent.value is not tensor._value:
        lent = _Lent(tensor, tensor.numpy())
        # Views of an array have as their base the array whose own base is none: this one.
        base = np.frombuffer(lent.memory, lent.dtype)
        weakref.finalize(base, lent.write_back).atexit = False
        _lent[id(tensor)] = (lent, weakref.ref(base))
    return base.reshape(tensor.shape)
