"""The values that a client holds on a server, and what became of those that failed.

Requirements: a call is not waited for, so what fails is told at the next look at a result. A value
that was to be made keeps its error; state that was to be written keeps its contents, and its error
until somebody has seen it: calls that read either fail alike, and change nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calor.backends.device import Device
from calor.errors import CalorError, ProtocolError
from calor.recording.poison import Poison, settle
from calor.specs import Spec
from calor_http.errors import LimitError


@dataclass(slots=True, eq=False)
class Value:
    """A value: its buffer, or the error that came in its place; state may have both."""

    device: Device
    spec: Spec
    buffer: Any = None
    error: CalorError | None = None

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""
        return 0 if self.buffer is None else self.spec.nbytes


class Values:
    """The values of one client by the numbers that it gave them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[int, Value] = {}
        self._unseen: list[CalorError] = []
        # The bytes of all values, together and of each device.
        self.nbytes = 0
        self.on: Counter[Device] = Counter()

    def get(self, number: Any, device: Device, spec: Spec | None = None) -> Value:
        """Return a value of a device; ProtocolError if it is not what it should be."""
        found = self._held.get(number) if type(number) is int else None
        if found is None:
            raise ProtocolError(f"no value has number {number!r}", rule="foreign")
        # Whether a dtype is weak is a matter of recording: a value that was moved here is not.
        held = found.spec
        fits = spec is None or spec is held or (spec.shape, spec.dtype) == (held.shape, held.dtype)
        if found.device is not device or not fits:
            raise ProtocolError(
                f"value {number} is {found.spec} on {found.device.name}, where {spec} on "
                f"{device.name} is needed",
                rule="foreign",
            )
        return found

    def check_fresh(self, numbers: Iterable[Any]) -> None:
        """Raise ProtocolError unless these numbers are free and differ."""
        given, held = [*numbers], self._held
        for number in given:
            if type(number) is not int or number in held:
                raise ProtocolError(f"{given} are not free numbers of values", rule="fresh")
        if len(given) > 1 and len({*given}) < len(given):
            raise ProtocolError(f"{given} are not different numbers", rule="fresh")
        if len(self._held) + len(given) > self._most:
            raise LimitError(f"a client holds more than {self._most} values, the server's limit")

    def put(self, number: int, value: Value) -> None:
        """Keep a value under a number that is free."""
        self._held[number] = value
        nbytes = value.nbytes
        self.nbytes += nbytes
        self.on[value.device] += nbytes

    def drop(self, numbers: Iterable[Any]) -> None:
        """Free values; numbers that are free already are passed over."""
        for number in numbers:
            value = self._held.pop(number, None) if type(number) is int else None
            if value is not None:
                nbytes = value.nbytes
                self.nbytes -= nbytes
                self.on[value.device] -= nbytes

    def clear(self) -> None:
        """Free all values."""
        self._held.clear()
        self.nbytes = 0
        self.on.clear()

    def failed(self, error: CalorError, state: Iterable[Value]) -> CalorError:
        """Note an error, also for state that stays as it was; return it without frames."""
        settle(error)
        if not any(_same(error, known) for known in self._unseen):
            self._unseen.append(error)
        for value in state:
            value.error = error
        return error

    def look(self, value: Value) -> Any:
        """Return a value's buffer, or raise its error; state is then usable again."""
        if value.error is None:
            return value.buffer
        raise self._tell(value.error)

    def look_at_all(self) -> None:
        """Raise the first error that nobody has seen."""
        if self._unseen:
            raise self._tell(self._unseen[0])

    def seen(self, error: BaseException) -> None:
        """Forget an error that a read has told: a device tells it to each who waits, too."""
        self._unseen = [known for known in self._unseen if not _same(known, error)]

    def _tell(self, error: CalorError) -> BaseException:
        self.seen(error)
        for value in self._held.values():
            if value.error is error and value.buffer is not None:
                value.error = None
        return Poison(error).again()


def _same(one: BaseException, other: BaseException) -> bool:
    """Return whether errors say the same; a device raises a copy at each read."""
    return one is other or (type(one) is type(other) and str(one) == str(other))


def array_of(data: bytes | bytearray | memoryview, known: Spec) -> np.ndarray[Any, Any]:
    """Return the array of a spec in some bytes; truth values are made 0 or 1."""
    if len(data) != known.nbytes:
        raise ProtocolError(f"{len(data)} bytes were sent for {known}", rule="host")
    if known.dtype.name == "bool":
        return np.not_equal(np.frombuffer(data, np.uint8), 0).reshape(known.shape)
    return np.frombuffer(data, known.dtype.numpy).reshape(known.shape)
