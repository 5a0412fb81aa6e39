"""What a program asks of its session with a server: to keep copies of uploads, or to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calor.device_selection import as_device
from calor.errors import DeviceError

if TYPE_CHECKING:
    from calor_http.client.backend import RemoteBackend


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
    ...     device = calor.device(f"{server.address}/numpy")
    ...     keep(device)
    ...     calor.asarray([1.0, 2.0], device=device).tolist()
    [1.0, 2.0]
    """
    _remote(device).keeps = keeps


def close(device: Any) -> None:
    """End this program's session with a server, which frees what the program has there.

    What is queued is sent before. Nobody waits for the server afterwards, as `calor.synchronize`
    and `calor.timeit` do for all devices, and its devices cannot be used any more. The same address
    opens a new session, with devices of its own.

    Parameters
    ----------
    device : Device or str
        A device of the server.

    Raises
    ------
    DeviceError
        If the device is not one of a server.

    Examples
    --------
    >>> import calor
    >>> from calor_http import close
    >>> from calor_http.server.local import LocalServer
    >>> with LocalServer("numpy") as server:
    ...     device = calor.device(f"{server.address}/numpy")
    ...     calor.ones((2,), device=device).tolist()
    ...     close(device)
    [1.0, 1.0]
    """
    _remote(device).end()


def _remote(device: Any) -> RemoteBackend:
    from calor_http.client.backend import RemoteBackend

    found = as_device(device)
    if not isinstance(found.backend, RemoteBackend):
        raise DeviceError(f"{found.name} is no device of a server, so there is no session")
    return found.backend
