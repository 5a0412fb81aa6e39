"""The HTTP side of a server: who may enter, what is too large, and which session is meant.

Requirements: nothing of a request reaches a file name or an import; a token is compared in constant
time; bodies are counted as they arrive; whatever is wrong with a request, the answer is a typed
error as a frame, and never a traceback.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from calor.backends.device import Device
from calor.errors import ArgumentError
from calor_http.connection import Connection
from calor_http.described import encode_info
from calor_http.errors import LeaseLostError, LimitError
from calor_http.frames import CHUNK, MESSAGE, pack, seal, unpack
from calor_http.server.graphs import Graphs
from calor_http.server.handing import Handing
from calor_http.server.limits import Limits
from calor_http.server.refusals import Refused, failed, refusal
from calor_http.server.session import Session

VERSION: Final = 1
_SLACK: Final = 1024
# After this time a client is told that its request still runs.
_BUSY_SECONDS: Final = 20.0
T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


class Server:
    """The sessions of a server.

    Parameters
    ----------
    devices : sequence of Device
        The devices that it serves.
    token : str or None
        What clients have to show; None lets everybody in.
    limits : Limits, optional
        What clients may do.
    peers : collection of str, optional
        The addresses of servers from which values may be fetched.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        token: str | None,
        limits: Limits | None = None,
        peers: Collection[str] = (),
    ) -> None:
        self._devices = devices
        self._token = None if token is None else f"Bearer {token}".encode()
        self.limits = limits or Limits()
        self._graphs = Graphs(self.limits.graph_nodes)
        self._handing = Handing(self.limits.client_bytes, peers, partial(Connection, token=None))
        self._sessions: dict[str, Session] = {}
        # Each may wait for the one before it of its client, so there are more than cores.
        self._workers = ThreadPoolExecutor(self.limits.requests, "calor-http")

    @property
    def clients(self) -> int:
        """How many clients have a session."""
        return len(self._sessions)

    def app(self) -> Starlette:
        """Return the ASGI application."""
        session = "/v1/sessions/{session}"
        routes = [
            Route("/v1/sessions", self._handler(self._open), methods=["POST"]),
            Route("/v1/offers/{name}", self._handler(self._redeem, False), methods=["POST"]),
            Route("/v1/offers/{name}/{offset}", self._handler(self._piece, False), methods=["GET"]),
            Route(session, self._handler(self._close), methods=["DELETE"]),
            Route(session + "/requests/{number}", self._handler(self._run), methods=["POST"]),
            Route(session + "/blobs/{number}/{offset}", self._handler(self._put), methods=["PUT"]),
            Route(session + "/blobs/{number}/{offset}", self._handler(self._get), methods=["GET"]),
        ]
        unknown = {404: _unknown, 405: _unknown}
        return Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=unknown)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(self._end_leases())
        try:
            yield
        finally:
            task.cancel()
            for session in self._sessions.values():
                session.close()
            self._sessions.clear()
            self._handing.close()
            self._workers.shutdown(wait=False)

    async def _end_leases(self) -> None:
        seconds = self.limits.lease_seconds
        while True:
            await asyncio.sleep(min(seconds / 4, 5.0))
            await self._in_thread(self.end_leases)

    def end_leases(self) -> None:
        """Free what clients hold that were not heard of within the time of their lease."""
        before = monotonic() - self.limits.lease_seconds
        for name, session in list(self._sessions.items()):
            # One that works for its client is not idle.
            if session.seen < before and not session.lock.locked():
                self._sessions.pop(name, None)
                session.close()

    # What every request passes.
    def _handler(self, inner: Handler, admits: bool = True) -> Handler:
        """Return what answers requests; those for offers have a secret in the token's place."""

        async def handle(request: Request) -> Response:
            try:
                if admits:
                    self._admit(request)
                return await inner(request)
            except Exception as error:
                status, frame, headers = refusal(error)
                return _answer(frame, status, headers)

        return handle

    def _admit(self, request: Request) -> None:
        if self._token is None:
            return
        given = request.headers.get("authorization", "").encode()
        if not hmac.compare_digest(given, self._token):
            raise Refused

    async def _body(self, request: Request, most: int) -> bytes:
        """Return a request's body, of which no more than ``most`` bytes are taken."""
        pieces: list[bytes] = []
        count = 0
        async with asyncio.timeout(self.limits.body_seconds):
            async for piece in request.stream():
                count += len(piece)
                if count > most + _SLACK:
                    raise LimitError(f"the request has more than {most} bytes")
                pieces.append(piece)
        return b"".join(pieces)

    def _session(self, request: Request) -> Session:
        return self.session(request.path_params["session"])

    def session(self, name: str) -> Session:
        """Return the session of a name; LeaseLostError where there is none."""
        found = self._sessions.get(name)
        if found is None:
            raise LeaseLostError("the server does not know this session")
        return found

    def knows(self, name: str) -> bool:
        """Return whether there is a session of a name."""
        return name in self._sessions

    def admitted(self, request: Request) -> Session:
        """Return the session that a request means, if who sends it may."""
        self._admit(request)
        return self._session(request)

    # The requests.
    async def _open(self, request: Request) -> Response:
        hello = unpack(await self._body(request, CHUNK), CHUNK)
        if not isinstance(hello, dict) or hello.get("version") != VERSION:
            raise ArgumentError(
                f"the server speaks version {VERSION} of the protocol; install the same release of "
                f"calor-http on both sides"
            )
        if len(self._sessions) >= self.limits.clients:
            raise LimitError(f"the server has {self.limits.clients} clients, its limit")
        name = secrets.token_urlsafe(24)
        infos = await self._in_thread(self._infos)
        self._sessions[name] = Session(self._devices, self.limits, self._graphs, self._handing)
        return _done(
            {
                "session": name,
                "devices": infos,
                "lease": self.limits.lease_seconds,
                "commands": self.limits.commands,
                "peers": sorted(self._handing.peers),
            }
        )

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._workers, work)

    def _infos(self) -> list[Any]:
        return [[device.name, encode_info(device.info)] for device in self._devices]

    async def _close(self, request: Request) -> Response:
        session = self._session(request)
        self._sessions.pop(request.path_params["session"], None)
        await self._in_thread(session.close)
        return _done(None)

    async def _run(self, request: Request) -> Response:
        session, number = self._session(request), _number(request, "number")
        frame = await self._body(request, MESSAGE)

        def work() -> bytes:
            return session.answer(number, frame, _accepts(request))

        # One that is repeated while it runs waits for the run that began.
        known, task = session.working or (0, None)
        if task is None or task.done() or known != number:
            task = self._in_thread(work)
            session.working = number, task
        done, _ = await asyncio.wait([task], timeout=_BUSY_SECONDS)
        return _answer(task.result()) if done else _answer(pack(None), 202)

    async def _redeem(self, request: Request) -> Response:
        return _done(self._handing.redeem(request.path_params["name"]))

    async def _piece(self, request: Request) -> Response:
        name, offset = request.path_params["name"], _number(request, "offset")
        return _answer(seal(self._handing.piece(name, offset)))

    async def _put(self, request: Request) -> Response:
        session = self._session(request)
        number, offset = _number(request, "number"), _number(request, "offset")
        frame = await self._body(request, CHUNK)

        return _done(await self._in_thread(partial(session.add_piece, number, offset, frame)))

    async def _get(self, request: Request) -> Response:
        session = self._session(request)
        number, offset = _number(request, "number"), _number(request, "offset")

        def work() -> bytes:
            return seal(session.piece(number, offset), _accepts(request))

        return _answer(await self._in_thread(work))


async def _unknown(request: Request, error: Exception) -> Response:
    return _answer(failed(ArgumentError("the server has no such address")), 404)


def _accepts(request: Request) -> bool:
    """Return whether a client wants compressed frames."""
    return bool(request.headers.get("x-calor-zstd", "") == "1")


def _number(request: Request, name: str) -> int:
    text: str = request.path_params[name]
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ArgumentError(f"a number is wanted in the address, not {text[:20]!r}")
    return int(text)


def _answer(frame: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(frame, status, headers, media_type="application/octet-stream")


def _done(message: Any) -> Response:
    return _answer(pack(message))
