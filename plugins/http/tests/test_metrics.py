"""What servers count, and how they say that they live."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from starlette.applications import Starlette

from calor_http.server.health import health_routes
from calor_http.server.metrics import Metrics
from prometheus_samples import samples


def test_counts_and_gauges_are_in_prometheus_format() -> None:
    metrics, other = Metrics(), Metrics()
    metrics.answered("requests", 200, 0.02, 100, 7)
    metrics.answered("requests", 429, 0.001, 1, 2)
    level = [((), 3.0)]
    metrics.gauge("sessions", "Sessions that are open.", (), lambda: level)
    spoken: Any = 'a "name"\\ of\n lines'
    metrics.gauge("held_bytes", "Bytes.", ("token",), lambda: [((spoken,), 8.0)])
    answer = metrics.response()
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found = samples(answer.body.decode())
    route = ("route", "requests")
    assert found["calor_http_requests_total", frozenset([route, ("status", "200")])] == 1
    assert found["calor_http_request_seconds_count", frozenset([route])] == 2
    assert found["calor_http_request_seconds_bucket", frozenset([route, ("le", "0.01")])] == 1
    assert found["calor_http_body_bytes_total", frozenset([("direction", "in")])] == 101
    assert found["calor_http_sessions", frozenset()] == 3
    assert found["calor_http_held_bytes", frozenset([("token", spoken)])] == 8
    level[0] = ((), 4.0)
    assert samples(metrics.response().body.decode())["calor_http_sessions", frozenset()] == 4
    assert not any(
        name == "calor_http_requests_total" for name, _ in samples(other.response().body.decode())
    )


def test_health_is_told_without_a_token() -> None:
    ready = [True]
    app = Starlette(routes=health_routes(lambda: ready[0]))

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://here"
        ) as client:
            return [await client.get(path) for path in ("/healthz", "/readyz")]

    assert [answer.status_code for answer in asyncio.run(ask())] == [200, 200]
    ready[0] = False
    lives, takes = asyncio.run(ask())
    assert (lives.status_code, takes.status_code) == (200, 503)
    assert takes.headers["retry-after"] == "5"
