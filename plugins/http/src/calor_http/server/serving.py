"""The command ``serve``: what it takes, what it refuses, and the server that it starts."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import os
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, cast

import uvicorn

from calor.errors import ArgumentError, CalorError
from calor.plugins.discovery import get_device
from calor_http.connection import is_loopback
from calor_http.server.app import Server
from calor_http.server.limits import Limits
from calor_http.server.stream import streams_of

_SHORTEST: Final = 16
_HEADER_BYTES: Final = 16 * 1024


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


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="calor_http",
        description="Serves devices over HTTP.",
        epilog="calor_http model --help tells of the server of models.",
    )
    serve = made.add_subparsers(dest="command", required=True).add_parser("serve")
    serve.add_argument("--devices", required=True, help="names with commas between: cuda:0,cpu")
    add_access(serve, 8470)
    serve.add_argument(
        "--peers",
        default="",
        help="addresses of servers that hand over values: https://a:8470,https://b:8470",
    )
    serve.add_argument(
        "--import",
        dest="packages",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="a package whose ops graphs use; may be repeated",
    )
    for field in fields(Limits):
        name = "--" + field.name.replace("_", "-")
        kind = type(field.default)
        serve.add_argument(name, type=kind, default=field.default, help="a limit")
    return made


def access_of(given: argparse.Namespace) -> tuple[str | None, dict[str, Any]]:
    """Return the token and what uvicorn takes; ArgumentError where anybody would get in."""
    local = is_loopback(given.host)
    if given.no_token and given.token_file:
        raise ArgumentError("give --token-file or --no-token, not both")
    if given.no_token and not local:
        raise ArgumentError(
            f"--no-token lets everybody in who reaches {given.host}; it is for 127.0.0.1 only"
        )
    if not given.no_token and not given.token_file:
        raise ArgumentError("a server needs --token-file, or --no-token on 127.0.0.1")
    if not local and not given.tls and not given.plain:
        raise ArgumentError(
            f"without --tls CERT KEY everybody on the way to {given.host} reads the token; "
            f"--plain says that a proxy in front adds TLS"
        )
    options: dict[str, Any] = {"host": given.host, "port": given.port}
    if given.tls:
        options |= {"ssl_certfile": given.tls[0], "ssl_keyfile": given.tls[1]}
    return None if given.no_token else read_token(given.token_file), options


def config_of(given: argparse.Namespace) -> uvicorn.Config:
    """Return what uvicorn runs; ArgumentError for a server that would let anybody in."""
    token, options = access_of(given)
    limits = Limits(**{field.name: getattr(given, field.name) for field in fields(Limits)})
    for package in given.packages:
        importlib.import_module(package)
    # Its ops have no plugin of their own by which they would be found.
    if importlib.util.find_spec("calor_nn"):
        importlib.import_module("calor_nn")
    devices = [get_device(name.strip()) for name in given.devices.split(",")]
    peers = [peer.strip() for peer in given.peers.split(",") if peer.strip()]
    server = Server(devices, token, limits, peers)
    return configured(server, log_level="warning", **options)


def configured(server: Server, **options: Any) -> uvicorn.Config:
    """Return what uvicorn runs for a server, within the server's limits."""
    return uvicorn.Config(
        server.app(),
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws=cast(Any, streams_of(server)),
        http="h11",
        limit_concurrency=server.limits.requests,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=2,
        **options,
    )


async def serve(config: uvicorn.Config, ready: Callable[[Any], None]) -> None:
    """Serve until told to end; ``ready`` is called with the server once it listens."""
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not (server.started or serving.done()):
        await asyncio.sleep(0.005)
    if server.started:
        ready(server)
    await serving


def address_of(server: Any) -> str:
    """Return the address at which a server listens."""
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    scheme = "https" if server.config.is_ssl else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; return the exit status."""
    given = parser().parse_args(arguments)
    try:
        config = config_of(given)
    except CalorError as error:
        print(error, file=sys.stderr)
        return 2
    with suppress(KeyboardInterrupt):
        asyncio.run(
            serve(config, lambda server: print(f"serving at {address_of(server)}", flush=True))
        )
    return 0
