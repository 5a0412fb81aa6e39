"""Fast garbage collection while a run keeps many objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Whether objects are frozen already; gc.get_freeze_count counts them one by one.
_quick = False


@contextmanager
def paused_collections() -> Iterator[None]:
    """Collect no garbage in a block that makes many objects that stay."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


@contextmanager
def quick_collections() -> Iterator[None]:
    """Exclude the objects that exist now from later garbage collections."""
    global _quick
    if _quick:
        yield
        return
    _quick = True
    frozen = gc.get_freeze_count()
    gc.freeze()
    try:
        yield
    finally:
        _quick = False
        # What the caller froze stays frozen.
        if not frozen:
            gc.unfreeze()
