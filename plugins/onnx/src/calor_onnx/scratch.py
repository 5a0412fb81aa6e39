"""Memory for weights that are computed on their way to the device, which goes back to the system.

Requirements: a model's peak is its weights and what it computes, not these and the largest weight
once more, so what such a weight was written to must not stay; and as fresh pages cost more than the
arithmetic, one piece serves many weights. An allocator would keep a piece of some megabytes for
good: glibc's no longer maps what is as large as a piece that was freed.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from calor_onnx.types import HostType

Array = np.ndarray[Any, Any]
# Makes an array without contents.
Room = Callable[[tuple[int, ...], HostType], Array]

# Smaller arrays are the allocator's, which keeps little for them.
MAPPED: Final = 1 << 20
_LARGE: Final = 2 << 20
_ADVICE: Final[int | None] = getattr(mmap, "MADV_HUGEPAGE", None)


class Scratch:
    """One piece of memory for one array at a time.

    It is as large as the array that it was made for, and is given back for one that needs less than
    half of it: arrays that come by size, the largest first, leave nothing behind.
    """

    def __init__(self) -> None:
        self._pages: mmap.mmap | None = None

    def room(self, shape: tuple[int, ...], dtype: HostType) -> Array:
        """Return an array without contents, which is good until the next one is asked for.

        >>> import numpy as np
        >>> from calor_onnx.scratch import Scratch
        >>> Scratch().room((2, 3), np.dtype(np.float32)).shape
        (2, 3)
        """
        count = prod(shape)
        nbytes = count * dtype.itemsize
        pages = self._pages
        if pages is None or not len(pages) // 2 <= nbytes <= len(pages):
            # The old piece goes before the new one comes.
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
