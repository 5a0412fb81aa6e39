"""A server of models in a thread of this process, for tests and to try programs out."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import uvicorn

from calor.device_selection import current_device
from calor.plugins.discovery import get_device
from calor_http.model.command import configured
from calor_http.model.limits import Limits
from calor_http.model.repository import Repository, found
from calor_http.model.service import Service
from calor_http.server.local import LocalServer


class LocalModels(LocalServer):
    """Serves models at a free port of 127.0.0.1 inside a ``with`` block.

    Parameters
    ----------
    *paths : path-like
        Files and folders, as the command ``model`` takes them.
    device : str, optional
        What runs them.
    name : str, optional
        The name of the model, where there is one.
    versions : str, optional
        Which versions of folders: "latest", "all", or numbers with commas between.
    max_batch : int, optional
        The most rows that are joined.
    max_delay_ms : float, optional
        How many milliseconds a request waits for others.
    token : str, optional
        What clients have to show.
    limits : Limits, optional
        What it takes on.
    port : int, optional
        The port; by default a free one.
    tls : tuple of str, optional
        The files of a certificate and its key.

    Attributes
    ----------
    address : str
        Where it serves, such as ``http://127.0.0.1:40123``.
    """

    def __init__(
        self,
        *paths: Any,
        device: str | None = None,
        name: str | None = None,
        versions: str = "latest",
        max_batch: int = 32,
        max_delay_ms: float = 2.0,
        token: str | None = None,
        limits: Limits | None = None,
        port: int = 0,
        tls: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(token=token, port=port, tls=tls)
        self._files: Mapping[str, Mapping[str, Path]] = found(
            [Path(path) for path in paths], name, versions
        )
        self._device = current_device() if device is None else get_device(device)
        self._most, self._delay = max_batch, max_delay_ms / 1e3
        self._model_limits = limits or Limits()

    def start(self) -> Self:
        """Begin to serve; return the server once its models are ready."""
        ready = self._ready = threading.Event()
        super().start()
        ready.wait()
        return self

    def _config(self, **options: Any) -> uvicorn.Config:
        """Return what uvicorn runs."""
        models = Repository(
            self._files,
            self._device,
            most=self._most,
            delay=self._delay,
            queue=self._model_limits.queue,
        )
        self.service = Service(models, self._token, self._model_limits)
        self.service.when_ready = self._ready.set
        return configured(self.service, **options)
