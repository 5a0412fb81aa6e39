"""The file of what calls with one argument off give: results' kinds and shapes, or errors."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Final

from .spoilt import Key

STORED: Final = Path(__file__).with_name("refusals.json.gz")
# The mark of a right call, and of each other call the argument, its value's name and what it gives.
Refusals = tuple[int, list[tuple[Key, str, str]]]


@cache
def read() -> dict[str, Refusals]:
    """Return what is recorded, by the label of a function."""
    if not STORED.exists():
        return {}
    found = json.loads(gzip.decompress(STORED.read_bytes()))
    return {label: (mark, [(k, n, t) for k, n, t in rows]) for label, (mark, rows) in found.items()}


def write(known: dict[str, Refusals]) -> None:
    """Write what is recorded."""
    text = json.dumps(dict(sorted(known.items())), separators=(",", ":"), ensure_ascii=False)
    STORED.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    read.cache_clear()
