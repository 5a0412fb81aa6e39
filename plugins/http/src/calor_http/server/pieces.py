"""Pieces of contents that a stream receives where they stay, and whose checksums are made then.

Requirements: nothing is copied that can be received in its place; what comes behind a piece is
received while its checksum is made; a piece that is damaged, refused or cut off leaves nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from calor.errors import CalorError, FormatError
from calor_http.frames import PLAIN, fitting
from calor_http.server.blobs import Placed
from calor_http.server.session import Session
from calor_http.streams import ASK, PUT


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A piece in its place: what stood before it, and what waits for its checksum."""

    start: memoryview
    session: Session
    number: int
    placed: Placed
    fits: Callable[[], bool]

    @property
    def nbytes(self) -> int:
        """The bytes of its message."""
        return len(self.start) + len(self.placed.content)

    def arrive(self) -> int:
        """Return how many bytes are there with it; FormatError if it was damaged on the way."""
        if not self.fits():
            raise FormatError("the checksum of a frame does not fit; it was damaged on the way")
        return self.session.piece_arrived(self.number, self.placed)

    def withdraw(self) -> None:
        """Forget it, if it has not arrived."""
        self.session.withdraw_piece(self.number, self.placed)


class Pieces:
    """The pieces of a stream that were received and are not answered.

    Parameters
    ----------
    session : callable
        Returns the session of the stream, or raises the error that answers its messages.
    """

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session
        self._receives: tuple[Session, int, Placed] | None = None
        self._received: deque[Piece] = deque()

    def __len__(self) -> int:
        return len(self._received)

    def place(self, start: bytes, nbytes: int) -> memoryview | None:
        """Return where a piece is to be received; None if it is received as other messages are.

        Parameters
        ----------
        start : bytes
            What stands before its content: the head of the message, and that of the frame.
        nbytes : int
            The size of the content.

        Returns
        -------
        memoryview or None
            Memory of this size.
        """
        kind, number, offset = ASK.unpack_from(start)
        if kind != PUT or start[-1] != PLAIN:
            return None
        try:
            session = self._session()
        except CalorError:
            # The whole message is answered with it.
            return None
        placed = session.place_piece(number, offset, nbytes)
        if placed is None:
            return None
        self._receives = session, number, placed
        return placed.content

    def received(self, start: memoryview) -> None:
        """Begin to look at the piece that was received last."""
        assert self._receives is not None, "no piece was placed"
        session, number, placed = self._receives
        self._receives = None
        placed.growing.received(placed)
        fits = fitting(start[ASK.size :], placed.content)
        self._received.append(Piece(start, session, number, placed, fits))

    def first(self) -> Piece:
        """Return the piece that is to be answered next."""
        return self._received.popleft()

    def end(self) -> None:
        """Forget the piece that is being received."""
        if self._receives is not None:
            session, number, placed = self._receives
            self._receives = None
            placed.growing.received(placed)
            session.withdraw_piece(number, placed)
