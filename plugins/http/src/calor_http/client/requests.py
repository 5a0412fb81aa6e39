"""The commands of a client on their way to the server: queued, sent many at a time, answered.

Requirements: who queues a command does not wait for it; commands run in the order in which they
were queued; a request that is not answered is sent again with its number, as long as it takes. One
request is on its way at a time while others queue, so the requests of a slow connection grow by
themselves. Who waits for an answer sends what is queued itself, unless another thread does: a hand
from thread to thread would take longer than a small request.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Final, Protocol

import numpy as np

from calor.errors import CalorError, DeviceLostError, ProtocolError
from calor_http.client.link import Link, Upload
from calor_http.connection import VERSION, Away, Connection
from calor_http.errors import LeaseLostError, QuotaError, TokenError, decode_error
from calor_http.frames import MESSAGE, pack

# What waits here at most, in bytes and commands; who queues more waits.
_ROOM: Final = 4 * MESSAGE
_COMMANDS: Final = 1 << 13
# Among so many commands that wait, contents are looked for that can be sent ahead.
_LOOKED_AT: Final = 64
# What a command takes at least, in bytes.
_LEAST: Final = 64
# Dropped values of so many bytes, or so many of them, are told to the server before what is queued
# next; fewer wait, and are told together.
_DROPPED_BYTES: Final = 1 << 20
_DROPPED: Final = 256
# How often dropped values are told to the server when nothing else is, in seconds.
_TICK: Final = 0.5
# While a program computes, its queue is looked at so often, and nobody wakes its thread: a thread
# that wakes competes with the program, which may be about to wait for what it queued. After so
# many looks at nothing the thread sleeps until it is woken.
_NAP: Final = 0.001
_NAPS: Final = 50


class Dropped(Protocol):
    """What nobody has any more: a value or a program."""

    number: int
    era: int
    nbytes: int


@dataclass(slots=True)
class Contents:
    """Contents that the server offers, or was asked to offer, and that nobody fetches any more."""

    number: int
    era: int
    nbytes: int = 0


@dataclass(slots=True)
class Command:
    """A command: its message, its size in bytes, who waits for its answer, and contents apart."""

    message: list[Any]
    nbytes: int = 0
    future: Future[Any] | None = None
    upload: Upload | None = None


class Requests:
    """The queue of a client.

    Parameters
    ----------
    connection : Connection
        The way to the server.
    opened : callable
        Called with a new session's description and number, at the beginning and when one is lost;
        returns the commands that begin it.
    rests : callable, optional
        Called when nothing was sent for a while.
    """

    def __init__(
        self,
        connection: Connection,
        opened: Callable[[Any, int], Sequence[Command]],
        rests: Callable[[], None] = lambda: None,
    ) -> None:
        self._connection = connection
        self._opened = opened
        self._rested = rests
        self.numbers = count(1)
        # Which session this is, counted from 1.
        self.era = 0
        self._lease = 60.0
        self._most = _COMMANDS
        self._sent = 0
        self._queue: deque[Command] = deque()
        self._current: list[Command] = []
        self._nbytes = 0
        self._dropped: deque[tuple[str, Dropped]] = deque()
        self._dropped_bytes = 0
        self._complaint: CalorError | None = None
        self._ends = False
        # How often the thread looks at the queue before it sleeps.
        self._naps = 0
        # Whether a thread sends.
        self._sends = False
        # The commands of the last request and their answers, until who waits has them.
        self._answered: tuple[Sequence[Command], Any] | None = None
        # How many commands waited when the server did not answer; None while it does.
        self._rests: int | None = None
        # What kept the last request from being answered, while nobody has tried again.
        self._held_up: Exception | None = None
        # When the server answered last.
        self._heard = time.monotonic()
        self._state = threading.Condition(threading.RLock())
        self.open()
        self._thread = threading.Thread(target=self._work, name="calor-http", daemon=True)
        self._thread.start()

    def open(self) -> None:
        """Begin a session."""
        hello = {"version": VERSION}
        found = self._connection.message("POST", "/v1/sessions", pack(hello))
        self._link = Link(self._connection, f"/v1/sessions/{found['session']}")
        self._lease = float(found["lease"])
        self._most = min(_COMMANDS, int(found["commands"]))
        self._sent = 0
        first = self._opened(found, self.era + 1)
        with self._state:
            self.era += 1
            self._queue.extend(first)
            self._nbytes = sum(command.nbytes for command in first)

    @property
    def closed(self) -> bool:
        """Whether nothing is sent any more."""
        return self._ends

    # What the threads of the program call.
    def dropped(self, thing: Dropped, command: str = "drop") -> None:
        """Note that nobody has a thing any more; it takes no lock, since it may run anywhere."""
        self._dropped.append((command, thing))
        # An addition that another thread loses makes the values wait for others.
        self._dropped_bytes += thing.nbytes

    def put(self, message: list[Any], era: int, nbytes: int = 0) -> None:
        """Queue the message of a command for a session."""
        self.queue(Command(message, nbytes), era)

    def queue(self, command: Command, era: int) -> None:
        """Queue a command for a session."""
        command.nbytes += _LEAST
        with self._state:
            self._held_up = None
            while self._full and not self._ends:
                if self._held_up is not None:
                    raise self._held_up
                self._state.notify_all()
                self._state.wait()
            if self._ends:
                raise DeviceLostError("the connection was closed, or the process began to end")
            if era != self.era:
                raise LeaseLostError("the server's session was lost; what it held has to be made")
            waits = command.future is not None
            if waits or self._dropped_bytes > _DROPPED_BYTES or len(self._dropped) > _DROPPED:
                self._add_dropped()
            self._queue.append(command)
            self._nbytes += command.nbytes
            if command.upload is not None or not (waits or self._naps):
                # Contents take time on their way, so they set out at once.
                self._naps = _NAPS
                self._state.notify_all()

    def ask(self, message: list[Any], era: int) -> Any:
        """Queue a command and wait; raise an error that is its answer, or an earlier one's."""
        future: Future[Any] = Future()
        self.queue(Command(message, future=future), era)
        while not future.done() and self._begin_to_send():
            self._turn()
        answer = future.result()
        with self._state:
            complaint, self._complaint = self._complaint, None
        if complaint is not None:
            raise complaint
        if isinstance(answer, dict) and "error" in answer:
            raise decode_error(answer["error"])
        return answer

    def fetch(self, number: int, nbytes: int) -> np.ndarray[Any, Any]:
        """Return contents that the server offers, piece by piece."""
        return self._link.download(number, nbytes)

    def close(self) -> None:
        """Send what is queued, and end the session."""
        with self._state:
            self._ends = True
            self._state.notify_all()
        self._thread.join(timeout=5.0)
        self._link.close()
        self._connection.end(self._link.session)

    # What the thread does that sends: the one of this queue, or one that waits for an answer.
    def _work(self) -> None:
        while self._wait_until_due():
            self._turn()

    def _wait_until_due(self) -> bool:
        """Wait until there is something to send, and begin to; return False at the end."""
        while True:
            with self._state:
                rests = self._rests == len(self._queue) and not (self._full or self._ends)
                if not (self._sends or rests):
                    self._add_dropped()
                    idle = time.monotonic() - self._heard
                    late = idle >= self._lease / 4 and not self._ends
                    if late:
                        self._rested()
                    if self._answered or self._current or self._queue or late:
                        self._sends = True
                        self._naps = _NAPS
                        return True
                    if self._ends:
                        return False
                    if self._naps:
                        self._naps -= 1
                if rests or not self._naps:
                    self._naps = 0
                    self._state.wait(min(_TICK, self._lease / 8))
                else:
                    self._state.wait(_NAP)

    def _begin_to_send(self) -> bool:
        """Begin to send, unless another thread does."""
        with self._state:
            begins = not self._sends
            self._sends = True
            return begins

    def _turn(self) -> None:
        """Send a request and let others send."""
        with self._state:
            full = self._full
            commands = self._current or self._take()
            self._current = commands
            self._rests = None
            if full:
                self._state.notify_all()
        try:
            self._deliver()
            self._send(commands)
        except LeaseLostError as error:
            self._lose(error)
        except ProtocolError as error:
            # A request before was refused, maybe on the way: what became of it is not known.
            self._lose(LeaseLostError(f"the server and the client count requests apart: {error}"))
        except (Away, QuotaError, TokenError) as error:
            # The request stays, and is sent again when somebody asks next.
            with self._state:
                self._fail([*commands, *self._queue], error)
                if self._ends:
                    # Nobody asks any more, and the thread ends with what was to be sent.
                    self._current, self._nbytes = [], 0
                    self._queue.clear()
                self._rests = len(self._queue)
                self._held_up = error
                # Who finds no room for more learns so as well.
                self._state.notify_all()
        except Exception as error:
            self._fail(commands, error)
            with self._state:
                # Who waited has been told.
                told = any(command.future is not None for command in commands)
                if isinstance(error, CalorError) and not told:
                    self._complaint = error
                self._current = []
                # Whatever the server thinks of it, it is not sent again under its number.
                self._sent += 1
        finally:
            with self._state:
                self._heard = time.monotonic()
                self._sends = False
                if self._queue or self._current or self._answered or self._ends:
                    self._state.notify_all()

    @property
    def _full(self) -> bool:
        return self._nbytes > _ROOM or len(self._queue) > _COMMANDS

    def _add_dropped(self) -> None:
        """Queue what nobody has any more behind the commands that used it."""
        found: dict[str, list[int]] = {}
        self._dropped_bytes = 0
        while self._dropped:
            command, thing = self._dropped.popleft()
            if thing.era == self.era:
                found.setdefault(command, []).append(thing.number)
        for number in found.pop("forget", ()):
            self._queue.append(Command(["forget", number], _LEAST))
        for command, numbers in found.items():
            self._queue.append(Command([command, numbers], 9 * len(numbers)))

    def _take(self) -> list[Command]:
        """Return the first commands that fit into a request, without those that stay.

        Contents go apart: the first large ones come with what is done with them.
        """
        taken: list[Command] = []
        nbytes = apart = 0
        while self._queue and len(taken) < self._most:
            command = self._queue[0]
            more = len(command.upload.content) if command.upload is not None else 0
            nbytes += command.nbytes - more
            full = nbytes > MESSAGE // 2 or (more and apart + more > MESSAGE // 2)
            if taken and full:
                break
            apart += more
            taken.append(self._queue.popleft())
        self._nbytes = sum(command.nbytes for command in self._queue)
        return taken

    def _send(self, commands: Sequence[Command]) -> None:
        uploads = [command.upload for command in commands if command.upload is not None]
        frame = pack([command.message for command in commands], self._connection.compress)
        answers = self._link.request(self._sent + 1, frame, uploads, lambda: self._ahead(commands))
        # No interrupt comes between these lines: what was answered is not sent again.
        self._sent += 1
        self._current = []
        self._answered = commands, answers
        for command in commands:
            command.upload = None
        for upload in uploads:
            if upload.asked:
                # It may have come again after it was taken.
                self.dropped(Contents(upload.number, self.era), "forget")
        self._deliver()

    def _ahead(self, commands: Sequence[Command]) -> list[Upload]:
        """Return the contents that are sent before commands are answered, if nobody waits."""
        if any(command.future is not None for command in commands):
            return []
        with self._state:
            found = (c.upload for c in islice(self._queue, _LOOKED_AT) if c.upload is not None)
            return list(islice(found, 1))

    def _deliver(self) -> None:
        """Tell the answers to those who wait; again, where an interrupt came in between."""
        if self._answered is None:
            return
        commands, answers = self._answered
        if not isinstance(answers, list) or len(answers) != len(commands):
            self._answered = None
            error = ProtocolError("the server answered other commands than it had", rule="order")
            self._fail(commands, error)
            return
        for command, answer in zip(commands, answers, strict=True):
            failed = isinstance(answer, dict) and "error" in answer
            if command.future is None:
                if failed and self._complaint is None:
                    self._complaint = decode_error(answer["error"])
            elif not command.future.done():
                command.future.set_result(answer)
        self._answered = None

    def _fail(self, commands: Sequence[Command], error: Exception) -> None:
        for command in commands:
            if command.future is not None and not command.future.done():
                command.future.set_exception(error)

    def _lose(self, error: LeaseLostError) -> None:
        """Begin a new session in place of one that the server does not know any more."""
        self._link.close()
        with self._state:
            lost = [*self._current, *self._queue]
            self._current, self._nbytes = [], 0
            self._queue.clear()
            # Nobody queues for the session that is gone, while there is no other.
            self.era += 1
        says = str(error)
        try:
            self.open()
        except Exception as failure:
            says = f"{says}, and no new session began: {failure}"
        with self._state:
            self._state.notify_all()
        self._fail(lost, LeaseLostError(f"{self._connection.base}: {says}"))
