"""The page of a server, and the figures that it shows."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from calor_http.server.local import LocalServer
from calor_http.server.overview import policy_of
from calor_http.server.quotas import Quota
from calor_http.server.tokens import Entry, Keyring, hash_of
from raw_http_client import Client

TOKENS = {"anna": "the-token-of-anna-1", "watch": "the-token-that-watches"}


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    entries = [
        Entry(
            name,
            (hash_of(token),),
            Quota(observes=name == "watch", requests_per_second=0.001, requests_burst=3),
        )
        for name, token in TOKENS.items()
    ]
    with LocalServer("numpy", "strict:numpy", keyring=Keyring(entries)) as server:
        yield server


def figures(server: LocalServer, name: str) -> Any:
    header = {"Authorization": f"Bearer {TOKENS[name]}"}
    answer = httpx.get(f"{server.address}/v1/status", headers=header)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


def test_the_page_loads_nothing_and_runs_nothing_but_itself(server: LocalServer) -> None:
    answer = httpx.get(f"{server.address}/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = answer.text
    assert not re.search(r"(?:src|href|action)\s*=\s*[\"'](?!data:)", page)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg\")|@import|url\(", page)
    # Nothing that a client chose is read as a page.
    assert not re.search(r"innerHTML|outerHTML|document\.write|insertAdjacent|eval\(", page)
    assert not re.search(r"<[^>]+\s(?:style|on\w+)\s*=", page)
    policy = dict(
        part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
    )
    assert policy["default-src"] == policy["frame-ancestors"] == policy["form-action"] == "'none'"
    assert policy["connect-src"] == "'self'"
    for name in ("script", "style"):
        (text,) = re.findall(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[f"{name}-src"] == f"'sha256-{digest}'"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_page_of_another_form_has_no_policy() -> None:
    with pytest.raises(ValueError, match="one script"):
        policy_of("<script>1</script>")


def test_figures_are_those_of_ones_own_token(server: LocalServer) -> None:
    anna, watch = Client(server, TOKENS["anna"]), Client(server, TOKENS["watch"])
    anna.ask(["up", 1, 0, "int8", [1000], bytes(1000)], ["up", 2, 1, "int8", [10], bytes(10)])
    watch.ask(["up", 1, 0, "int8", [50], bytes(50)])
    # Asking for figures counts for no quota, and needs a token.
    for _ in range(10):
        mine = figures(server, "anna")
    assert [token["name"] for token in mine["tokens"]] == ["anna"]
    assert mine["tokens"][0]["bytes"] == 1010
    assert [device["bytes"] for device in mine["devices"]] == [1000, 10]
    assert all("in_use" not in device for device in mine["devices"])
    assert [session["token"] for session in mine["sessions"]] == ["anna"]
    assert "bytes_in" not in mine
    both = figures(server, "watch")
    assert [token["name"] for token in both["tokens"]] == ["anna", "watch"]
    assert [token["requests"] for token in both["tokens"]] == [2, 2]
    assert len(both["sessions"]) == 2
    assert both["bytes_in"] > 1000
    assert both["devices"][0]["busy_seconds"] > 0
    assert both["devices"][0]["in_use"] >= 0
    # No name of a session lets anybody use it.
    for session in both["sessions"]:
        assert session["name"] not in anna.session + watch.session
    for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKENS["watch"]}):
        refused = httpx.get(f"{server.address}/v1/status", headers=header)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    anna.close()
    watch.close()


def test_without_tokens_everybody_sees_the_figures() -> None:
    with LocalServer("numpy") as server:
        found = httpx.get(f"{server.address}/v1/status").json()
        assert found["observes"]
        assert [token["name"] for token in found["tokens"]] == ["everybody"]
        assert not found["draining"]
        server.server.drain.begin()
        assert httpx.get(f"{server.address}/v1/status").json()["draining"]
