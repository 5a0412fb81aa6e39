"""Where a client's token comes from: the environment, else a file that only its owner reads."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from calor.errors import DeviceError


def token_for(server: str) -> str | None:
    """Return the token for a server, such as ``gpu.example:8470``; None if there is none.

    CALOR_HTTP_TOKEN holds one for every server. Otherwise a line ``gpu.example:8470 TOKEN`` of the
    file that CALOR_HTTP_TOKENS names, or of ``calor/http-tokens`` in the user's configuration.
    """
    given = os.environ.get("CALOR_HTTP_TOKEN")
    if given:
        return given.strip()
    path = _path()
    if not path.is_file():
        return None
    if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise DeviceError(f"others can read the tokens in {path}; chmod 600 {path}")
    for line in path.read_text("utf-8").splitlines():
        name, _, token = line.strip().partition(" ")
        if name == server and token:
            return token.strip()
    return None


def _path() -> Path:
    named = os.environ.get("CALOR_HTTP_TOKENS")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME") or os.environ.get("APPDATA")
    return (Path(base) if base else Path.home() / ".config") / "calor" / "http-tokens"
