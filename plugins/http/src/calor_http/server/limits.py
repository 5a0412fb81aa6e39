"""What a server lets clients do, as numbers that its operator can set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MIB: Final = 1 << 20
GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server.

    Parameters
    ----------
    tensor_bytes : int, optional
        The most bytes of one tensor.
    client_bytes : int, optional
        The most bytes that a client holds on all devices together, transfers included.
    graph_nodes : int, optional
        The most nodes of a graph, those of its sub-graphs included.
    graph_bytes : int, optional
        The most bytes of a graph's file form.
    handles : int, optional
        The most values, and the most programs, that a client holds.
    commands : int, optional
        The most commands in one request.
    clients : int, optional
        The most clients.
    requests : int, optional
        The most requests that wait or run at one time; each token has an equal share.
    connections : int, optional
        The most open connections.
    address_connections : int, optional
        The most open connections from one address.
    header_seconds : float, optional
        How long the head of a request may take to arrive.
    body_seconds : float, optional
        How long the body of a request may take to arrive, and an answer to be read.
    lease_seconds : float, optional
        How long what a client has is kept after its last request.
    """

    tensor_bytes: int = 16 * GIB
    client_bytes: int = 64 * GIB
    graph_nodes: int = 1 << 17
    graph_bytes: int = 256 * MIB
    handles: int = 1 << 20
    commands: int = 1 << 14
    clients: int = 64
    requests: int = 256
    connections: int = 512
    address_connections: int = 256
    header_seconds: float = 10.0
    body_seconds: float = 60.0
    lease_seconds: float = 300.0
