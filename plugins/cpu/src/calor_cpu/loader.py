"""Object files as functions in this process.

Requirements: a function lives as long as its object does; unloading is LLVM's when nothing refers
to it any more; what a kernel calls (printf, and mathematics where the processor lacks an
instruction) is found in the process.
"""

from __future__ import annotations

import ctypes
from functools import cache
from itertools import count
from typing import Any

from calor.errors import DeviceError
from calor_cpu.llvm import binding

_NUMBERS = count()
_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@cache
def _linker() -> Any:
    return binding().create_lljit_compiler()


class LoadedImage:
    """A kernel's object file in memory: ``address`` and ``call(arguments, begin, end)``.

    ``failed`` is the address of a pointer to the message of a failed assertion, 0 without any.
    """

    def __init__(self, image: bytes, name: str) -> None:
        marker = f"{name}.failed"
        builder = binding().JITLibraryBuilder().add_object_img(image).add_current_process()
        builder.export_symbol(name)
        checks = marker.encode() in image
        if checks:
            builder.export_symbol(marker)
        try:
            self._library = builder.link(_linker(), f"{name}.{next(_NUMBERS)}")
        except RuntimeError as error:
            raise DeviceError(f"kernel {name!r} does not load: {error}") from error
        self.name = name
        self.address: int = self._library[name]
        self.call = _PROTOTYPE(self.address)
        self.failed: int = self._library[marker] if checks else 0

    def failure(self) -> str | None:
        """Return the message of an assertion that failed since the last call, if one did."""
        if not self.failed:
            return None
        place = ctypes.c_void_p.from_address(self.failed)
        if not place.value:
            return None
        message, place.value = ctypes.string_at(place.value).decode(), None
        return message
