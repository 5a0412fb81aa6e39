"""Object files as functions in this process.

Requirements: a function lives as long as its object, and is unloaded after the last reference.
External functions of a kernel (printf, and mathematics without an instruction) are found in the
process.
"""

from __future__ import annotations

import ctypes

from calor.errors import DeviceError
from calor_cpu.linking import link

_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class LoadedImage:
    """A kernel's object file in memory: its ``address``, and ``call(arguments, begin, end)``."""

    def __init__(self, image: bytes, name: str) -> None:
        messages = f"{name}.messages"
        checks = messages.encode() in image
        try:
            self._library = link(image, (name, messages) if checks else (name,))
        except RuntimeError as error:
            raise DeviceError(f"kernel {name!r} does not load: {error}") from error
        self.name = name
        self.address: int = self._library[name]
        self.call = _PROTOTYPE(self.address)
        self._messages: int = self._library[messages] if checks else 0

    def message(self, code: int) -> str:
        """Return the text of the assertion with a number from the error word."""
        if not self._messages:
            return f"kernel {self.name!r} failed with code {code}"
        place = ctypes.c_char_p.from_address(self._messages + 8 * (code - 1))
        return (place.value or b"").decode()
