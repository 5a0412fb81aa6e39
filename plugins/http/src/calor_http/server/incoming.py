"""What arrives over a stream, as messages: WebSocket frames of a client, taken apart.

Requirements: contents are received where they stay; nothing of what a client announces is allocated
before it arrives; a message has a limit, and what is against the rules ends the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any, Final

import numpy as np

from calor.errors import FormatError
from calor_http import websocket
from calor_http.errors import LimitError
from calor_http.frames import HEAD, MESSAGE
from calor_http.streams import ASK

# Messages up to half of this are taken from where they arrive first.
_SCRATCH: Final = 1 << 16
_LARGE: Final = _SCRATCH // 2
# What a message holds at most.
_MOST: Final = MESSAGE + HEAD + ASK.size
# What stands before the content of a piece.
START: Final = ASK.size + HEAD
# An opcode, and a message, or what stands before its content where that was received in its place.
Arrived = tuple[int, memoryview, bool]


class Incoming:
    """The bytes of a client on their way to be messages.

    Parameters
    ----------
    reuses : bool, optional
        Whether a large message is worked on before the next bytes are received, so that both may
        have the same memory: new pages take as long as their contents.
    place : callable, optional
        Takes what stands before the content of a large piece, and the size of the content; returns
        where the content is to be received, or None where that is part of the message.

    Attributes
    ----------
    began : float or None
        When the first bytes of a message came that is not whole; None between messages.
    """

    def __init__(
        self,
        reuses: bool = False,
        place: Callable[[bytes, int], memoryview | None] = lambda start, nbytes: None,
    ) -> None:
        self._reuses = reuses
        self._place = place
        self._spare = np.empty(0, np.uint8)
        self._scratch = memoryview(bytearray(_SCRATCH))
        self._filled = 0
        # A large message: its content, how much is there, and its mask.
        self._large: np.ndarray[Any, Any] | None = None
        self._there = 0
        self._mask = b""
        # What stands before its content, where that is received in its place.
        self._start: bytes | None = None
        # The frames of a message that has several.
        self._parts: list[bytes] = []
        self.began: float | None = None

    def room(self) -> memoryview:
        """Return where the next bytes are to be written."""
        if self._large is not None:
            return self._large.data[self._there :]
        return self._scratch[self._filled :]

    def written(self, count: int) -> Iterator[Arrived]:
        """Note that bytes were written; return what is whole, with the opcodes.

        Raises
        ------
        FormatError
            For what is no frame of a client.
        LimitError
            If a message is too long.
        """
        if self._large is None:
            self._filled += count
            yield from self._whole()
            return
        self._there += count
        if self._there == len(self._large):
            large, self._large, self.began = self._large, None, None
            websocket.mask_into(large, large, self._mask)
            start, self._start = self._start, None
            content = large.data if start is None else memoryview(start)
            yield websocket.BINARY, content, start is not None

    def _whole(self) -> Iterator[Arrived]:
        """Take the frames that are there, and keep the beginning of another."""
        at = 0
        while found := websocket.parse_head(self._scratch[at : self._filled]):
            opcode, final, nbytes, mask, size = found
            self._check(opcode, final, nbytes, mask)
            start = at + size
            content = self._scratch[start : min(start + nbytes, self._filled)]
            if len(content) == nbytes:
                at = start + nbytes
                plain = websocket.masked(bytes(content), mask)
                if opcode & websocket.CLOSE:
                    yield opcode, memoryview(plain), False
                    continue
                self._parts.append(plain)
                if final:
                    whole = plain if len(self._parts) == 1 else b"".join(self._parts)
                    self._parts.clear()
                    # Work on a message takes what time it takes.
                    self.began = None
                    yield websocket.BINARY, memoryview(whole), False
                continue
            if nbytes > _LARGE and len(content) >= START:
                self._begin_large(content, nbytes, mask)
                at = self._filled
            break
        left = self._filled - at
        if at and left:
            self._scratch[:left] = bytes(self._scratch[at : self._filled])
        self._filled = left
        rest = left or self._parts or self._large is not None
        self.began = (self.began or monotonic()) if rest else None

    def _begin_large(self, content: memoryview, nbytes: int, mask: bytes) -> None:
        """Begin to receive a large message where it stays, of which some is there."""
        start = websocket.masked(bytes(content[:START]), mask)
        placed = self._place(start, nbytes - START)
        if placed is not None:
            content, nbytes, self._start = content[START:], nbytes - START, start
            mask = mask[START % 4 :] + mask[: START % 4]
        # The system gives memory to its pages when something is written to them.
        large = self._room_for(nbytes) if placed is None else np.frombuffer(placed, np.uint8)
        large[: len(content)] = np.frombuffer(content, np.uint8)
        self._large, self._mask, self._there = large, mask, len(content)

    @property
    def within(self) -> bool:
        """Whether a large message is being received."""
        return self._large is not None

    def _room_for(self, nbytes: int) -> np.ndarray[Any, Any]:
        if not self._reuses:
            return np.empty(nbytes, np.uint8)
        if len(self._spare) < nbytes:
            self._spare = np.empty(nbytes, np.uint8)
        return self._spare[:nbytes]

    def _check(self, opcode: int, final: bool, nbytes: int, mask: bytes) -> None:
        if not mask:
            raise FormatError("a frame of a client has no mask")
        if opcode in (websocket.CLOSE, websocket.PING, websocket.PONG):
            if nbytes > websocket.CONTROL or not final:
                raise FormatError("a control frame is short, and whole")
            return
        if opcode != (websocket.CONTINUED if self._parts else websocket.BINARY):
            raise FormatError(f"a stream has a frame of kind {opcode}")
        if nbytes + sum(map(len, self._parts)) > _MOST:
            raise LimitError(f"a message has more than {MESSAGE} bytes")
        if nbytes > _LARGE and (self._parts or not final):
            raise LimitError("a part of a message is too long")
