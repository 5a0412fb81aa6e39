"""The command ``model``: what it takes, what it refuses, and the server that it starts."""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import uvicorn

from calor.device_selection import current_device
from calor.errors import CalorError
from calor.plugins.discovery import get_device
from calor_http.connection import is_loopback
from calor_http.model.limits import Limits
from calor_http.model.repository import Repository, found
from calor_http.model.service import Service
from calor_http.model.wire import Connection
from calor_http.server.access import access_of, add_access
from calor_http.server.serving import address_of, serve

_SWITCH_SECONDS: Final = 5e-4


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="calor_http model", description="Answers requests for models over HTTP."
    )
    parser.add_argument(
        "models", nargs="+", type=Path, help="model.onnx, model.calor, or folders NAME/1/model.onnx"
    )
    parser.add_argument("--device", default=None, help="what runs the models, such as cuda:0")
    parser.add_argument("--name", help="the name of the model; by default that of its file")
    parser.add_argument(
        "--versions", default="latest", help="of folders: latest, all, or numbers: 1,3"
    )
    parser.add_argument("--max-batch", type=int, default=32, help="the most rows that are joined")
    parser.add_argument(
        "--max-delay-ms", type=float, default=2.0, help="how long a request waits for others"
    )
    add_access(parser, 8000)
    for field in fields(Limits):
        name = "--" + field.name.replace("_", "-")
        kind = type(field.default)
        parser.add_argument(name, type=kind, default=field.default, help="a limit")
    return parser


def service_of(given: argparse.Namespace, token: str | None) -> Service:
    """Load the models; CalorError where one cannot be served."""
    limits = Limits(**{field.name: getattr(given, field.name) for field in fields(Limits)})
    device = current_device() if given.device is None else get_device(given.device)
    models = Repository(
        found(given.models, given.name, given.versions),
        device,
        most=given.max_batch,
        delay=given.max_delay_ms / 1e3,
        queue=limits.queue,
    )
    return Service(models, token, limits)


def configured(service: Service, **options: Any) -> uvicorn.Config:
    """Return what uvicorn runs for a service: it listens, has TLS, and ends."""
    return uvicorn.Config(
        service.app,
        http=cast(Any, partial(Connection, service)),
        ws="none",
        lifespan="on",
        interface="asgi3",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(service.limits.drain_seconds),
        **options,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to end; return the exit status."""
    given = parser().parse_args(arguments)
    if given.token_file is None and is_loopback(given.host):
        # Who reaches it may run models, and no more.
        given.no_token = True
    try:
        token, options = access_of(given)
        service = service_of(given, token)
    except CalorError as error:
        print(error, file=sys.stderr)
        return 2
    config = configured(service, log_level="warning", **options)
    # Uvicorn ends in order, and then raises the signal again.
    with suppress(ValueError):
        signal.signal(signal.SIGTERM, lambda number, frame: None)

    def listening(server: Any) -> None:
        print(f"serving at {address_of(server)}", flush=True)

    service.when_ready = lambda: _ready(service)
    factory = config.get_loop_factory()
    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(config, listening))
    return 0


def _ready(service: Service) -> None:
    """Say that all models are ready, and leave what they are to no later collection of garbage."""
    gc.collect()
    gc.freeze()
    # One of the two threads that work waits for the other no longer than for a short request.
    sys.setswitchinterval(_SWITCH_SECONDS)
    print(_told(service), flush=True)


def _told(service: Service) -> str:
    """Return which models are ready, and how the rows of each are joined."""
    lines = []
    for entry in service.repository.entries:
        joining = entry.batcher.joining
        how = f"up to {joining.most} rows together" if joining.most > 1 else joining.reason
        lines.append(f"ready: {entry.name}, version {entry.version}: {how or 'row by row'}")
    return "\n".join(lines)
