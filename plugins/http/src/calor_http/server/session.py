"""A client's session: the commands of its requests, run one after another.

Requirements: requests have numbers, and one that is repeated gets its first answer, so that a
connection may break anywhere; a command that is not understood has a typed error as its answer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

from calor.backends.device import Device
from calor.errors import CalorError, ProtocolError
from calor_http.errors import LimitError, encode_error, typed
from calor_http.frames import CHUNK, MESSAGE, Content, pack, unpack, unseal
from calor_http.server.graphs import Graphs
from calor_http.server.handing import Handing
from calor_http.server.limits import Limits
from calor_http.server.programs import Programs
from calor_http.server.room import Room

_log = logging.getLogger("calor_http")
# What operands of a wrong kind raise.
_WRONG = (TypeError, ValueError, LookupError, AttributeError, OverflowError)


class Session:
    """What one client has on a server.

    Parameters
    ----------
    devices : sequence of Device
        The devices of the server.
    limits : Limits
        The limits of the server.
    graphs : Graphs
        The graphs of all clients.
    handing : Handing
        What the server has to do with others.
    """

    def __init__(
        self, devices: Sequence[Device], limits: Limits, graphs: Graphs, handing: Handing
    ) -> None:
        self._most = limits.commands
        self._room = room = Room(devices, limits, handing)
        self.blobs = room.blobs
        programs = Programs(room, graphs)
        self._commands: Mapping[str, Callable[..., Any]] = {
            **room.commands(),
            **programs.commands(),
        }
        self._answered = (0, b"")
        # The number of the last request, and the task that answers it.
        self.working: tuple[int, Any] | None = None
        self.seen = monotonic()
        self.lock = threading.Lock()

    def answer(self, number: int, frame: Content, compress: bool) -> bytes:
        """Run a request's commands and return the answer; a repeated request gets it again."""
        commands = unpack(frame, MESSAGE)
        with self.lock:
            self.seen = monotonic()
            last, kept = self._answered
            if number == last:
                return kept
            if number != last + 1:
                raise ProtocolError(f"request {number} follows request {last}", rule="order")
            if not isinstance(commands, list) or len(commands) > self._most:
                raise LimitError(f"a request is a list of up to {self._most} commands")
            self._room.answered = 0
            made = pack([self._run(command) for command in commands], compress)
            self._answered = number, made
            self.seen = monotonic()
            return made

    def add_piece(self, number: int, offset: int, frame: Content) -> int:
        """Take a piece of contents; return how many bytes are there, from the beginning."""
        piece = unseal(frame, CHUNK)
        with self.lock:
            self.seen = monotonic()
            return self.blobs.add(number, offset, piece)

    def piece(self, number: int, offset: int) -> memoryview:
        """Return a piece of what is offered."""
        with self.lock:
            self.seen = monotonic()
            return self.blobs.piece(number, offset, CHUNK)

    def close(self) -> None:
        """Free everything."""
        with self.lock:
            self._commands = {}
            self._room.clear()

    def _run(self, command: Any) -> Any:
        try:
            if not isinstance(command, list) or not command or not isinstance(command[0], str):
                raise ProtocolError("a command is a list with its name first", rule="command")
            run = self._commands.get(command[0])
            if run is None:
                raise ProtocolError(f"there is no command {command[0][:40]!r}", rule="command")
            return run(*command[1:])
        except CalorError as error:
            return {"error": encode_error(error)}
        except _WRONG as error:
            _log.exception("a command failed")
            kind = type(error).__name__
            text = f"the operands of command {command[0]!r} are wrong ({kind})"
            return {"error": encode_error(ProtocolError(text, rule="command"))}
        except Exception as error:
            _log.exception("a command failed")
            return {"error": encode_error(typed(error))}
