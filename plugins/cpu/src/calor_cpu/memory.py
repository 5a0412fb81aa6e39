"""Host memory as a device's memory.

Requirements: a handle is an address, so a run converts nothing. Large pieces are aligned to pages
of 2 MiB and request huge pages, because a page fault for each 4 KiB costs more than the arithmetic.
Exhausted memory is a typed error.
"""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path
from typing import Any, Final

import numpy as np

from calor.errors import OutOfMemoryError
from calor.units import bytes_text
from calor_kernel.device.protocol import Memory

ALIGN: Final = 64
_HUGE: Final = 2 << 20
_ADVICE: Final[int | None] = getattr(mmap, "MADV_HUGEPAGE", None)
# Python's mappings are shared by default. Shared mappings have no huge pages, and a forked child
# would change its parent's tensors.
_OWN: Final[dict[str, int]] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
)


def _available() -> str:
    """Return how much memory the system can give, for a message."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        (kibibytes,) = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError):
        # A system other than Linux, or one that tells nobody.
        return "less"
    return f"{bytes_text(int(kibibytes) << 10)} free"


class CpuMemory(Memory):
    """Memory of this process; a handle is an address, and so is a part of a piece."""

    def __init__(self) -> None:
        self._pieces: dict[int, Any] = {}

    def alloc(self, nbytes: int) -> int:
        """Return the address of a piece, aligned to 64 bytes; large pieces are zeroed."""
        try:
            address, piece = _mapped(nbytes) if nbytes >= _HUGE else _small(nbytes)
        except (MemoryError, OSError, ValueError, OverflowError) as error:
            raise OutOfMemoryError(
                f"a tensor needs {bytes_text(nbytes)}, the host has {_available()}; free tensors, "
                f"or compute in smaller parts"
            ) from error
        self._pieces[address] = piece
        return address

    def free(self, handle: int) -> None:
        """Return a piece to the system."""
        del self._pieces[handle]

    def copy_in(self, handle: int, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous host array into a piece."""
        ctypes.memmove(handle + offset, _address(array), array.nbytes)

    def write(self, handle: int, data: bytes) -> None:
        """Copy bytes to the start of a piece."""
        # ctypes.memmove releases the interpreter's lock, and the run might wait long for it.
        (ctypes.c_char * len(data)).from_address(handle).raw = data

    def copy_out(self, handle: int, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Copy from a piece into a contiguous host array."""
        ctypes.memmove(_address(array), handle + offset, array.nbytes)

    def copy(self, target: int, at: int, source: int, offset: int, nbytes: int) -> None:
        """Copy between pieces, which may overlap."""
        ctypes.memmove(target + at, source + offset, nbytes)

    def address(self, handle: int) -> int:
        """Return the handle."""
        return handle

    def part(self, handle: int, offset: int, nbytes: int) -> int:
        """Return the address inside of a piece."""
        return handle + offset

    def adopt(self, address: int, nbytes: int) -> int:
        """Return the address: kernels can use any memory of the process."""
        return address


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _small(nbytes: int) -> tuple[int, Any]:
    raw = np.empty(nbytes + ALIGN, np.uint8)
    start = _address(raw)
    return start + -start % ALIGN, raw


def _mapped(nbytes: int) -> tuple[int, Any]:
    """Return memory of its own pages; the view owns the mapping."""
    pages = mmap.mmap(-1, nbytes + _HUGE, **_OWN)
    raw = np.frombuffer(pages, np.uint8)
    start = _address(raw)
    shift = -start % _HUGE
    if _ADVICE is not None:
        whole = nbytes // _HUGE * _HUGE
        pages.madvise(_ADVICE, shift, whole)
    return start + shift, raw
