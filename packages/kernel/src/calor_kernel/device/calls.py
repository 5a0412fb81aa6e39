"""Data for a device that compiles bound calls and the release of their results.

Requirements: a device knows only the attribute names of tensors, buffers and pools. It compiles the
release as well, so a result made without Python is freed without Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from calor.backends.calls import Made, Operand


@dataclass(frozen=True, slots=True)
class Room:
    """The memory of a call's result: the last item of ``idle``, a list of integer handles.

    It is counted: the attribute ``used`` of ``pool`` grows by ``nbytes``. The call is refused if
    ``used`` plus ``required`` would exceed the attribute ``most``.
    """

    idle: list[Any]
    pool: Any
    used: str
    most: str
    nbytes: int
    required: int


@dataclass(frozen=True, slots=True, eq=False)
class Scratch:
    """Scratch memory of a run: the last item of a list of integer handles, returned afterwards.

    ``words``: byte offsets of 32-bit words that are zero. If a run leaves another value in one, its
    result is dropped, and the call is repeated in Python, where it fails.
    """

    idle: list[Any]
    words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A call for compilation, as described by :class:`calor.backends.calls.BoundCall`.

    ``operands`` lead to handles. ``recorded`` is a recorded list. It runs with the handles of the
    operands numbered by ``slots``, then the handles ``fixed`` (some may be those of ``scratch``),
    then the handle of the result. The first field of ``made`` holds the result's handle.
    """

    arguments: int
    same: tuple[tuple[Any, str, Any], ...]
    thread: tuple[Any, str, Mapping[str, Any]]
    operands: tuple[Operand, ...]
    slots: tuple[int, ...]
    fixed: tuple[Any | Scratch, ...]
    scratch: tuple[Scratch, ...]
    recorded: Any
    room: Room
    made: tuple[Made, ...]
    otherwise: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Giving:
    """The release of an object of type ``kind``, equivalent to its method ``plainly``.

    It appends its attribute ``handle`` to its list ``idle``, and subtracts ``nbytes`` from the
    attribute ``used`` of its ``pool``, of type ``pools``. All names except ``pools`` are attribute
    names.
    """

    kind: type
    plainly: Callable[[Any], None]
    handle: str
    idle: str
    nbytes: str
    pool: str
    pools: type
    used: str
