"""Values that wait on the host while others use a device: how they go there and come back.

Requirements: a backend that declares nothing has it by its own copies; one whose device copies
beside its work, from memory that it likes, overrides it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calor.specs import Spec

if TYPE_CHECKING:
    from calor.backends.capabilities import Info


class HostMemory:
    """The part of a backend for values that stream from the host."""

    if TYPE_CHECKING:

        def upload(self, index: int, array: np.ndarray[Any, Any]) -> Any: ...
        def download(self, index: int, buffer: Any, spec: Spec) -> np.ndarray[Any, Any]: ...
        def info(self, index: int) -> Info: ...

    def host_array(self, index: int, nbytes: int) -> np.ndarray[Any, Any]:
        """Return memory of the host that the device copies fast.

        Parameters
        ----------
        index : int
            The device.
        nbytes : int
            The size.

        Returns
        -------
        numpy.ndarray
            Bytes (uint8) of undefined values, of shape (nbytes,).
        """
        return np.empty(nbytes, np.uint8)

    def offload(self, index: int, buffer: Any, spec: Spec) -> np.ndarray[Any, Any]:
        """Return the contents of a buffer in memory of `host_array`, which has no other owner.

        Parameters
        ----------
        index : int
            The device.
        buffer : Buffer
            A buffer of this device.
        spec : Spec
            Shape and dtype of its value.

        Returns
        -------
        numpy.ndarray
            A contiguous array.
        """
        array = self.download(index, buffer, spec)
        return np.array(array, order="C") if self.info(index).feature("host_views") else array

    def unload(self, index: int, buffer: Any, spec: Spec) -> np.ndarray[Any, Any]:
        """Begin to copy the contents of a buffer to memory of `host_array`.

        The host may read them after `unloaded`. A `load` of the array need not wait for that, and
        the buffer may be freed at once.

        Parameters
        ----------
        index : int
            The device.
        buffer : Buffer
            A buffer of this device.
        spec : Spec
            Shape and dtype of its value.

        Returns
        -------
        numpy.ndarray
            A contiguous array.
        """
        return self.offload(index, buffer, spec)

    def unloaded(self, index: int) -> None:
        """Wait until the arrays of `unload` have their contents.

        Parameters
        ----------
        index : int
            The device.
        """

    def load(self, index: int, array: np.ndarray[Any, Any]) -> Any:
        """Begin to copy a host array to a new buffer; programs may read that after `loaded`.

        Parameters
        ----------
        index : int
            The device.
        array : numpy.ndarray
            A contiguous array that never changes again.

        Returns
        -------
        Buffer
            The buffer.
        """
        return self.upload(index, array)

    def loaded(self, index: int, buffers: Sequence[Any] | None = None) -> None:
        """Let programs that are called from now on wait for loads.

        Parameters
        ----------
        index : int
            The device.
        buffers : sequence of Buffer, optional
            The buffers that they read; all that are under way by default.
        """
