"""A program: what the box loads, as data that can be stored.

Requirements: a program is everything that a run needs besides its operands, so that it runs in a
process that has never seen the graph; what was damaged on the way is found before it runs.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from typing import Any, Final

from calor.errors import FormatError

MAGIC: Final = b"TBOX1"
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A dense array: in the arena at a byte offset, or (``start`` −1 − n) operand n of the call."""

    start: int
    shape: Shape
    dtype: str


@dataclass(frozen=True, slots=True)
class Step:
    """One command to a unit."""

    command: str
    operands: tuple[Place, ...]
    result: Place
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Program:
    """Steps in their order, where results lie at the end, and the size of the arena."""

    steps: tuple[Step, ...]
    results: tuple[Place, ...]
    arena: int
    result_bytes: int

    def to_bytes(self) -> bytes:
        """Return the stored form: a mark, a checksum and the steps."""
        text = json.dumps(asdict(self), separators=(",", ":")).encode()
        return MAGIC + zlib.crc32(text).to_bytes(4, "little") + text

    @staticmethod
    def from_bytes(data: bytes) -> Program:
        """Return a stored program; FormatError when it is none, or damaged."""
        start = len(MAGIC) + 4
        if data[: len(MAGIC)] != MAGIC:
            raise FormatError("these bytes are no program of a tensorbox; compile the graph again")
        if zlib.crc32(data[start:]).to_bytes(4, "little") != data[len(MAGIC) : start]:
            raise FormatError("a program of a tensorbox is damaged; compile the graph again")
        stored = json.loads(data[start:])
        return Program(
            tuple(_step(s) for s in stored["steps"]),
            tuple(_place(p) for p in stored["results"]),
            stored["arena"],
            stored["result_bytes"],
        )


def _place(stored: dict[str, Any]) -> Place:
    return Place(stored["start"], tuple(stored["shape"]), stored["dtype"])


def _step(stored: dict[str, Any]) -> Step:
    operands = tuple(_place(p) for p in stored["operands"])
    return Step(stored["command"], operands, _place(stored["result"]), stored["settings"])
