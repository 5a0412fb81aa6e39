"""Values that one server hands to another: by a secret that is of use once, for a minute.

Requirements: the client moves nothing but the secret; a server fetches from the servers that its
operator named, and from nowhere else; who has a secret gets that value and nothing more.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from calor.errors import ArgumentError, FormatError
from calor_http.errors import LimitError
from calor_http.frames import CHUNK
from calor_http.server.quotas import Account

_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """Contents that are there to be fetched until an end, and whose they are."""

    content: memoryview
    end: float
    owner: Account


class Handing:
    """The values that a server offers to others, and what it fetches from them.

    Parameters
    ----------
    most : int
        The most bytes that an account offers at one time.
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
        self._offered: dict[bytes, Offer] = {}
        self._redeemed: dict[bytes, Offer] = {}
        self._ways: dict[str, Any] = {}
        self._lock = threading.Lock()

    def offer(self, content: memoryview, owner: Account) -> str:
        """Offer contents of an account; return the secret."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._forget_old()
            tables = (self._offered, self._redeemed)
            held = [o.content for t in tables for o in t.values() if o.owner is owner]
            if sum(map(len, held)) + len(content) > self._most:
                raise LimitError(f"a client offers no more than {self._most} bytes at one time")
            # They count as the account's while they are there.
            offer = Offer(content, monotonic() + _SECONDS, owner)
            owner.reserve(offer, 0, len(content), None)
            self._offered[_key(secret)] = offer
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
        return [name, len(found.content)]

    def piece(self, name: str, offset: int) -> bytes:
        """Return a piece of what a secret was redeemed for."""
        with self._lock:
            self._forget_old()
            found = self._redeemed.get(_key(name))
            if found is None or not 0 <= offset < len(found.content):
                raise ArgumentError("nothing is there to be fetched")
            return bytes(found.content[offset : offset + CHUNK])

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

    def forget_old(self) -> None:
        """Forget the offers whose time is over; nobody may ever ask for another."""
        with self._lock:
            self._forget_old()

    def close(self) -> None:
        """Forget all offers, and close the ways to other servers."""
        with self._lock:
            self._forget_old(everything=True)
            for way in self._ways.values():
                way.close()
            self._ways.clear()

    def _forget_old(self, everything: bool = False) -> None:
        now = monotonic()
        for table in (self._offered, self._redeemed):
            for key in [key for key, o in table.items() if everything or o.end < now]:
                offer = table.pop(key)
                offer.owner.memory.settle(offer, 0)


def _key(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
