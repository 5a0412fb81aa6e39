"""The table of operators: a Python function for each, by domain, name and first opset.

An operator is written once, with calor's public functions, and serves device and host values. If
all its operands are host values, it gets tensors of the ``numpy`` device, outside of any trace, and
its results become host arrays again. Otherwise it gets tensors of the model's device.
:mod:`calor_onnx.values` defines which value is where.
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

    Parameters
    ----------
    name : str
        Name of the operator.
    domain : str
        Domain of the operator; "" is ai.onnx.
    since : int
        First opset with this meaning.
    function : callable
        The implementation.
    host : frozenset of int
        Positions of operands that always arrive as host arrays.
    raw : bool
        Pass every operand unchanged.
    moves : bool
        The operator only moves elements, so it takes any type through a carrier type.
    pure : bool
        Equal operands give equal results.
    attributes : frozenset of str or None
        Attributes that the function takes; None for any.
    required : frozenset of str
        Attributes without a default.
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
        """Return whether another operator's function has the same module and name."""
        names = [(f.__module__, f.__qualname__) for f in (self.function, other.function)]
        return names[0] == names[1] and "<locals>" not in names[0][1]


@dataclass(eq=False, slots=True)
class Registry:
    """Operators by (domain, name), later opsets first."""

    table: dict[tuple[str, str], list[Operator]] = field(default_factory=dict)

    def add(self, made: Operator) -> None:
        """Add an operator.

        A function defined again under the same name, as in a notebook, replaces its earlier
        definition.

        Raises
        ------
        ValueError
            If another function defines the same operator for the same opset.
        """
        versions = self.table.setdefault((made.domain, made.name), [])
        versions[:] = [v for v in versions if v.since != made.since or not made.redefines(v)]
        if any(other.since == made.since for other in versions):
            raise ValueError(
                f"{made.domain}::{made.name} of opset {made.since} is defined twice; choose "
                f"another domain, or another `since`"
            )
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
    """Register a Python function as an operator of ONNX.

    The function is called with a :class:`~calor_onnx.call.Call`, then the node's inputs by position
    (None for one that is left out) and its attributes by name. Keyword parameters with defaults are
    optional attributes; ``**attributes`` accepts all. It returns a value, or a tuple of the
    outputs; a list is a sequence.

    Parameters
    ----------
    name : str
        Name of the operator.
    since : int, default 1
        First opset of the domain with this meaning.
    domain : str, default ""
        Domain of the operator; "" is ai.onnx.
    host : sequence of int, default ()
        Positions of operands that the function gets as host arrays, such as axes and sizes.
    raw : bool, default False
        Pass every operand unchanged: host arrays are not converted to tensors.
    moves : bool, default False
        Declare that the function only moves elements, so that it can take types without arithmetic.
    pure : bool, default True
        Declare that equal operands give equal results. Pass False for random operators.

    Returns
    -------
    callable
        A decorator that registers the function and returns it.

    Raises
    ------
    ValueError
        If another function defines the same operator for the same opset. The decorator raises it.

    Examples
    --------
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
