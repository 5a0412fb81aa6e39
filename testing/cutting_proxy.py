"""A proxy between a client and a server that cuts connections at drawn places."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class CuttingProxy:
    """Passes bytes on to a server, and cuts a share of the connections at a drawn byte.

    Parameters
    ----------
    port : int
        The port of the server.
    seed : int
        What the cuts are drawn with.
    mean : int
        The bytes that a connection passes, on average, before it is cut; each way counts.
    """

    def __init__(self, port: int, seed: int, mean: int) -> None:
        self._target = port
        self._rng = random.Random(seed)
        self._mean = mean
        self.cuts = 0
        # A proxy that is not whole lets nothing pass.
        self.whole = True
        self.passed = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listening.close()
        self.cut_all()

    def cut_all(self) -> None:
        """Cut all connections."""
        for side in list(self._open):
            _end(side)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            if not self.whole:
                _end(near)
                continue
            far = socket.create_connection(("127.0.0.1", self._target))
            self._open |= {near, far}
            for source, sink in ((near, far), (far, near)):
                most = int(self._rng.expovariate(1 / self._mean))
                threading.Thread(target=self._pass, args=(source, sink, most), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, most: int) -> None:
        try:
            while data := source.recv(min(65536, max(most, 1))):
                if most <= 0:
                    self.cuts += 1
                    break
                sink.sendall(data)
                most -= len(data)
                self.passed += len(data)
        except OSError:
            pass
        for side in (source, sink):
            self._open.discard(side)
            _end(side)


def _end(side: socket.socket) -> None:
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()
