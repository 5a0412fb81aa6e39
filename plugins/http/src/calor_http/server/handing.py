"""Values that one server hands to another: by a secret that is of use once, for a minute.

Requirements: the client moves nothing but the secret; a server fetches from the servers that its
operator named, and from nowhere else; who has a secret gets that value and nothing more.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable, Collection
from time import monotonic
from typing import Any, Final

from calor.errors import ArgumentError, FormatError
from calor_http.errors import LimitError
from calor_http.frames import CHUNK

_SECONDS: Final = 60.0


class Handing:
    """The values that a server offers to others, and what it fetches from them.

    Parameters
    ----------
    most : int
        The most bytes that are offered at one time.
    peers : collection of str
        The addresses of the servers from which values may be fetched.
    connect : callable
        Takes an address; returns the way to that server.
    """

    def __init__(self, most: int, peers: Collection[str], connect: Callable[[str], Any]) -> None:
        self.peers = frozenset(peer.rstrip("/") for peer in peers)
        self._most = most
        self._connect = connect
        # By digests: how long a look takes tells nothing of the secrets.
        self._offered: dict[bytes, tuple[memoryview, float]] = {}
        self._redeemed: dict[bytes, tuple[memoryview, float]] = {}
        self._ways: dict[str, Any] = {}
        self._lock = threading.Lock()

    def offer(self, content: memoryview) -> str:
        """Offer contents; return the secret."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._forget_old()
            tables = (self._offered, self._redeemed)
            held = sum(len(known) for table in tables for known, _ in table.values())
            if held + len(content) > self._most:
                raise LimitError(f"the server offers no more than {self._most} bytes at one time")
            self._offered[_key(secret)] = content, monotonic() + _SECONDS
        return secret

    def redeem(self, secret: str) -> list[Any]:
        """Take a secret, which is of no use afterwards; return a name for the pieces, and bytes."""
        with self._lock:
            self._forget_old()
            found = self._offered.pop(_key(secret), None)
            if found is None:
                raise ArgumentError("nothing is offered for this secret")
            name = secrets.token_urlsafe(32)
            self._redeemed[_key(name)] = found
        return [name, len(found[0])]

    def piece(self, name: str, offset: int) -> bytes:
        """Return a piece of what a secret was redeemed for; the last one ends it."""
        with self._lock:
            self._forget_old()
            content, _ = self._redeemed.get(_key(name), (memoryview(b""), 0.0))
            if not 0 <= offset < len(content):
                raise ArgumentError("nothing is there to be fetched")
            return bytes(content[offset : offset + CHUNK])

    def fetch(self, peer: str, secret: str, nbytes: int) -> bytearray:
        """Return contents that another server offers."""
        if peer not in self.peers:
            raise ArgumentError("the server fetches from those that --peers names, and no other")
        if not str(secret).replace("-", "").replace("_", "").isalnum():
            raise ArgumentError("a secret is letters and digits")
        with self._lock:
            way = self._ways.get(peer)
            if way is None:
                way = self._ways[peer] = self._connect(peer)
        name, there = way.message("POST", f"/v1/offers/{secret}")
        if there != nbytes:
            raise FormatError(f"{there} bytes are offered, where {nbytes} are needed")
        made = bytearray()
        while len(made) < nbytes:
            made += way.content("GET", f"/v1/offers/{name}/{len(made)}")
        return made

    def close(self) -> None:
        """Forget all offers, and close the ways to other servers."""
        with self._lock:
            self._offered.clear()
            self._redeemed.clear()
            for way in self._ways.values():
                way.close()
            self._ways.clear()

    def _forget_old(self) -> None:
        now = monotonic()
        for table in (self._offered, self._redeemed):
            for key in [key for key, (_, end) in table.items() if end < now]:
                del table[key]


def _key(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
