"""The audit log: who did what from where, a line of JSON each.

Requirements: no token, no name of a session and no secret of an offer is in it, since each of them
lets somebody in; a file that was rotated away is opened anew; a line that cannot be written is
counted and told in the log, and stops nobody; strangers cannot fill it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any, Final

from calor_http.server.quotas import Bucket

_log = logging.getLogger("calor_http")
# Lines about strangers: so many a second, and at once.
_RATE: Final = 5.0
_BURST: Final = 50.0


def alias(secret: str) -> str:
    """Return a name for a secret, by which its lines are found and nothing else."""
    return hashlib.sha256(secret.encode()).hexdigest()[:12]


class _Whole:
    """A file to which texts are added as a whole, or not at all.

    A full disk takes the beginning of a text; a killed server may have left one.
    """

    def __init__(self, path: str) -> None:
        # Nobody else reads who did what.
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600)
        size = os.fstat(self._file).st_size
        if size and _last_byte(self._file, size) != b"\n":
            os.write(self._file, b"\n")

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._file

    def write(self, text: str) -> None:
        """Add a text; OSError if it does not fit."""
        data = text.encode()
        done = os.write(self._file, data)
        if done < len(data):
            os.ftruncate(self._file, os.fstat(self._file).st_size - done)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def flush(self) -> None:
        """Do nothing: nothing is kept here."""

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class _Watched(WatchedFileHandler):
    """Opens the file anew that was rotated away; what goes wrong with that is told as well."""

    def _open(self) -> Any:
        return _Whole(self.baseFilename)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:
            self.handleError(record)


class AuditLog:
    """A file of lines.

    Parameters
    ----------
    path : Path or None
        The file, to which lines are added; "-" is the standard output. None writes nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self.lost = 0
        self._strangers = Bucket(_RATE, _BURST)
        self._silenced = 0
        self._handler: logging.Handler | None = None
        if path is None:
            return
        if str(path) == "-":
            self._handler = logging.StreamHandler(sys.stdout)
        else:
            self._handler = _Watched(path, encoding="utf-8")
        self._handler.handleError = self._failed  # type: ignore[method-assign]

    def write(
        self,
        what: str,
        token: str | None,
        peer: str,
        result: str,
        *,
        nbytes: int = 0,
        digest: str | None = None,
        **more: Any,
    ) -> None:
        """Add a line: what was asked by whom from where, on how many bytes, and what came of it."""
        if self._handler is None:
            return
        if token is None:
            if self._strangers.take(1.0):
                self._silenced += 1
                return
            more["unwritten"], self._silenced = self._silenced, 0
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "token": token,
            "peer": peer,
            "what": what,
            "digest": digest,
            "bytes": nbytes,
            "result": result,
            **{name: value for name, value in more.items() if value},
        }
        text = json.dumps(line, separators=(",", ":"))
        self._handler.handle(logging.LogRecord("audit", logging.INFO, "", 0, text, None, None))

    def close(self) -> None:
        """Close the file."""
        if self._handler is not None:
            with suppress(OSError):
                self._handler.close()

    def _failed(self, record: logging.LogRecord) -> None:
        self.lost += 1
        if self.lost == 1:
            _log.error("the audit log cannot be written: %s", sys.exc_info()[1])


def _last_byte(file: int, size: int) -> bytes:
    os.lseek(file, size - 1, os.SEEK_SET)
    return os.read(file, 1)
