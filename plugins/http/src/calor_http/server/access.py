"""Where a server listens and whom it lets in, by the options of its command.

Requirements: nobody gets in by accident: what lets everybody in is for this machine alone, and a
token goes nowhere without encryption.
"""

from __future__ import annotations

import argparse
import os
import stat
from pathlib import Path
from typing import Any, Final

from calor.errors import ArgumentError
from calor_http.connection import is_loopback
from calor_http.server.quotas import Quota, number_of, quota_fields
from calor_http.server.tokens import Keyring, keyring_of, read_tokens

_SHORTEST: Final = 16


def read_token(path: Path) -> str:
    """Return the token in a file that only its owner reads; ArgumentError otherwise."""
    try:
        mode, text = path.stat().st_mode, path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"the token file {path} cannot be read: {error}") from None
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ArgumentError(f"others can read the token file {path}; chmod 600 {path}")
    if len(text) < _SHORTEST or not (text.isascii() and text.isprintable()) or " " in text:
        raise ArgumentError(
            f"the token in {path} needs {_SHORTEST} or more letters and digits; make one: "
            f'python -c "import secrets; print(secrets.token_urlsafe(32))"'
        )
    return text


def add_access(command: argparse.ArgumentParser, port: int) -> None:
    """Add the options about where a server listens, and whom it lets in."""
    command.add_argument("--host", default="127.0.0.1", help="the address to listen at")
    command.add_argument("--port", type=int, default=port, help="the port; 0 takes a free one")
    command.add_argument("--token-file", type=Path, help="a file with the token that clients show")
    command.add_argument("--no-token", action="store_true", help="for loopback: lets all in")
    command.add_argument(
        "--tls", nargs=2, metavar=("CERT", "KEY"), help="certificate and key files"
    )
    command.add_argument(
        "--plain", action="store_true", help="no TLS beyond loopback: a proxy in front adds it"
    )


def add_tokens(command: argparse.ArgumentParser) -> None:
    """Add the options about several tokens, and what each may use."""
    command.add_argument("--tokens-file", type=Path, help="a TOML file of tokens with quotas")
    for name in quota_fields():
        option = "--quota-" + name.replace("_", "-")
        command.add_argument(option, help="a quota of each token, where the file says nothing")


def access_of(given: argparse.Namespace) -> tuple[str | None, dict[str, Any]]:
    """Return the token and what uvicorn takes; ArgumentError where anybody would get in."""
    local = is_loopback(given.host)
    tokens = getattr(given, "tokens_file", None)
    ways = [given.no_token, given.token_file, tokens]
    if sum(map(bool, ways)) > 1:
        raise ArgumentError("give one of --token-file, --tokens-file and --no-token, not both")
    if given.no_token and not local:
        raise ArgumentError(
            f"--no-token lets everybody in who reaches {given.host}; it is for 127.0.0.1 only"
        )
    if not any(ways):
        raise ArgumentError("a server needs --token-file, or --no-token on 127.0.0.1")
    if not local and not given.tls and not given.plain:
        raise ArgumentError(
            f"without --tls CERT KEY everybody on the way to {given.host} reads the token; "
            f"--plain says that a proxy in front adds TLS"
        )
    options: dict[str, Any] = {"host": given.host, "port": given.port}
    if given.tls:
        options |= {"ssl_certfile": given.tls[0], "ssl_keyfile": given.tls[1]}
    return read_token(given.token_file) if given.token_file else None, options


def keyring_for(given: argparse.Namespace, token: str | None) -> Keyring:
    """Return whom a server lets in: those of the file of tokens, or who has the one token."""
    written = {name: getattr(given, f"quota_{name}") for name in quota_fields()}
    quota = Quota(**{n: number_of(n, text) for n, text in written.items() if text is not None})
    if given.tokens_file:
        return Keyring(read_tokens(given.tokens_file, quota), quota, given.tokens_file)
    return keyring_of(token, quota)
