"""What a server's process keeps of the memory that it freed: what the system's allocator is told.

Requirements: a server is as large as what it holds, however many clients came and went. The GNU
allocator lets blocks of up to 32 MiB come from the heap of their thread once some were freed, and
keeps up to twice as much at the end of each heap for good: hundreds of megabytes that nobody has. A
process that serves and does nothing else says what is kept; a
program that starts a server in its own process is left alone, and so are settings of an operator.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

# The names of malloc.h: blocks from this size on are the system's, and so is more than this at the
# end of a heap.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_LARGE: Final = 1 << 20
# By which an operator sets the same.
_SET: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def give_back_freed_memory() -> bool:
    """Let the allocator give large blocks back when they are freed.

    Returns
    -------
    bool
        Whether it does so from now on: it is the GNU one, and no variable sets it otherwise.
    """
    if os.name != "posix" or any(name in os.environ for name in _SET):
        return False
    known = ctypes.CDLL(None)
    mallopt = getattr(known, "mallopt", None)
    # Others have a function of this name that does nothing.
    if mallopt is None or not hasattr(known, "gnu_get_libc_version"):
        return False
    return all(mallopt(name, _LARGE) == 1 for name in (_MMAP_THRESHOLD, _TRIM_THRESHOLD))
