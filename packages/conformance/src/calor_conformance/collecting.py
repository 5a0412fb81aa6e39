"""Fast garbage collection while a run keeps many objects.

Checks leave hundreds of objects each, as plans and oracles that are kept, so that late in a run one
look through all of them would take longer than most checks.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Whether a run has frozen what there is, and whether others have: gc.get_freeze_count counts the
# objects one by one, so that it is asked only until there are some.
_quick = False
_others = False
# What is frozen and becomes garbage in circles is freed when so many blocks within a run have
# begun: a deep search has them for hours.
_ALL_AGAIN = 256
_begun = 0
# How many new objects are looked through together: of many, more are gone by then.
_SELDOM = 100_000


def _others_froze() -> bool:
    global _others
    _others = _others or gc.get_freeze_count() > 0
    return _others


@contextmanager
def paused_collections() -> Iterator[None]:
    """Collect no garbage in a block that makes many objects that stay."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            # What was frozen for a moment is old, and nothing is looked through for that.
            stays = _quick or _others_froze()
            gc.freeze()
            if not stays:
                gc.unfreeze()
            gc.enable()


def settle() -> None:
    """Exclude what stays of all that was made since from later collections, within such a block."""
    global _begun
    if not _quick:
        return
    _begun += 1
    if _begun % _ALL_AGAIN == 0:
        gc.unfreeze()
    # What is garbage now would stay.
    gc.collect()
    gc.freeze()


@contextmanager
def quick_collections() -> Iterator[None]:
    """Exclude the objects that exist now from later garbage collections.

    In a block within another one, that is what stays of all that was made since.
    """
    global _quick
    if _quick:
        settle()
        yield
        return
    stays = _others_froze()
    _quick = True
    gc.freeze()
    often = gc.get_threshold()
    gc.set_threshold(max(_SELDOM, often[0]), *often[1:])
    try:
        yield
    finally:
        _quick = False
        gc.set_threshold(*often)
        # What the caller froze stays frozen.
        if not stays:
            gc.unfreeze()
