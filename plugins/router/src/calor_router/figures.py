"""What was measured once: figures by name, in a file that processes share.

Requirements: a member with a limit is measured within it, on few elements. Its figures hold until
the same device is measured in more room.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import calor
from calor.cache import cache_directory, keeps
from calor.made_once import MadeOnce

# Measured in all the room that there may be.
WHOLE: Final = 1 << 62

# The room, then the figures. A member may be a router too, of a server of this process, which
# measures its own members.
_known: Final[MadeOnce[tuple[str, ...], tuple[float, ...]]] = MadeOnce()


def kept(
    name: Sequence[str],
    measure: Callable[[], tuple[float, ...]],
    *,
    least: int = 0,
    room: int = WHOLE,
) -> tuple[float, ...]:
    """Return figures that were measured before, else measure and keep them.

    Parameters
    ----------
    name : sequence of str
        What they are of. Another version of calor measures anew.
    measure : callable
        Returns the figures.
    least : int, optional
        The room in which they must have been measured. By default any.
    room : int, optional
        The room in which ``measure`` measures, at least ``least``.

    Returns
    -------
    tuple of float
        The figures.
    """
    key = (calor.__version__, *name)

    def found() -> tuple[float, ...]:
        return _stored(key, least) or _store(key, (room, *measure()))

    known = _known.of(key, found)
    if known[0] < least:
        _known.forget(key, known)
        known = _known.of(key, found)
    return known[1:]


def _path(key: tuple[str, ...]) -> Path:
    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()
    return cache_directory() / "router" / f"{digest[:32]}.json"


def _stored(key: tuple[str, ...], least: int) -> tuple[float, ...] | None:
    """Return the figures of a file; what is damaged, or of less room, counts as missing."""
    if not keeps():
        return None
    with suppress(OSError, ValueError, KeyError, TypeError):
        told = json.loads(_path(key).read_text("utf-8"))
        if tuple(told["of"]) == key and told["room"] >= least:
            return (told["room"], *map(float, told["figures"]))
    return None


def _store(key: tuple[str, ...], figures: tuple[float, ...]) -> tuple[float, ...]:
    """Write a file that other processes see whole or not at all; a full disk is no error."""
    if keeps():
        with suppress(OSError):
            path = _path(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            written = path.with_suffix(f".{os.getpid()}.part")
            room, *told = figures
            written.write_text(json.dumps({"of": key, "room": room, "figures": told}), "utf-8")
            written.replace(path)
    return figures
