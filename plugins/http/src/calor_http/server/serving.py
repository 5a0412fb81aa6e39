"""The command ``serve``: what it takes, what it refuses, and the server that it starts."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, cast

import uvicorn

from calor.errors import CalorError
from calor.plugins.discovery import get_device, registry
from calor_http.server.access import access_of, add_access, add_tokens, keyring_for
from calor_http.server.app import Server
from calor_http.server.audit import AuditLog
from calor_http.server.connections import guarded
from calor_http.server.draining import Drained, DrainingServer
from calor_http.server.limits import Limits
from calor_http.server.stream import streams_of
from calor_http.server.tokens import new_token

_HEADER_BYTES: Final = 16 * 1024


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="calor_http",
        description="Serves devices over HTTP.",
        epilog="calor_http model --help tells of the server of models.",
    )
    commands = made.add_subparsers(dest="command", required=True)
    token = commands.add_parser("token", help="make a token, and what the tokens file has of it")
    token.add_argument("name", help="whose it is")
    serve = commands.add_parser("serve")
    serve.add_argument(
        "--devices",
        action="append",
        required=True,
        help="names with commas between: cuda:0,cpu; a router takes those behind it: "
        "router:cuda,cpu; may be repeated",
    )
    add_access(serve, 8470)
    add_tokens(serve)
    serve.add_argument(
        "--audit-log", type=Path, help="a file for a line of each request; - is stdout"
    )
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


def config_of(given: argparse.Namespace) -> tuple[uvicorn.Config, Server]:
    """Return what uvicorn runs; ArgumentError for a server that would let anybody in."""
    token, options = access_of(given)
    keyring = keyring_for(given, token)
    limits = Limits(**{field.name: getattr(given, field.name) for field in fields(Limits)})
    for package in given.packages:
        importlib.import_module(package)
    # Its ops have no plugin of their own by which they would be found.
    if importlib.util.find_spec("calor_nn"):
        importlib.import_module("calor_nn")
    devices = [get_device(name) for text in given.devices for name in names_in(text)]
    peers = [peer.strip() for peer in given.peers.split(",") if peer.strip()]
    server = Server(devices, None, limits, peers, keyring, AuditLog(given.audit_log))
    return configured(server, log_level="warning", **options), server


def names_in(text: str) -> list[str]:
    """Return the names of devices in a text, with commas between.

    What makes devices from a text, such as a router, takes the rest of it.

    >>> names_in("numpy, router:cpu,numpy")
    ['numpy', 'router:cpu,numpy']
    """
    name, _, rest = (part.strip() for part in text.partition(","))
    if registry.is_scheme(name.partition(":")[0]):
        return [text.strip()]
    return [name, *(names_in(rest) if rest else [])]


def configured(server: Server, **options: Any) -> uvicorn.Config:
    """Return what uvicorn runs for a server, within the server's limits."""
    return uvicorn.Config(
        server.app(),
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws=cast(Any, streams_of(server)),
        http=guarded(server.doors),
        h11_max_incomplete_event_size=_HEADER_BYTES,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=2,
        **options,
    )


async def serve(
    config: uvicorn.Config, ready: Callable[[Any], None], drained: Drained | None = None
) -> None:
    """Serve until told to end; ``ready`` is called with the server once it listens.

    What has to be drained takes no more work after SIGTERM, and is fetched before the end.
    """
    server = DrainingServer(config, drained)
    serving = asyncio.create_task(server.serve())
    draining = asyncio.create_task(server.end_when_drained())
    while not (server.started or serving.done()):
        await asyncio.sleep(0.005)
    if server.started:
        ready(server)
    await serving
    draining.cancel()


def address_of(server: Any) -> str:
    """Return the address at which a server listens."""
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    scheme = "https" if server.config.is_ssl else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; return the exit status."""
    given = parser().parse_args(arguments)
    if given.command == "token":
        print(new_token(given.name))
        return 0
    try:
        config, served = config_of(given)
    except CalorError as error:
        print(error, file=sys.stderr)
        return 2
    with suppress(KeyboardInterrupt):
        asyncio.run(
            serve(
                config,
                lambda server: print(f"serving at {address_of(server)}", flush=True),
                served,
            )
        )
    return 0
