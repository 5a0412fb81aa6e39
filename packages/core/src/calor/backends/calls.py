"""What a bound call looks at, reads and makes, for backends that compile such calls.

Requirements: a backend sees objects, their attributes and what these have to be, and nothing of
what they mean; what it compiles does as the description says, or calls ``otherwise`` with the same
arguments and has done nothing; so a backend that compiles no calls gives the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Look:
    """An object on the way to memory: one of the exact types ``kinds``.

    ``same``: attributes and the objects that they have to be. ``then``: the attribute that is the
    next object. Types have these attributes in slots.
    """

    kinds: tuple[type, ...]
    same: Mapping[str, Any]
    then: str


@dataclass(frozen=True, slots=True)
class Operand:
    """The way to what a plan reads: from an argument, by its ``place``, or from ``given``."""

    place: int | None
    given: Any
    looks: tuple[Look, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """An object that a call makes: an exact type, its attributes, and the one for what it holds.

    It holds what was made before it, the first one the result.
    """

    kind: type
    attributes: Mapping[str, Any]
    holds: str


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A call of so many ``arguments`` by place, with one result, that nothing else depends on.

    ``same``: objects, attributes of theirs, and what these have to be. ``thread``: an object of
    which each thread has its own attributes, its attribute that has to be empty, and those that
    have to be an object. ``operands`` lead to the executable's inputs, ``made`` is what a call
    returns, the outermost last.
    """

    arguments: int
    same: tuple[tuple[Any, str, Any], ...]
    thread: tuple[Any, str, Mapping[str, Any]]
    operands: tuple[Operand, ...]
    made: tuple[Made, ...]
    otherwise: Callable[..., Any]
