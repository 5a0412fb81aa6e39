"""Files shared by concurrent processes: keyed, checksummed, bounded in size.

Requirements: a reader sees a whole entry or none, even after a writer's crash. A damaged entry, and
one that was written under another key, is removed and rebuilt. The least recently used entries are
removed at the bound. A read-only directory is an inconvenience, not an error. Bundles are read-only
directories of the same form, for shipping.
Small results are lines of text, appended by several processes at once; a damaged line is skipped,
and the last line of a key holds.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_MAGIC: Final = b"calor-entry-2\n"
_DAY: Final = 86400.0
# An older temporary file belongs to a crashed writer.
_STALE: Final = 3600.0
# A longer file of lines is rewritten, with each key once.
_LONG: Final = 4 << 20
_SWEEP: Final = 64  # writes between two checks of the total size, at least
# A check looks at every entry, so none comes before this share of what was left is written.
_SHARE: Final = 8


def bundle_directories() -> list[Path]:
    """Return the bundles listed in CALOR_BUNDLES, in order."""
    return [Path(p) for p in os.environ.get("CALOR_BUNDLES", "").split(os.pathsep) if p]


class _Written:
    """What this process has written in a directory since its total size was checked."""

    def __init__(self) -> None:
        self.count = self.nbytes = self.room = 0

    def add(self, nbytes: int) -> bool:
        """Note an entry; return whether a check of the total size is due."""
        self.count += 1
        self.nbytes += nbytes
        return self.count % _SWEEP == 1 and self.nbytes > self.room


# By directory and limit, since each device of each backend has a storage of its own.
_WRITTEN: dict[tuple[Path, int], _Written] = {}


class Storage:
    """Entries by key (hexadecimal text), in one directory and in read-only bundles.

    ``directory`` None keeps nothing. ``limit``: bytes of all entries, by default CALOR_CACHE_BYTES
    or 2 GiB.
    """

    def __init__(
        self, directory: Path | None, bundles: Sequence[Path] = (), limit: int | None = None
    ) -> None:
        self.directory = directory
        self.bundles = tuple(bundles)
        self.limit = int(os.environ.get("CALOR_CACHE_BYTES", 2 << 30)) if limit is None else limit

    def read(self, key: str) -> bytes | None:
        """Return an entry, None if it is missing or damaged."""
        if self.directory is not None:
            path = self._path(self.directory, key)
            data = _load(path, key)
            if data is not None:
                _touch(path)
                return data
        for bundle in self.bundles:
            data = _load(self._path(bundle, key), key, remove=False)
            if data is not None:
                return data
        return None

    def write(self, key: str, data: bytes) -> bool:
        """Store an entry; False if that is not possible."""
        if self.directory is None:
            return False
        path = self._path(self.directory, key)
        text = _MAGIC + _digest(key, data) + data
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(text)
            os.replace(temporary, path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            return False
        if self._written().add(len(text)):
            self.sweep()
        return True

    def _written(self) -> _Written:
        assert self.directory is not None
        return _WRITTEN.setdefault((self.directory, self.limit), _Written())

    def keys(self) -> Iterator[str]:
        """Yield the keys of the directory's entries."""
        if self.directory is not None and self.directory.is_dir():
            for path in self.directory.glob("??/*"):
                if not path.name.startswith("."):
                    yield path.parent.name + path.name

    def size(self, key: str) -> int:
        """Return the bytes of an entry's file in the directory, 0 if it was removed."""
        assert self.directory is not None
        with suppress(OSError):
            return self._path(self.directory, key).stat().st_size
        return 0

    def sweep(self) -> None:
        """Remove the least recently used entries until nine tenths of the limit remain."""
        assert self.directory is not None
        found: list[tuple[float, int, Path]] = []
        now = time.time()
        for path in self.directory.glob("??/*"):
            try:
                state = path.stat()
            except OSError:
                continue
            if path.name.startswith("."):
                if now - state.st_mtime > _STALE:
                    path.unlink(missing_ok=True)
                continue
            found.append((state.st_mtime, state.st_size, path))
        total = sum(size for _, size, _ in found)
        if total > self.limit:
            for _, size, path in sorted(found):
                if total <= self.limit * 9 // 10:
                    break
                path.unlink(missing_ok=True)
                total -= size
        written = self._written()
        written.nbytes, written.room = 0, (self.limit - total) // _SHARE

    @staticmethod
    def _path(directory: Path, key: str) -> Path:
        return directory / key[:2] / key[2:]


def _digest(key: str, data: bytes) -> bytes:
    """Return the digest of an entry, by which a file under another name is a damaged one."""
    return hashlib.sha256(key.encode() + b"\n" + data).digest()


def _load(path: Path, key: str, *, remove: bool = True) -> bytes | None:
    try:
        text = path.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + 32
    data = text[start:]
    if text[: len(_MAGIC)] == _MAGIC and _digest(key, data) == text[len(_MAGIC) : start]:
        return data
    if remove:
        path.unlink(missing_ok=True)
    return None


def _touch(path: Path) -> None:
    """Record the use of an entry, at most once a day."""
    with suppress(OSError):  # The file may be gone, or belong to another user.
        if time.time() - path.stat().st_mtime > _DAY:
            os.utime(path)


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
