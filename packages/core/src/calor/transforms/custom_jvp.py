"""Derivatives along tangents that the user writes, from which gradients follow by transposition."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calor.errors import GradientError
from calor.local import local
from calor.recording.records import Custom
from calor.specs import Spec
from calor.tensor.values import is_weak
from calor.transforms.custom import as_node, as_now, linked
from calor.transforms.forms import Form
from calor.transforms.forward import transposed
from calor.transforms.forward_rules import Push


@dataclass(frozen=True)
class Transposed:
    """The reverse rule that follows from a forward rule, which is linear in the tangents.

    ``specs``: of the arguments' tensors.
    """

    push: Push
    specs: tuple[Spec, ...]

    def __call__(self, operands: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        operands = operands[: len(self.specs)]
        if all(g is None for g in cotangents):
            return [None] * len(self.specs)

        def along(tangents: list[Any]) -> list[Any]:
            moving = [
                t if s.dtype.is_inexact and not s.weak else None
                for t, s in zip(tangents, self.specs, strict=True)
            ]
            return self.push(operands, moving)

        return transposed(along, self.specs, cotangents, local.grad_enabled)


class CustomJvp:
    """A function with a derivative of its own; made by :func:`calor.custom_jvp`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Define the derivative.

        Parameters
        ----------
        rule : callable
            ``rule(primals, tangents)`` takes two tuples with an entry for each argument. A tangent
            has the structure of its argument, zeros where nothing moves, and None for what is no
            floating or complex tensor. It returns a pair of the value and its derivative, which is
            linear in the tangents and has the structure, shapes and dtypes of the value.

        Returns
        -------
        callable
            The rule, so that the method can decorate it.

        Notes
        -----
        When a derivative is taken, ArgumentError says that the rule returned no pair or another
        structure, ShapeError and DTypeError that a derivative is not of its value.
        """
        self._rule = rule
        return rule

    @property
    def name(self) -> str:
        """What the function is called in errors and graphs."""
        return getattr(self.function, "__name__", "function")

    def __call__(self, *args: Any) -> Any:
        if self._rule is None:
            raise GradientError(f"{self.name} has no derivative yet; call {self.name}.defjvp(rule)")
        arguments, tensors = Form.of(args)
        if all(map(is_weak, tensors)):
            # Numbers have no derivative.
            return self.function(*args)
        if local.jit and local.jit[-1].modes[-1]:

            def rules(value: Form, _: Form, outputs: Any, given: Any) -> tuple[Any, Any]:
                return self._rules(arguments, value, outputs, given)

            return as_node(self.name, self._with_operands, arguments, tensors, rules)
        value = self.function(*args)
        if not local.grad_enabled or all(t._record is None for t in tensors):
            return value
        form, outputs = Form.of(value)
        operands = [as_now(t) for t in tensors]
        specs = [y._value.spec for y in outputs]
        pull, push = self._rules(arguments, form, specs, [t._value.spec for t in tensors])
        record = Custom(
            tuple(t._record for t in tensors),
            functools.partial(pull, operands),
            len(outputs),
            push=functools.partial(push, operands),
        )
        return form.filled(linked(outputs, record))

    def _with_operands(self, args: Sequence[Any]) -> tuple[Any, Any]:
        """Return the value and the operands, which the rule reads."""
        operands = [as_now(t) for t in Form.of(args)[1]]
        return self.function(*args), operands

    def _rules(
        self, arguments: Form, value: Form, outputs: Sequence[Spec], given: Sequence[Spec]
    ) -> tuple[Transposed, Push]:
        """Return the reverse and the forward rule on tensors."""
        assert self._rule is not None
        push = Push(self.name, self._rule, arguments, value, tuple(outputs))
        return Transposed(push, tuple(given)), push


def custom_jvp(function: Callable[..., Any]) -> CustomJvp:
    """Return the function prepared for a derivative of its own, forward and reverse.

    Parameters
    ----------
    function : callable
        The function; it returns a tensor or a pytree of tensors.

    Returns
    -------
    CustomJvp
        A callable. Its method ``defjvp(rule)`` defines the derivative: ``rule(primals, tangents)``
        returns the value and its derivative along the tangents. `calor.grad` uses its transpose.
        Called before that, it raises GradientError.

    See Also
    --------
    custom_vjp : A gradient of one's own, by a reverse rule.

    Examples
    --------
    >>> import calor
    >>> @calor.custom_jvp
    ... def exp(x):
    ...     return calor.exp(x)
    >>> @exp.defjvp
    ... def _(primals, tangents):
    ...     y = exp(primals[0])
    ...     return y, 2 * y * tangents[0]
    >>> calor.jvp(exp, (calor.asarray(0.0),), (calor.asarray(1.0),))[1].item()
    2.0
    >>> calor.grad(exp)(0.0).item()
    2.0
    """
    return CustomJvp(function)
