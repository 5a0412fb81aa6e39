"""Small results kept as lines of text, with concurrent appends by several processes.

Requirements: a damaged line is skipped; the last line of a key holds. Files of the same form in
bundles are read first and never written.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

# A longer file is rewritten, with each key once.
_LONG: Final = 4 << 20


class Lines:
    """A mapping of text to plain data, in a file of lines; ``path`` None keeps it in memory."""

    def __init__(self, path: Path | None, bundles: Sequence[Path] = ()) -> None:
        self.path = path
        self._known: dict[str, Any] = {}
        for file in (*reversed(bundles), *([path] if path is not None else ())):
            self._known.update(_read(file))
        with suppress(OSError):
            if path is not None and path.stat().st_size > _LONG:
                self._rewrite(path)

    def get(self, key: str) -> Any:
        """Return the value of a key, else None."""
        return self._known.get(key)

    def put(self, key: str, value: Any) -> None:
        """Store a value; a read-only file is not changed."""
        self._known[key] = value
        if self.path is None:
            return
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # A single append write is not interleaved with another process's.
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(file, _line(key, value))
            finally:
                os.close(file)

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return keys and values."""
        return self._known.items()

    def __len__(self) -> int:
        return len(self._known)

    def _rewrite(self, path: Path) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_bytes(b"".join(_line(k, v) for k, v in _read(path).items()))
        os.replace(temporary, path)


def _line(key: str, value: Any) -> bytes:
    text = json.dumps([key, value], separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return found
    for line in lines:
        check, _, text = line.partition(b" ")
        with suppress(ValueError):
            if int(check, 16) == zlib.crc32(text):
                key, value = json.loads(text)
                found[key] = value
    return found
