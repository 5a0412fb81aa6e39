"""What a model server takes on, as numbers that its operator can set."""

from __future__ import annotations

from dataclasses import dataclass

from calor_http.server.limits import GIB, MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a model server.

    Parameters
    ----------
    body_bytes : int, optional
        The most bytes of a request's body.
    json_bytes : int, optional
        The most bytes of JSON in a body, which take some twenty times as many once parsed.
    held_bytes : int, optional
        The most bytes of all bodies together that arrive, wait, or are computed.
    queue : int, optional
        The most requests that wait for a model.
    connections : int, optional
        The most open connections.
    body_seconds : float, optional
        How long a request may take to arrive.
    idle_seconds : float, optional
        How long a connection without requests is kept.
    drain_seconds : float, optional
        How long a server that is told to end waits for open requests.
    """

    body_bytes: int = 256 * MIB
    json_bytes: int = 32 * MIB
    held_bytes: int = GIB
    queue: int = 1024
    connections: int = 512
    body_seconds: float = 60.0
    idle_seconds: float = 75.0
    drain_seconds: float = 30.0
