"""A client of servers of devices for tests, which sends single requests, right or wrong."""

from __future__ import annotations

from typing import Any

import httpx

from calor_http.frames import MESSAGE, pack, unpack
from calor_http.server.local import LocalServer


class Client:
    """A client that sends whatever it wants.

    Parameters
    ----------
    server : LocalServer
        The server.
    token : str or None, optional
        What it shows.
    """

    def __init__(self, server: LocalServer, token: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.http = httpx.Client(base_url=server.address, headers=headers, timeout=20)
        answer = self.http.post("/v1/sessions", content=pack({"version": 1}))
        assert answer.status_code == 200, answer.content
        self.session = f"/v1/sessions/{unpack(answer.content, MESSAGE)['session']}"
        self.sent = 0

    def ask(self, *commands: Any) -> list[Any]:
        """Send commands as one request, and return their answers."""
        path = f"{self.session}/requests/{self.sent + 1}"
        answer = self.http.post(path, content=pack(list(commands)))
        assert answer.status_code == 200, unpack(answer.content, MESSAGE)
        self.sent += 1
        found: list[Any] = unpack(answer.content, MESSAGE)
        return found

    def post(self, *commands: Any) -> httpx.Response:
        """Send commands as one request, and return the answer, whatever it is."""
        path = f"{self.session}/requests/{self.sent + 1}"
        answer = self.http.post(path, content=pack(list(commands)))
        self.sent += answer.status_code == 200
        return answer

    def close(self) -> None:
        """End the session."""
        assert self.http.delete(self.session).status_code == 200
        self.http.close()

    def kinds(self, *commands: Any) -> list[str | None]:
        """Return the kinds of the errors that commands have as answers."""
        return [
            a["error"]["kind"] if isinstance(a, dict) and "error" in a else None
            for a in self.ask(*commands)
        ]


def kind_of(answer: httpx.Response) -> str:
    """Return the kind of the error in an answer."""
    kind = unpack(answer.content, MESSAGE)["error"]["kind"]
    assert isinstance(kind, str)
    assert b"Traceback" not in answer.content
    return kind
