"""What a backend may have beside `upload`: values that come without passing through the host."""

from __future__ import annotations

from typing import Any

from calor.backends.buffer import Buffer
from calor.specs import Spec


class Receives:
    """The part of a backend for values of other backends."""

    def receive(self, index: int, source: Any, buffer: Any, spec: Spec) -> Buffer | None:
        """Return a copy of a value of another backend, which the host does not see.

        Parameters
        ----------
        index : int
            The device to copy to.
        source : Device
            The device that has the value.
        buffer : Buffer
            The buffer of that device.
        spec : Spec
            Shape and dtype of the value.

        Returns
        -------
        Buffer or None
            A new buffer; None, the default, if there is no such way. Core then downloads the value
            and uploads it.
        """
        return None
