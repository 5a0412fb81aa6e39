"""Garbage collections that are quick, although a run keeps many objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Whether it is so already; asking gc for its frozen objects counts them one by one.
_quick = False


@contextmanager
def quick_collections() -> Iterator[None]:
    """Look through objects that are made from now on alone; nothing from before is collected."""
    global _quick
    if _quick:
        yield
        return
    _quick = True
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        _quick = False
