"""The table of operators: a Python function for each, by domain, name and the opset it begins at.

An operator is written once, with calor's public functions, and serves device and host values: where
all its operands are host values it is called with tensors of the ``numpy`` device, outside of any
trace, and its results are host arrays again; otherwise with tensors of the model's device. See
:mod:`calor_onnx.values` for which value is where.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


@dataclass(eq=False, slots=True)
class Operator:
    """One operator from one opset on.

    ``host`` are the positions of operands that always arrive as host arrays; ``raw`` operators get
    every operand as it is; ``moves`` operators only move elements, so they take any type through
    its carrier; one that is not ``pure`` gives something else at each call.
    """

    name: str
    domain: str
    since: int
    function: Function
    host: frozenset[int] = frozenset()
    raw: bool = False
    moves: bool = False
    pure: bool = True
    # The attributes that the function takes; None for any.
    attributes: frozenset[str] | None = None
    required: frozenset[str] = frozenset()

    def redefines(self, other: Operator) -> bool:
        """Return whether the function has the module and name of another's."""
        names = [(f.__module__, f.__qualname__) for f in (self.function, other.function)]
        return names[0] == names[1] and "<locals>" not in names[0][1]


@dataclass(eq=False, slots=True)
class Registry:
    """Operators by (domain, name), those of later opsets first."""

    table: dict[tuple[str, str], list[Operator]] = field(default_factory=dict)

    def add(self, made: Operator) -> None:
        """Add an operator; ValueError where the same opset has it already.

        A function that is defined again, as in a notebook, takes the place of what it was.
        """
        versions = self.table.setdefault((made.domain, made.name), [])
        versions[:] = [v for v in versions if v.since != made.since or not made.redefines(v)]
        if any(other.since == made.since for other in versions):
            raise ValueError(f"{made.domain}::{made.name} of opset {made.since} is defined twice")
        versions.append(made)
        versions.sort(key=lambda operator: -operator.since)

    def find(self, domain: str, name: str, version: int) -> Operator | None:
        """Return the operator with its meaning in an opset, or None."""
        for made in self.table.get((domain, name), ()):
            if made.since <= version:
                return made
        return None


REGISTRY = Registry()


def operator(
    name: str,
    *,
    since: int = 1,
    domain: str = "",
    host: Sequence[int] = (),
    raw: bool = False,
    moves: bool = False,
    pure: bool = True,
) -> Callable[[F], F]:
    """Register a function as an operator of ONNX from an opset of its domain on.

    The function takes the :class:`~calor_onnx.call.Call`, then the node's inputs by position (None
    for one that is left out), and its attributes by name, with their defaults; ``**attributes``
    takes all. It returns a value, or a tuple of the outputs; a list is a sequence.

    >>> import calor, calor_onnx
    >>> @calor_onnx.operator("Twice", domain="my.domain")
    ... def twice(call, x, *, offset=0.0):
    ...     return x * 2 + offset
    """

    def register(function: F) -> F:
        parameters = inspect.signature(function).parameters.values()
        keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        free = any(p.kind is p.VAR_KEYWORD for p in parameters)
        REGISTRY.add(
            Operator(
                name,
                domain,
                since,
                function,
                host=frozenset(host),
                raw=raw,
                moves=moves,
                pure=pure,
                attributes=None if free else frozenset(p.name for p in keywords),
                required=frozenset(p.name for p in keywords if p.default is p.empty),
            )
        )
        return function

    return register
