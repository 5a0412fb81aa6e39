"""Whether a server lives, and whether it takes new clients: what a balancer of load asks.

Requirements: nobody needs a token to ask, and the answer tells nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


def health_routes(ready: Callable[[], bool]) -> list[Route]:
    """Return the routes of ``/healthz`` and ``/readyz``.

    Parameters
    ----------
    ready : callable
        Returns whether new clients are taken.
    """

    async def lives(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def takes(request: Request) -> Response:
        if ready():
            return PlainTextResponse("ready\n")
        return PlainTextResponse("no new clients\n", 503, {"Retry-After": "5"})

    return [Route("/healthz", lives), Route("/readyz", takes)]
