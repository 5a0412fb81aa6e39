"""The page at ``/`` and the figures that it shows, and the metrics.

Requirements: the page is one file that loads nothing from elsewhere and may run nothing but what is
in it; figures need a token when the server has tokens; a token sees its own figures, and those of
all if it observes. Asking for figures counts for no quota.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from time import monotonic
from typing import Any, Final, Protocol

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from calor.backends.device import Device
from calor.errors import ArgumentError
from calor_http.errors import TokenExpiredError
from calor_http.server.audit import AuditLog, alias
from calor_http.server.connections import Doors
from calor_http.server.draining import Drain
from calor_http.server.metrics import Metrics
from calor_http.server.origins import check_origin
from calor_http.server.queueing import Turns
from calor_http.server.quotas import Account
from calor_http.server.refusals import Refused
from calor_http.server.session import Session
from calor_http.server.tokens import Keyring

_SECURE: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Observed(Protocol):
    """What has figures: a server."""

    keyring: Keyring
    metrics: Metrics
    audit: AuditLog
    turns: Turns
    doors: Doors
    drain: Drain
    sessions: dict[str, Session]


class Overview:
    """What a server tells of itself.

    Parameters
    ----------
    server : Observed
        The server.
    devices : sequence of Device
        Its devices.
    """

    def __init__(self, server: Observed, devices: Sequence[Device]) -> None:
        self._server = server
        self._devices = devices
        self._began = monotonic()
        self._page = files("calor_http.server").joinpath("page.html").read_text("utf-8")
        self._policy = policy_of(self._page)
        self._add_gauges()

    def routes(self) -> list[Route]:
        """Return the routes of the page, of its figures, and of the metrics."""
        return [
            Route("/", self._show, methods=["GET"]),
            Route("/v1/status", self._answers(self._status), methods=["GET"]),
            Route("/metrics", self._answers(self._metrics), methods=["GET"]),
        ]

    async def _show(self, request: Request) -> Response:
        return HTMLResponse(
            self._page, headers={"Content-Security-Policy": self._policy, **_SECURE}
        )

    def _answers(self, inner: Callable[[Account], Response]) -> Any:
        async def answer(request: Request) -> Response:
            try:
                if not self._server.keyring.wanted:
                    check_origin(request.headers)
                account = self._server.keyring.account(request.headers.get("authorization", ""))
            except (Refused, TokenExpiredError):
                headers = {"WWW-Authenticate": "Bearer", **_SECURE}
                return JSONResponse({"error": "a token is needed"}, 401, headers)
            except ArgumentError as error:
                return JSONResponse({"error": str(error)}, 400, _SECURE)
            # What devices have in use is asked of their drivers.
            return await asyncio.to_thread(inner, account)

        return answer

    def _metrics(self, account: Account) -> Response:
        if not account.quota.observes:
            return JSONResponse({"error": "this token does not observe"}, 403, _SECURE)
        return self._server.metrics.response()

    def _status(self, account: Account) -> Response:
        seen = self._accounts() if account.quota.observes else [account]
        return JSONResponse(self.figures(seen, account.quota.observes), headers=_SECURE)

    def _accounts(self) -> list[Account]:
        return list(self._server.keyring.accounts.values())

    def figures(self, seen: Sequence[Account], whole: bool) -> dict[str, Any]:
        """Return figures of some tokens; of the ``whole`` server also what devices hold."""
        server = self._server
        now = monotonic()
        waiting, turns = server.turns.waiting(), server.turns.taken()
        sessions = [
            {
                "name": alias(name),
                "token": session.account.name,
                "bytes": session.held.total(),
                "idle_seconds": round(max(0.0, now - session.seen), 1),
                "works": session.lock.locked(),
                "seconds": round(now - session.began, 1),
            }
            for name, session in list(server.sessions.items())
            if session.account in seen
        ]
        return {
            "uptime_seconds": round(now - self._began, 1),
            "draining": server.drain.begun,
            "observes": whole,
            "devices": self._device_figures(seen, whole),
            "tokens": [
                {
                    "name": account.name,
                    "sessions": account.sessions,
                    "bytes": account.memory.nbytes,
                    "memory": account.quota.memory,
                    "requests": account.requests,
                    "pending": account.pending,
                    "waiting": waiting[account.name],
                    "turns": turns[account.name],
                    "device_seconds": round(account.device_seconds, 4),
                    "device_seconds_left": account.time and round(account.time.level, 3),
                    "device_seconds_quota": account.quota.device_seconds,
                }
                for account in seen
            ],
            "sessions": sessions,
            **(server.metrics.totals() if whole else {}),
        }

    def _device_figures(self, seen: Sequence[Account], whole: bool) -> list[dict[str, Any]]:
        found = []
        for device in self._devices:
            told: dict[str, Any] = {
                "name": device.name,
                "description": device.info.description,
                "bytes": sum(
                    session.held[device]
                    for session in list(self._server.sessions.values())
                    if session.account in seen
                ),
            }
            if whole:
                memory = device.backend.memory(device.index)
                told.update(in_use=memory.in_use, peak=memory.peak, limit=memory.limit)
                told.update(busy_seconds=round(self._server.turns.queue(device).seconds, 4))
            found.append(told)
        return found

    def _add_gauges(self) -> None:
        server, gauge = self._server, self._server.metrics.gauge
        token = ("token",)

        def of_tokens(read: Callable[[Account], float]) -> Any:
            return lambda: [((a.name,), read(a)) for a in self._accounts()]

        gauge("sessions", "Open sessions.", token, of_tokens(lambda a: a.sessions))
        gauge(
            "held_bytes", "Bytes that sessions hold.", token, of_tokens(lambda a: a.memory.nbytes)
        )
        gauge("pending_requests", "Requests under way.", token, of_tokens(lambda a: a.pending))
        gauge(
            "device_seconds_total",
            "Seconds for which commands held devices or the compiler.",
            token,
            of_tokens(lambda a: a.device_seconds),
        )
        gauge("connections", "Open connections.", (), lambda: [((), server.doors.count)])
        gauge("connections_cut_total", "Connections that were slow, or in the way of others.", (),
              lambda: [((), server.doors.closed)])  # fmt: skip

        def waiting() -> Iterable[tuple[tuple[str, ...], float]]:
            found = server.turns.waiting()
            return [((a.name,), found[a.name]) for a in self._accounts()]

        gauge("waiting_requests", "Requests that wait for a device.", token, waiting)

        def in_use() -> Iterable[tuple[tuple[str, ...], float]]:
            return [((d.name,), d.backend.memory(d.index).in_use) for d in self._devices]

        gauge("device_memory_bytes", "Bytes in use on devices.", ("device",), in_use)
        gauge("draining", "1 while the server ends.", (), lambda: [((), server.drain.begun)])
        gauge("audit_lost_lines_total", "Lines of the audit log that were lost.", (),
              lambda: [((), server.audit.lost)])  # fmt: skip


def policy_of(page: str) -> str:
    """Return the policy by which a page runs its own script, has its own style, and asks its host.

    Raises
    ------
    ArgumentError
        If the page has anything of another form.
    """
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    if len(scripts) != 1 or len(styles) != 1:
        raise ArgumentError("the page has one script and one style")
    script, style = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (scripts[0], styles[0])
    )
    return (
        f"default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; "
        f"img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        f"frame-ancestors 'none'"
    )
