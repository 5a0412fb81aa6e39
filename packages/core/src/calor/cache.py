"""Where calor keeps what it measured and compiled: one directory for all of its packages."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """Return calor's cache directory.

    CALOR_CACHE_DIR, else ``calor`` in XDG_CACHE_HOME, or in the user's cache directory.
    """
    named = os.environ.get("CALOR_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "calor"


def keeps() -> bool:
    """Return whether anything is kept on disk; CALOR_CACHE=0 keeps nothing."""
    return os.environ.get("CALOR_CACHE", "1").strip().lower() not in ("0", "off", "false", "no")
