"""A bound call as data, for backends that compile such calls.

Requirements: a backend sees objects, attributes and the values that these must have, and needs to
know nothing of their meaning. The compiled call does what the description says; or it calls
``otherwise`` with the same arguments, before it has any effect. So a backend that compiles no calls
gives the same results.
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
    """An object that a call creates: exact type, attributes, and the attribute of its content.

    The content is the object created before it; the first one contains the result.
    """

    kind: type
    attributes: Mapping[str, Any]
    holds: str


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A call of ``arguments`` positional arguments with one result and no other dependency.

    ``same`` lists objects, attributes of theirs, and the values that these must have. ``thread`` is
    an object with attributes of its own for each thread, the attribute that must be empty, and
    those that must be a given object. ``operands`` are the paths to the executable's inputs.
    ``made`` is the returned object, the outermost part last.
    """

    arguments: int
    same: tuple[tuple[Any, str, Any], ...]
    thread: tuple[Any, str, Mapping[str, Any]]
    operands: tuple[Operand, ...]
    made: tuple[Made, ...]
    otherwise: Callable[..., Any]
