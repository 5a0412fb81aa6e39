"""Requests to one server, repeated until they are answered.

Requirements: every request may be repeated, so a broken connection costs time and nothing else; who
waits for a server that stays away learns so after CALOR_HTTP_PATIENCE seconds; who is told to come
later does, and learns at once where that is longer.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar
from urllib.request import getproxies, proxy_bypass

import httpx

from calor.errors import CalorError, DeviceError, DeviceLostError, FormatError
from calor_http.checksums import Content
from calor_http.errors import (
    DrainingError,
    QuotaError,
    TokenError,
    TokenExpiredError,
    decode_error,
)
from calor_http.frames import MESSAGE, compresses, message_of, unpack, unseal

VERSION: Final = 1
_WORKING: Final = 202
_CROWDED: Final = 429
_BUSY: Final = (408, 422, _CROWDED, 502, 503, 504)
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 2.0
T = TypeVar("T")


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


class Working(Exception):
    """The request still runs: it is to be sent again."""


class Later(Exception):
    """The server may do it later: after so many seconds, if it says so, and why."""

    def __init__(self, status: int, error: CalorError | None, after: str) -> None:
        super().__init__(f"status {status}")
        self.error: CalorError | None = None
        self.wait = _seconds(after)
        if isinstance(error, QuotaError | DrainingError):
            self.error, self.wait = error, error.retry_after


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
        local = self._local = is_loopback(url.host)
        if token and url.scheme == "http" and not local:
            raise DeviceError(f"the token would go to {url.host} without encryption; use https://")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        if self.compress:
            self.headers["X-Calor-Zstd"] = "1"
        authority = os.environ.get("CALOR_HTTP_CA")
        self.context = (
            ssl.create_default_context(cafile=authority)
            if authority
            else httpx.create_ssl_context(trust_env=not local)
        )
        self._client = httpx.Client(
            base_url=base,
            headers=self.headers,
            verify=self.context,
            trust_env=not local,
            # A server that works for longer says so.
            timeout=httpx.Timeout(45.0, connect=5.0),
        )

    def message(self, method: str, path: str, content: bytes = b"") -> Any:
        """Send a request and return the message of its answer."""
        return message_of(self.content(method, path, content))

    def content(self, method: str, path: str, content: bytes = b"") -> Content:
        """Send a request and return the content of its answer."""
        return self.patiently(lambda: self._once(method, path, content))

    def patiently(self, attempt: Callable[[], T]) -> T:
        """Return what an attempt at a request returns, which is repeated while connections fail."""
        began = time.monotonic()
        pause = _FIRST_PAUSE
        while True:
            try:
                return attempt()
            except Working:
                began, pause = time.monotonic(), _FIRST_PAUSE
                continue
            except Later as later:
                pause = max(pause, later.wait)
                if later.error and time.monotonic() - began + pause > self.patience:
                    raise later.error from None
                why = str(later)
            except (httpx.TransportError, OSError, FormatError) as error:
                why = f"{type(error).__name__}: {error}"
            if time.monotonic() - began + pause > self.patience:
                raise Away(
                    f"{self.base} did not answer for {self.patience:g} s ({why}); a later call "
                    f"tries again, CALOR_HTTP_PATIENCE sets the seconds"
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _once(self, method: str, path: str, content: bytes) -> Content:
        answer = self._client.request(method, path, content=content)
        self.check(answer.status_code, answer.content, answer.headers.get("retry-after", ""))
        return unseal(answer.content, MESSAGE)

    def check(self, status: int, frame: Content, after: str = "") -> None:
        """Raise what an answer's status says, unless it is that of a request that was answered.

        The field ``Retry-After`` may be set by a proxy; calor's server tells it in the error too.
        """
        if status == 200:
            return
        if status == _WORKING:
            raise Working
        if status in _BUSY:
            told = _error_in(frame)
            if told is None and status == _CROWDED:
                told = self._crowded(after)
            raise Later(status, told, after)
        raise self._refusal(status, frame)

    def _crowded(self, after: str) -> QuotaError:
        """Return the error of an answer that calor's server did not write."""
        error = QuotaError(
            f"something before {self.base} lets no more requests pass (status 429); send fewer, or "
            f"later, or let CALOR_HTTP_PATIENCE be more seconds than {self.patience:g}"
        )
        error.retry_after = _seconds(after)
        return error

    def _refusal(self, status: int, frame: Content) -> Exception:
        told = _error_in(frame)
        if isinstance(told, TokenExpiredError):
            return told
        if status == 401:
            return TokenError(
                f"{self.base} does not know the token; set CALOR_HTTP_TOKEN, or add a line "
                f'"{self.base.partition("//")[2]} TOKEN" to the file of tokens'
            )
        return told or DeviceError(
            f"{self.base} answered with status {status}; is it calor's server?"
        )

    @property
    def direct(self) -> bool:
        """Whether no proxy of the environment stands before the server."""
        url = httpx.URL(self.base)
        proxies = {} if self._local else getproxies()
        named = url.scheme in proxies or "all" in proxies
        return not named or bool(proxy_bypass(url.host))

    def close(self) -> None:
        """Close what is open."""
        self._client.close()

    def end(self, path: str) -> None:
        """Send a request whose answer nobody waits for, when the process ends."""
        with suppress(httpx.HTTPError):
            self._client.request("DELETE", path, timeout=2.0)
        self._client.close()


def _seconds(after: str) -> float:
    """Return the seconds of a field Retry-After; 0 where it has none."""
    return float(after) if after.isascii() and after.isdecimal() else 0.0


def _error_in(frame: Content) -> CalorError | None:
    """Return the error that the body of an answer tells, if it tells one."""
    try:
        return decode_error(unpack(frame, MESSAGE)["error"])
    except (FormatError, KeyError, TypeError):
        return None
