"""The memory of a remote device as a client has it: a number that the server knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from calor_http.errors import LeaseLostError


class RemoteBuffer:
    """A value on the server.

    Parameters
    ----------
    number : int
        The number that the server knows it by.
    era : int
        Which of the client's sessions has it.
    index : int
        The device.
    nbytes : int
        Its size in bytes.
    dropped : callable
        Called with the buffer's number when nobody has it any more, by any thread, at any time.

    Attributes
    ----------
    kept : numpy.ndarray or None
        The contents, if a restart of the server is to be survived.
    """

    __slots__ = ("__weakref__", "_dropped", "era", "index", "kept", "nbytes", "number")

    exported: Final = False

    def __init__(
        self, number: int, era: int, index: int, nbytes: int, dropped: Callable[..., None]
    ) -> None:
        self.number = number
        self.era = era
        self.index = index
        self.nbytes = nbytes
        self.kept: np.ndarray[Any, Any] | None = None
        self._dropped = dropped

    def __del__(self) -> None:
        self._dropped(self)

    def at(self, era: int) -> int:
        """Return the number; LeaseLostError if the session that had the value is gone."""
        if self.era != era:
            raise LeaseLostError(
                f"a value of {self.nbytes} bytes was lost with the server's session; make it anew"
            )
        return self.number
