"""An elementwise op as one declaration: its row of the op table above its public function.

Requirements: the function is an ordinary one with its own signature and docstring, so that
``help``, type checkers and the reference see it; what it means, how it is differentiated and where
it is tested are arguments of the decorator, so that a backend, a gradient and the conformance suite
read the same lines. An op declared here is a kept composite: every device can run it, and one that
has a kernel for its name takes it whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

from calor.errors import DTypeError
from calor.functions.operands import any_complex, as_tensor, pair, several, single
from calor.graph.op import Autocast, Check, Op, Promotion, Rule
from calor.ops.base import op
from calor.ops.composites import like, wide
from calor.ops.movement import fill
from calor.recording.record import elementwise as elementwise_of
from calor.tensor.values import Handle

F = TypeVar("F", bound=Callable[..., Any])
Derivative = Callable[..., Any] | None

# The functions that are methods too; calor.methods gives them to tensors.
METHODS: dict[str, Callable[..., Any]] = {}


def elementwise(
    rule: Rule,
    definition: Callable[..., Any],
    *,
    reference: Callable[..., Any] | None = None,
    checks: tuple[Check, ...] = (),
    derivatives: tuple[Derivative, ...] = (),
    saves: tuple[str, ...] = (),
    no_gradient: str | None = None,
    promotion: Promotion = "float",
    method: bool = False,
    package: str = "",
    since: str = "0.1",
    autocast: Autocast = "",
    of_complex: Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """Declare an elementwise op with the name, signature and docstring of the decorated function.

    Half types are computed in float32 by ``definition`` and ``derivatives`` and rounded once.

    Parameters
    ----------
    rule : callable
        Operand specs to the spec of the result; one of :mod:`calor.ops.rules`. It says which dtypes
        the op takes.
    definition : callable
        The op in smaller ops: tensors of one shape and dtype to a tensor.
    reference : callable, optional
        The op in NumPy: arrays of one shape and dtype to an array. The ``numpy`` device runs it;
        without one it runs the definition.
    checks : tuple of Check, optional
        Where the conformance suite meets the op, and how near a result must be. Ops of other
        packages are no part of the suite.
    derivatives : tuple of callable or None, optional
        The derivative by each operand, ``f(y, *x)``, written in ops; None where it is 0.
    saves : tuple of str, optional
        What each derivative reads: digits of operands, and ``"y"`` for the result.
    no_gradient : str, optional
        Why the op has no gradient, where it has none.
    promotion : {"float", "same"}, optional
        Whether integers are converted to the default floating dtype (the default) or kept.
    method : bool, optional
        Whether the function is a method of tensors too, for ops of calor. By default not.
    package : str, optional
        The prefix of the row's name, for ops of packages outside calor: ``"acme"`` for
        ``acme.name``.
    since : str, optional
        The first release with the op.
    autocast : {"", "low", "float32"}, optional
        What `calor.autocast` does with floating operands, as for `Op`. By default nothing.
    of_complex : callable, optional
        The function in other functions where an operand is complex and the rule takes real ones
        alone: its operands, as tensors, to a tensor. By default complex ones are what the rule
        says.

    Returns
    -------
    callable
        A decorator. The function's body is not run: a call records the op.

    Raises
    ------
    ArgumentError
        If an op of that name exists.
    """
    vjp = tuple(None if d is None else _factor(d) for d in derivatives)

    def declare(function: F) -> F:
        row = op(
            f"{package}.{function.__name__}" if package else function.__name__,
            rule,
            reference,
            vjp or None,
            saves=saves or "",
            no_gradient=no_gradient,
            decompose=_widened(definition),
            promotion=promotion,
            since=since,
            checks=checks,
            autocast=autocast,
        )
        count = function.__code__.co_argcount
        assert 1 <= count <= len(_CALLS), f"{row.name} has {count} parameters, not 1 to 3"
        call = _CALLS[count - 1](row)
        made = wraps(function)(call if of_complex is None else _either(call, of_complex))
        if method:
            METHODS[function.__name__] = made
        return made  # type: ignore[return-value]

    return declare


def _either(call: Callable[..., Any], of_complex: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that takes another way where an operand is complex."""

    def either(*operands: Any) -> Any:
        # The rule refuses complex operands; all others pay nothing for the question.
        try:
            return call(*operands)
        except DTypeError:
            if not any_complex(*operands):
                raise
        return of_complex(*map(as_tensor, operands))

    return either


def _float32_for_halves(x: Any) -> Any:
    """Return a tensor of a half type as float32; any other, and a spec, as it is."""
    half = isinstance(x, Handle) and x._value.spec.dtype.kind == "float"
    return wide(x) if half else x


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Return the polynomial of a tensor, its constant first, by Horner's rule."""
    total = fill(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


def _widened(definition: Callable[..., Any]) -> Callable[..., Any]:
    def defined(*x: Any) -> Any:
        return like(definition(*map(_float32_for_halves, x)), x[0])

    return defined


def _factor(derivative: Callable[..., Any]) -> Callable[..., Any]:
    def vjp(g: Any, *read: Any) -> Any:
        # An operand that is not saved arrives as its spec.
        return like(wide(g) * derivative(*map(_float32_for_halves, read)), g)

    return vjp


def _of_one(row: Op) -> Callable[..., Any]:
    def call(x: Any, /) -> Any:
        return single(row, x)

    return call


def _of_two(row: Op) -> Callable[..., Any]:
    def call(x1: Any, x2: Any, /) -> Any:
        return pair(row, x1, x2)

    return call


def _of_three(row: Op) -> Callable[..., Any]:
    def call(x1: Any, x2: Any, x3: Any, /) -> Any:
        if isinstance(x1, Handle) and isinstance(x2, Handle) and isinstance(x3, Handle):
            return elementwise_of(row, (x1, x2, x3))
        return several(row, x1, x2, x3)

    return call


_CALLS = (_of_one, _of_two, _of_three)
