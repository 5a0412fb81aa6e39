"""A server in a thread of this process, for tests and to try programs out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

import uvicorn

from calor.errors import DeviceError
from calor.plugins.discovery import get_device
from calor_http.server.app import Server
from calor_http.server.audit import AuditLog
from calor_http.server.limits import Limits
from calor_http.server.serving import address_of, configured, serve
from calor_http.server.tokens import Keyring


class LocalServer:
    """Serves devices at a free port of 127.0.0.1 inside a ``with`` block.

    Parameters
    ----------
    *devices : str
        The names of the devices.
    token : str, optional
        What clients have to show; by default everybody on this machine gets in.
    limits : Limits, optional
        What clients may do.
    port : int, optional
        The port; by default a free one.
    tls : tuple of str, optional
        The files of a certificate and its key; by default there is no TLS.
    peers : sequence of str, optional
        The addresses of servers from which values may be fetched.
    keyring : Keyring, optional
        Several tokens with quotas, in the place of one.
    audit : AuditLog, optional
        Where requests are written down.

    Attributes
    ----------
    address : str
        Where it serves, such as ``http://127.0.0.1:40123``.
    """

    def __init__(
        self,
        *devices: str,
        token: str | None = None,
        limits: Limits | None = None,
        port: int = 0,
        tls: tuple[str, str] | None = None,
        peers: Sequence[str] = (),
        keyring: Keyring | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self._tls = {"ssl_certfile": tls[0], "ssl_keyfile": tls[1]} if tls else {}
        self._devices: Sequence[str] = devices
        self._peers = peers
        self._keyring = keyring
        self._audit = audit
        self._token = token
        self._limits = limits
        self._port = port
        self.address = ""

    def start(self) -> Self:
        """Begin to serve.

        Returns
        -------
        LocalServer
            The server itself.

        Raises
        ------
        DeviceError
            If the port is taken.
        """
        config = self._config(port=self._port, log_level="critical", **self._tls)
        started: SimpleQueue[Any] = SimpleQueue()

        def work() -> None:
            # Uvicorn ends its process where the port is taken.
            with suppress(SystemExit):
                asyncio.run(serve(config, started.put))
            started.put(None)

        self._thread = threading.Thread(target=work, name="calor-http-server", daemon=True)
        self._thread.start()
        self._uvicorn = started.get()
        if self._uvicorn is None:
            raise DeviceError(f"port {self._port} is taken")
        self.address = address_of(self._uvicorn)
        self._port = int(self.address.rpartition(":")[2])
        return self

    def _config(self, **options: Any) -> uvicorn.Config:
        """Return what uvicorn runs."""
        devices = [get_device(name) for name in self._devices]
        self.server = Server(
            devices, self._token, self._limits, self._peers, self._keyring, self._audit
        )
        return configured(self.server, **options)

    def stop(self) -> None:
        """End all connections and sessions; `start` serves again at the same port."""
        self._uvicorn.should_exit = True
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Nobody of this process waits for a server that is gone.
        from calor_http.client.backend import end_session

        end_session(self.address)
        self.stop()
