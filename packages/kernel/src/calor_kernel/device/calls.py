"""What a device is told of a bound call that it may compile, and of how results are given back.

Requirements: a device needs to know nothing of tensors, buffers and pools but where their
attributes are; it compiles both, for what is made without Python is given back without it too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from calor.backends.calls import Made, Operand


@dataclass(frozen=True, slots=True)
class Room:
    """The memory of a call's result: the last of a list, ``idle``, of handles that are integers.

    It is counted: of ``pool``, the attribute ``used`` grows by ``nbytes``, and the call is not made
    where it would with ``required`` more be above the attribute ``most``.
    """

    idle: list[Any]
    pool: Any
    used: str
    most: str
    nbytes: int
    required: int


@dataclass(frozen=True, slots=True, eq=False)
class Scratch:
    """Memory that a run needs: the last of a list of handles that are integers, given back after.

    ``words``: bytes from the beginning to words of 32 bits that are zero. Where a run leaves
    another number in one, its result is dropped and the call is made in Python, to fail there.
    """

    idle: list[Any]
    words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A call that a device may compile, as :class:`calor.backends.calls.BoundCall` describes it.

    ``operands`` lead to handles. ``recorded`` is a recorded list; it runs with the handles of the
    operands whose numbers ``slots`` are, with the handles ``fixed``, of which some may be those of
    ``scratch``, and with that of the result.
    ``made`` begins with what holds the handle of the result.
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
    """How an object of type ``kind`` gives memory back: as the method ``plainly`` does.

    It appends its attribute ``handle`` to the list ``idle`` that it has, and takes ``nbytes`` off
    what the attribute ``used`` of its ``pool``, of type ``pools``, counts. Every name but ``pools``
    is that of an attribute.
    """

    kind: type
    plainly: Callable[[Any], None]
    handle: str
    idle: str
    nbytes: str
    pool: str
    pools: type
    used: str
