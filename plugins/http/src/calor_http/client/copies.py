"""What of a client's uploads survives a restart of its server: what it keeps a copy of."""

from __future__ import annotations

from typing import Any

from calor.device_selection import as_device
from calor.errors import DeviceError


def keep(device: Any, keeps: bool = True) -> None:
    """Keep copies of later uploads here, so that a restart of the server does not lose them.

    They are uploaded again when the server is back, unless a program wrote to them in place.
    Results of programs are not kept. A copy takes the memory of its tensor on this machine.

    Parameters
    ----------
    device : Device or str
        A device of a server; the setting is that of the whole server.
    keeps : bool, optional
        Whether copies are kept from now on.

    Raises
    ------
    DeviceError
        If the device is not one of a server.

    Examples
    --------
    >>> import calor
    >>> from calor_http import keep
    >>> from calor_http.server.local import LocalServer
    >>> with LocalServer("numpy") as server:
    ...     device = calor.device(f"{server.address}/numpy").device
    ...     keep(device)
    ...     calor.asarray([1.0, 2.0], device=device).tolist()
    [1.0, 2.0]
    """
    from calor_http.client.backend import RemoteBackend

    found = as_device(device)
    if not isinstance(found.backend, RemoteBackend):
        raise DeviceError(f"{found.name} is no device of a server, so nothing has to be kept")
    found.backend.keeps = keeps
