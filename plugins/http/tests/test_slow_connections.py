"""Connections that are slow on purpose: they end, and keep nobody out meanwhile."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from calor_http.frames import pack, seal
from calor_http.server.limits import MIB, Limits
from calor_http.server.local import LocalServer
from raw_http_client import Client

HEAD = b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\n"
LONG = 60.0


def served(**limits: Any) -> LocalServer:
    given = {"header_seconds": LONG, "body_seconds": LONG, **limits}
    return LocalServer("numpy", limits=Limits(**given))


def opened(server: LocalServer, stack: ExitStack) -> socket.socket:
    port = int(server.address.rpartition(":")[2])
    return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))


def ended(connection: socket.socket) -> bool:
    """Wait until the other end ends a connection; return whether it did."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def trickle(connections: list[socket.socket], stop: threading.Event) -> threading.Thread:
    """Send a letter over each connection again and again."""

    def work() -> None:
        while not stop.wait(0.02):
            for connection in connections:
                with suppress(OSError):
                    connection.send(b"a")

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("of_one_address", [True, False])
def test_many_slow_heads_keep_nobody_out(stack: ExitStack, of_one_address: bool) -> None:
    few = {"address_connections" if of_one_address else "connections": 20}
    with served(**few) as server:
        slow = [opened(server, stack) for _ in range(60)]
        for connection in slow:
            connection.sendall(HEAD + b"X: ")
        stop = threading.Event()
        thread = trickle(slow, stop)
        good = Client(server)
        for n in range(1, 30):
            assert good.ask(["up", n, 0, "int8", [1], b"1"], ["read", n, 0, 900 + n])[1] == b"1"
        assert server.server.doors.count <= 20
        # The slow ones made room, the oldest first, and not who works.
        assert server.server.doors.count > 1
        assert ended(slow[0])
        stop.set()
        thread.join()
        good.close()


def test_a_head_that_never_ends_ends(stack: ExitStack) -> None:
    with served(header_seconds=0.1) as server:
        silent, begun, again = (opened(server, stack) for _ in range(3))
        begun.sendall(HEAD)
        stop = threading.Event()
        again.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert again.recv(4096).startswith(b"HTTP/1.1 200")
        # What stays open for the next request is not slow; the head of that one may be.
        again.sendall(HEAD)
        thread = trickle([begun, again], stop)
        assert [ended(connection) for connection in (silent, begun, again)] == [True] * 3
        assert server.server.doors.closed == 3
        stop.set()
        thread.join()
        good = Client(server)
        time.sleep(0.3)
        assert good.ask(["memory", 0]) == [[0, 0]]
        good.close()


def test_slow_bodies_end_and_keep_nobody_out(stack: ExitStack) -> None:
    with served(body_seconds=0.3) as server:
        good = Client(server)
        slow = [opened(server, stack) for _ in range(40)]
        for connection in slow:
            connection.sendall(HEAD + b"Content-Length: 100000\r\n\r\n")
        stop = threading.Event()
        thread = trickle(slow, stop)
        assert good.ask(["memory", 0]) == [[0, 0]]
        answers = [connection.recv(4096) for connection in slow]
        assert all(b" 408 " in answer.partition(b"\r\n")[0] for answer in answers)
        assert all(ended(connection) for connection in slow)
        stop.set()
        thread.join()
        good.close()


def test_the_rest_of_a_body_that_nobody_wants_ends(stack: ExitStack) -> None:
    with served(header_seconds=0.2) as server:
        connection = opened(server, stack)
        connection.sendall(
            b"PUT /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
        )
        assert connection.recv(4096).startswith(b"HTTP/1.1 404")
        stop = threading.Event()
        thread = trickle([connection], stop)
        assert ended(connection)
        stop.set()
        thread.join()


def test_who_does_not_read_is_not_waited_for(stack: ExitStack) -> None:
    with served(body_seconds=0.3) as server:
        client = Client(server)
        for n in range(8):
            client.http.put(f"{client.session}/blobs/7/{n * MIB}", content=seal(bytes(MIB)))
        client.ask(["take", 1, 0, "int8", [8 * MIB], 7], ["read", 1, 0, 2])
        connection = opened(server, stack)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = f"GET {client.session}/blobs/2/0 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        # More than the system keeps for it.
        connection.sendall(3 * request.encode())
        end = time.monotonic() + 20
        while server.server.doors.closed == 0:
            assert time.monotonic() < end, "it waits for ever"
            time.sleep(0.01)
        assert client.ask(["memory", 0]) == [[8 * MIB, 8 * MIB]]
        client.close()


def test_requests_that_run_are_not_cut_for_others(stack: ExitStack) -> None:
    with served(connections=4) as server:
        client = Client(server)
        working = [opened(server, stack) for _ in range(3)]
        for connection in working:
            connection.sendall(HEAD + b"Content-Length: 100\r\n\r\n")
        assert client.ask(["memory", 0]) == [[0, 0]]
        # Only idle connections make room; with none, who comes last has to come again.
        for connection in working:
            connection.sendall(pack({"version": 1}))
        late = [opened(server, stack) for _ in range(3)]
        assert ended(late[0])
        assert client.ask(["memory", 0]) == [[0, 0]]
        client.close()
