"""Sizes as people read and write them."""

from __future__ import annotations

import re
from typing import Final

from calor.errors import ArgumentError

_UNITS: Final = ("", "k", "m", "g", "t")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


def bytes_text(count: int) -> str:
    """Return a number of bytes for people: ``"1.5 MiB"``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def bytes_of(size: int | str, name: str) -> int:
    """Return a number of bytes that people wrote; ArgumentError if it is none, with its name.

    >>> bytes_of(1000, "limit"), bytes_of("1.5 MiB", "limit"), bytes_of("2GB", "limit")
    (1000, 1572864, 2000000000)
    """
    if isinstance(size, str):
        found = _SIZE.fullmatch(size.strip())
        if found:
            number, unit, binary = found.groups()
            base = 1024 if binary else 1000
            return int(float(number) * base ** _UNITS.index(unit.lower()))
    elif type(size) is int and size >= 0:
        return size
    raise ArgumentError(f'{name} is a number of bytes or a text such as "8 GiB", not {size!r}')
