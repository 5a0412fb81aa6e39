"""The HTTP side of a server: what is too large, which session is meant, and who has it.

Requirements: nothing of a request reaches a file name or an import; bodies are counted as they
arrive; a session is there for the token that began it, and for no other.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
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
from calor_http.errors import LeaseLostError, LimitError, QuotaError
from calor_http.frames import CHUNK, MESSAGE, pack, seal, unpack
from calor_http.server.admission import Admission, Answer, Asked, peer_of
from calor_http.server.audit import AuditLog, alias
from calor_http.server.connections import Doors
from calor_http.server.draining import Drain
from calor_http.server.graphs import Graphs
from calor_http.server.handing import Handing
from calor_http.server.health import health_routes
from calor_http.server.limits import Limits
from calor_http.server.metrics import Metrics
from calor_http.server.origins import check_origin
from calor_http.server.overview import Overview
from calor_http.server.queueing import Turns
from calor_http.server.quotas import Account
from calor_http.server.refusals import failed
from calor_http.server.session import Session, Told
from calor_http.server.tokens import Keyring, keyring_of

VERSION: Final = 1
_SLACK: Final = 1024
# After this time a client is told that its request still runs.
_BUSY_SECONDS: Final = 20.0
# When who found no room for a session may ask again.
_FULL_SECONDS: Final = 5.0
T = TypeVar("T")
Handler = Callable[[Request, Asked], Awaitable[Answer]]


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
    keyring : Keyring, optional
        Several tokens, in the place of one.
    audit : AuditLog, optional
        Where requests are written down.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        token: str | None,
        limits: Limits | None = None,
        peers: Collection[str] = (),
        keyring: Keyring | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self._devices = devices
        self.limits = limits or Limits()
        self.keyring = keyring or keyring_of(token)
        self.metrics = Metrics()
        self.audit = audit or AuditLog(None)
        self.turns = Turns()
        self.doors = Doors(self.limits)
        self.drain = Drain(self.limits.lease_seconds)
        self.admission = Admission(self.keyring, self.limits, self.metrics, self.audit)
        self._graphs = Graphs(self.limits.graph_nodes)
        self._handing = Handing(self.limits.client_bytes, peers, partial(Connection, token=None))
        self.sessions: dict[str, Session] = {}
        # Each may wait for the one before it of its client, so there are more than cores.
        self._workers = ThreadPoolExecutor(self.limits.requests, "calor-http")
        self._overview = Overview(self, devices)

    @property
    def clients(self) -> int:
        """How many clients have a session."""
        return len(self.sessions)

    def app(self) -> Starlette:
        """Return the ASGI application."""
        session = "/v1/sessions/{session}"
        blobs = session + "/blobs/{number}/{offset}"
        answers = self._handler
        routes = [
            Route("/v1/sessions", answers("open", self._open), methods=["POST"]),
            Route("/v1/offers/{name}", answers("redeem", self._redeem, False), methods=["POST"]),
            Route(
                "/v1/offers/{name}/{offset}",
                answers("fetch", self._piece, False),
                methods=["GET"],
            ),
            Route(session, answers("close", self._close), methods=["DELETE"]),
            Route(session + "/requests/{number}", answers("requests", self._run), methods=["POST"]),
            Route(blobs, answers("put", self._put), methods=["PUT"]),
            Route(blobs, answers("get", self._get), methods=["GET"]),
            *health_routes(lambda: not self.drain.begun),
            *self._overview.routes(),
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
            for name in list(self.sessions):
                self._end(name, "end")
            self._handing.close()
            self._workers.shutdown(wait=False)
            self.audit.close()

    async def _end_leases(self) -> None:
        seconds = self.limits.lease_seconds
        while True:
            await asyncio.sleep(min(seconds / 4, 5.0))
            for look in (self.end_leases, self._handing.forget_old, self.keyring.refresh):
                await self._in_thread(look)

    def end_leases(self) -> None:
        """Free what clients hold that were not heard of within the time of their lease."""
        before = monotonic() - self.limits.lease_seconds
        for name, session in list(self.sessions.items()):
            # One that works for its client is not idle.
            if session.seen < before and not session.lock.locked():
                self._end(name, "expire")

    def end_empty(self) -> None:
        """End the sessions that hold nothing which their clients could fetch."""
        for name, session in list(self.sessions.items()):
            if session.idle_and_empty:
                self._end(name, "drain")

    def _end(self, name: str, why: str) -> None:
        session = self.sessions.pop(name, None)
        if session is None:
            return
        session.close()
        session.account.close()
        self.audit.write(why, session.account.name, "", "done", session=alias(name))

    # What every request passes.
    def _handler(
        self, route: str, inner: Handler, admits: bool = True
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return what answers requests; those for offers have a secret in the token's place."""

        async def handle(request: Request) -> Response:
            header = request.headers.get("authorization", "") if admits else None
            asked = Asked(route, peer_of(request.client), header, frees=route == "close")
            if "session" in request.path_params:
                asked.more["session"] = alias(request.path_params["session"])
            admission = self.admission
            try:
                if not self.keyring.wanted:
                    check_origin(request.headers)
                admission.begin(asked)
                answer = await inner(request, asked)
            except Exception as error:
                answer = admission.refuse(asked, error)
            admission.end(asked, answer)
            return Response(
                answer.frame,
                answer.status,
                answer.headers,
                media_type="application/octet-stream",
            )

        return handle

    async def _body(self, request: Request, asked: Asked, most: int) -> bytes:
        """Return a request's body, of which no more than ``most`` bytes are taken."""
        pieces: list[bytes] = []
        async with asyncio.timeout(self.limits.body_seconds):
            async for piece in request.stream():
                asked.came += len(piece)
                if asked.came > most + _SLACK:
                    raise LimitError(f"the request has more than {most} bytes")
                pieces.append(piece)
        return b"".join(pieces)

    def _session(self, request: Request, asked: Asked) -> Session:
        return self.session(request.path_params["session"], asked.account)

    def session(self, name: str, account: Account | None) -> Session:
        """Return a session of an account; LeaseLostError where there is none, or another's."""
        found = self.sessions.get(name)
        if found is None or found.account is not account:
            raise LeaseLostError("the server does not know this session")
        return found

    # The requests.
    async def _open(self, request: Request, asked: Asked) -> Answer:
        hello = unpack(await self._body(request, asked, CHUNK), CHUNK)
        if not isinstance(hello, dict) or hello.get("version") != VERSION:
            raise ArgumentError(
                f"the server speaks version {VERSION} of the protocol; install the same release of "
                f"calor-http on both sides"
            )
        self.drain.check()
        if len(self.sessions) >= self.limits.clients:
            full = QuotaError(f"the server has {self.limits.clients} clients, its limit; ask later")
            full.retry_after = _FULL_SECONDS
            raise full
        infos = await self._in_thread(self._infos)
        account = asked.sender
        account.open(self.admission.share(self.limits.clients))
        name = secrets.token_urlsafe(24)
        self.sessions[name] = Session(
            self._devices,
            self.limits,
            self._graphs,
            self._handing,
            account=account,
            turns=self.turns,
            drain=self.drain,
        )
        asked.more["session"] = alias(name)
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

    async def _close(self, request: Request, asked: Asked) -> Answer:
        self._session(request, asked)
        await self._in_thread(partial(self._end, request.path_params["session"], "freed"))
        return _done(None)

    async def _run(self, request: Request, asked: Asked) -> Answer:
        session, number = self._session(request, asked), _number(request, "number")
        frame = await self._body(request, asked, MESSAGE)
        told = Told()

        def work() -> bytes:
            return session.answer(number, frame, _accepts(request), told)

        # One that is repeated while it runs waits for the run that began.
        known, task = session.working or (0, None)
        asked.counts = False
        if task is None or task.done() or known != number:
            # It goes on when its client went away, and counts until it is done.
            task = self._in_thread(work)
            task.add_done_callback(partial(self._write_down, asked, told))
            session.working = number, task
        else:
            asked.sender.leave()
        done, _ = await asyncio.wait([task], timeout=_BUSY_SECONDS)
        return Answer(task.result()) if done else Answer(pack(None), 202, result="runs")

    def _write_down(self, asked: Asked, told: Told, task: asyncio.Future[bytes]) -> None:
        """Note what a request's commands were, when they are done."""
        asked.sender.leave()
        # Who sent it may be gone; what came of it is the answer's.
        if not task.cancelled():
            task.exception()
        self.admission.write_down(asked, told)

    async def _redeem(self, request: Request, asked: Asked) -> Answer:
        asked.more["offer"] = alias(request.path_params["name"])
        return _done(self._handing.redeem(request.path_params["name"]))

    async def _piece(self, request: Request, asked: Asked) -> Answer:
        name, offset = request.path_params["name"], _number(request, "offset")
        asked.more["offer"] = alias(name)
        return Answer(seal(self._handing.piece(name, offset)))

    async def _put(self, request: Request, asked: Asked) -> Answer:
        session = self._session(request, asked)
        number, offset = _number(request, "number"), _number(request, "offset")
        frame = await self._body(request, asked, CHUNK)

        return _done(await self._in_thread(partial(session.add_piece, number, offset, frame)))

    async def _get(self, request: Request, asked: Asked) -> Answer:
        session = self._session(request, asked)
        number, offset = _number(request, "number"), _number(request, "offset")

        def work() -> bytes:
            return seal(session.piece(number, offset), _accepts(request))

        return Answer(await self._in_thread(work))


async def _unknown(request: Request, error: Exception) -> Response:
    frame = failed(ArgumentError("the server has no such address"))
    return Response(frame, 404, media_type="application/octet-stream")


def _accepts(request: Request) -> bool:
    """Return whether a client wants compressed frames."""
    return bool(request.headers.get("x-calor-zstd", "") == "1")


def _number(request: Request, name: str) -> int:
    text: str = request.path_params[name]
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ArgumentError(f"a number is wanted in the address, not {text[:20]!r}")
    return int(text)


def _done(message: Any) -> Answer:
    return Answer(pack(message))
