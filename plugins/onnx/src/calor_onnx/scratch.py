"""Memory for weights that are computed before their upload; it goes back to the system.

Requirements: a model's peak is its weights and its computation, without a second copy of the
largest weight, so the memory of a computed weight must be freed. Fresh pages cost more than the
arithmetic, so one piece serves many weights. An allocator would keep pieces of some megabytes:
glibc stops to map pieces as large as one that was freed.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from calor_onnx.types import HostType

Array = np.ndarray[Any, Any]
# Allocates an uninitialized array.
Room = Callable[[tuple[int, ...], HostType], Array]

# The allocator serves smaller arrays; it keeps little memory for them.
MAPPED: Final = 1 << 20
_LARGE: Final = 2 << 20
_ADVICE: Final[int | None] = getattr(mmap, "MADV_HUGEPAGE", None)


class Scratch:
    """One piece of memory, for one array at a time.

    The piece has the size of its first array, and is freed for one with less than half of it.
    Arrays in descending order of size leave nothing behind.
    """

    def __init__(self) -> None:
        self._pages: mmap.mmap | None = None

    def room(self, shape: tuple[int, ...], dtype: HostType) -> Array:
        """Return an uninitialized array, valid until the next call.

        >>> import numpy as np
        >>> from calor_onnx.scratch import Scratch
        >>> Scratch().room((2, 3), np.dtype(np.float32)).shape
        (2, 3)
        """
        count = prod(shape)
        nbytes = count * dtype.itemsize
        pages = self._pages
        if pages is None or not len(pages) // 2 <= nbytes <= len(pages):
            # The old piece is freed before the new one is allocated.
            self._pages = pages = None
            if nbytes < MAPPED:
                return np.empty(shape, dtype)
            self._pages = pages = _mapped(nbytes)
        return np.frombuffer(pages, dtype, count).reshape(shape)


def _mapped(nbytes: int) -> mmap.mmap:
    pages = mmap.mmap(-1, nbytes)
    if _ADVICE is not None and nbytes >= _LARGE:
        pages.madvise(_ADVICE)
    return pages
