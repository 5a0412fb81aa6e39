"""Object files as functions in this process.

Requirements: a function lives as long as its object; LLVM unloads it after the last reference.
External functions of a kernel (printf, and mathematics without an instruction) are found in the
process.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from itertools import count
from typing import Any

from calor.errors import DeviceError
from calor_cpu.llvm import binding

_NUMBERS = count()
_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@cache
def _linker() -> Any:
    # JITLink keeps the sections of an object together, so that they reach each other in a process
    # with much memory too. On Windows, LLVM's older linker is better maintained.
    return binding().create_lljit_compiler(use_jit_link=sys.platform != "win32")


class LoadedImage:
    """A kernel's object file in memory: its ``address``, and ``call(arguments, begin, end)``."""

    def __init__(self, image: bytes, name: str) -> None:
        messages = f"{name}.messages"
        checks = messages.encode() in image
        builder = binding().JITLibraryBuilder().add_object_img(image).add_current_process()
        for symbol in (name, messages) if checks else (name,):
            builder.export_symbol(symbol)
        try:
            self._library = builder.link(_linker(), f"{name}.{next(_NUMBERS)}")
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
