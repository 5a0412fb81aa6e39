"""A client's session: the commands of its requests, run one after another.

Requirements: requests have numbers, and one that is repeated gets its first answer, so that a
connection may break anywhere; a command that is not understood has a typed error as its answer;
what makes something is refused while its token has no time left, and what reads or frees is not.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

from calor.backends.device import Device
from calor.errors import CalorError, ProtocolError
from calor_http.checksums import Content
from calor_http.errors import LimitError, QuotaError, encode_error, typed
from calor_http.frames import CHUNK, MESSAGE, pack, unpack, unseal
from calor_http.server.blobs import Placed
from calor_http.server.draining import Drain
from calor_http.server.graphs import Graphs
from calor_http.server.handing import Handing
from calor_http.server.limits import Limits
from calor_http.server.profiles import Profiles
from calor_http.server.programs import Programs
from calor_http.server.queueing import Turn, Turns
from calor_http.server.quotas import Account
from calor_http.server.room import Room

_log = logging.getLogger("calor_http")
# What operands of a wrong kind raise.
_WRONG = (TypeError, ValueError, LookupError, AttributeError, OverflowError)
# Where a command has the number of its device; those of programs and copies from other servers,
# which wait for them, are not here.
_DEVICE_AT: Final = {
    "up": 2, "take": 2, "copy": 2, "read": 2, "offer": 2, "verify": 1, "sync": 1,
}  # fmt: skip
# What the compiler's queue orders.
_COMPILES: Final = frozenset(("claim", "compile", "within"))
# Commands that make something, for which a token needs device time.
MAKING: Final = frozenset(
    ("up", "take", "copy", "run", "graph", "claim", "compile", "within", "fetch", "offer")
)
_GRAPHS: Final = {"graph": 1, "claim": 2, "compile": 3, "within": 3}


@dataclass(slots=True)
class Told:
    """What a request's commands were: how many of each, and those about graphs."""

    commands: Counter[str] = field(default_factory=Counter)
    # The command, the digest of the graph, its bytes if it came, and the result.
    graphs: list[tuple[str, str, int, str]] = field(default_factory=list)


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
    account : Account
        Whose session it is.
    turns : Turns
        Whose work the devices do next.
    drain : Drain
        Whether the server is about to end.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        limits: Limits,
        graphs: Graphs,
        handing: Handing,
        *,
        account: Account,
        turns: Turns,
        drain: Drain,
    ) -> None:
        self._most = limits.commands
        self.account = account
        self._turns = turns
        self._room = room = Room(devices, limits, handing, account, drain)
        self._programs = programs = Programs(room, graphs)
        self._profiles = profiles = Profiles(room)
        # Errors of work that was found to have failed when it was another session's turn.
        self._late: deque[CalorError] = deque()
        self._commands: Mapping[str, Callable[..., Any]] = {
            **room.commands(),
            **programs.commands(),
            **profiles.commands(),
        }
        self._answered = (0, b"")
        # The number of the last request, and the task that answers it.
        self.working: tuple[int, Any] | None = None
        self.began = self.seen = monotonic()
        # Its open streams, the oldest first.
        self.streams: list[Any] = []
        self.lock = threading.Lock()

    def answer(self, number: int, frame: Content, compress: bool, told: Told) -> bytes:
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
            self._check_time(commands)
            self._room.answered = 0
            self._profiles.thread = threading.get_ident()
            while self._late:
                self._room.values.failed(self._late.popleft(), ())
            turn = Turn(self._turns, self.account, self._settle)
            try:
                answers = [self._run(command, turn, told) for command in commands]
            finally:
                turn.end()
                self._room.settle()
                self._profiles.thread = 0
            made = pack(answers, compress)
            self._answered = number, made
            self.seen = monotonic()
            return made

    def add_piece(self, number: int, offset: int, frame: Content, total: int = 0) -> int:
        """Take a piece of contents; return how many bytes are there, from the beginning."""
        piece = unseal(frame, CHUNK)
        with self.lock:
            self.seen = monotonic()
            return self._room.blobs.add(number, offset, piece, total)

    def place_piece(self, number: int, offset: int, nbytes: int) -> Placed | None:
        """Return where a piece is to be received, where it can be received where it stays."""
        with self.lock:
            self.seen = monotonic()
            return self._room.blobs.place(number, offset, nbytes)

    def piece_arrived(self, number: int, placed: Placed) -> int:
        """Take a piece that is in its place; return how many bytes are there."""
        with self.lock:
            return self._room.blobs.arrived(number, placed)

    def withdraw_piece(self, number: int, placed: Placed) -> None:
        """Forget a piece that does not arrive in its place."""
        with self.lock:
            self._room.blobs.withdraw(number, placed)

    def piece(self, number: int, offset: int) -> memoryview:
        """Return a piece of contents that are offered."""
        with self.lock:
            self.seen = monotonic()
            return self._room.blobs.piece(number, offset, CHUNK)

    def close(self) -> None:
        """Free everything."""
        with self.lock:
            self._commands = {}
            self._profiles.clear()
            self._programs.clear()
            self._room.clear()

    @property
    def idle_and_empty(self) -> bool:
        """Whether nothing runs and nothing is held."""
        return not self.lock.locked() and not self._room.held

    @property
    def held(self) -> Counter[Device]:
        """The bytes of its values, of each device."""
        return Counter(self._room.values.on)

    def _check_time(self, commands: Sequence[Any]) -> None:
        """Raise QuotaError where commands need time that is used up; the session waits for it."""
        if not any(_name(command) in MAKING for command in commands):
            return
        try:
            self.account.check_time()
        except QuotaError as error:
            self.seen = monotonic() + error.retry_after
            raise

    def _settle(self, device: Device) -> None:
        """Wait for a device's work, and keep its error for this session."""
        try:
            device.backend.synchronize(device.index)
        except Exception as error:
            self._late.append(typed(error, device.name))

    def _place(self, command: list[Any], turn: Turn) -> None:
        """Wait for the device that a command needs."""
        name = command[0]
        if name in _COMPILES:
            turn.on(None)
        elif name == "fetch":
            # Nobody waits for the device while another server is waited for.
            turn.end()
        elif name == "run":
            device = self._programs.device_of(command[1]) if len(command) > 1 else None
            if device is not None:
                turn.on(device)
        elif name in _DEVICE_AT and len(command) > _DEVICE_AT[name]:
            turn.on(self._room.device(command[_DEVICE_AT[name]]))

    def _run(self, command: Any, turn: Turn, told: Told) -> Any:
        """Run a command and return its answer."""
        answer = self._answer_of(command, turn)
        name = _name(command)
        known = name if name in self._commands else "unknown"
        told.commands[known] += 1
        if known in _GRAPHS and len(command) > _GRAPHS[known]:
            digest, data = command[_GRAPHS[known]], command[-1]
            nbytes = len(data) if known == "graph" and isinstance(data, bytes) else 0
            failed = isinstance(answer, dict) and "error" in answer
            result = answer["error"]["kind"] if failed else answer
            result = result if isinstance(result, str) else "done"
            told.graphs.append((known, str(digest)[:64], nbytes, result))
        return answer

    def _answer_of(self, command: Any, turn: Turn) -> Any:
        try:
            if not isinstance(command, list) or not command or not isinstance(command[0], str):
                raise ProtocolError("a command is a list with its name first", rule="command")
            run = self._commands.get(command[0])
            if run is None:
                raise ProtocolError(f"there is no command {command[0][:40]!r}", rule="command")
            self._place(command, turn)
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


def _name(command: Any) -> str:
    """Return the name of a command, or nothing."""
    named = isinstance(command, list) and command and isinstance(command[0], str)
    return str(command[0]) if named else ""
