"""Requests to one server, repeated until they are answered.

Requirements: every request may be repeated, so a broken connection costs time and nothing else; who
waits for a server that stays away learns so after CALOR_HTTP_PATIENCE seconds.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import time
from contextlib import suppress
from typing import Any, Final

import httpx

from calor.errors import DeviceError, DeviceLostError, FormatError
from calor_http.errors import decode_error
from calor_http.frames import MESSAGE, compresses, unpack, unseal

VERSION: Final = 1
_WORKING: Final = 202
_BUSY: Final = (408, 422, 429, 502, 503, 504)
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 2.0


def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Away(DeviceLostError):
    """The server did not answer for as long as the client is patient."""


class Connection:
    """The way to a server.

    Parameters
    ----------
    base : str
        Its address, such as ``https://gpu.example:8470``.
    token : str or None
        What it wants to see.
    """

    def __init__(self, base: str, token: str | None) -> None:
        url = httpx.URL(base)
        self.base = base
        self.patience = float(os.environ.get("CALOR_HTTP_PATIENCE", "30"))
        self.compress = compresses() and os.environ.get("CALOR_HTTP_ZSTD", "0") == "1"
        local = is_loopback(url.host)
        if token and url.scheme == "http" and not local:
            raise DeviceError(f"the token would go to {url.host} without encryption; use https://")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if self.compress:
            headers["X-Calor-Zstd"] = "1"
        authority = os.environ.get("CALOR_HTTP_CA")
        verify: Any = ssl.create_default_context(cafile=authority) if authority else True
        self._client = httpx.Client(
            base_url=base,
            headers=headers,
            verify=verify,
            trust_env=not local,
            # A server that works for longer says so.
            timeout=httpx.Timeout(45.0, connect=5.0),
        )

    def message(self, method: str, path: str, content: bytes = b"") -> Any:
        """Send a request and return the message of its answer."""
        return unpack(self._send(method, path, content), MESSAGE)

    def content(self, method: str, path: str) -> bytes:
        """Send a request and return the bytes of its answer."""
        return unseal(self._send(method, path, b""), MESSAGE)

    def _send(self, method: str, path: str, content: bytes) -> bytes:
        """Return the frame of the answer; raise the error that the server tells."""
        began = time.monotonic()
        pause = _FIRST_PAUSE
        while True:
            try:
                answer = self._client.request(method, path, content=content)
                if answer.status_code == 200:
                    frame: bytes = answer.content
                    unseal(frame, MESSAGE)
                    return frame
                if answer.status_code == _WORKING:
                    began, pause = time.monotonic(), _FIRST_PAUSE
                    continue
                if answer.status_code not in _BUSY:
                    raise self._refusal(answer)
                why = f"status {answer.status_code}"
            except (httpx.TransportError, FormatError) as error:
                why = f"{type(error).__name__}: {error}"
            if time.monotonic() - began + pause > self.patience:
                raise Away(
                    f"{self.base} did not answer for {self.patience:g} s ({why}); a later call "
                    f"tries again, CALOR_HTTP_PATIENCE sets the seconds"
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _refusal(self, answer: httpx.Response) -> Exception:
        if answer.status_code == 401:
            return DeviceError(
                f"{self.base} does not know the token; set CALOR_HTTP_TOKEN, or add a line "
                f'"{self.base.partition("//")[2]} TOKEN" to the file of tokens'
            )
        try:
            return decode_error(unpack(answer.content, MESSAGE)["error"])
        except (FormatError, KeyError, TypeError):
            return DeviceError(
                f"{self.base} answered with status {answer.status_code}; is it calor's server?"
            )

    def close(self) -> None:
        """Close what is open."""
        self._client.close()

    def end(self, path: str) -> None:
        """Send a request whose answer nobody waits for, when the process ends."""
        with suppress(httpx.HTTPError):
            self._client.request("DELETE", path, timeout=2.0)
        self._client.close()
