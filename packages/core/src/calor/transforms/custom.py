"""Gradients that the user writes, and gradients that recompute instead of remembering."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from calor import tree
from calor.errors import ArgumentError, GradientError
from calor.graph.trace import Handle, local, wrap
from calor.ops.base import Op, op
from calor.transforms.records import (
    Custom,
    Projection,
    backpropagate,
    boundary,
    enable_grad,
    next_serial,
)

# The same value under another name: passes must not merge what is computed from it with what is
# computed from its operand, so a recomputation stays one.
barrier: Op = op(
    "barrier",
    lambda x: x,
    lambda x: x.copy(),
    lambda g, y, x: [g],
)


class CustomVjp:
    """A function with a gradient of its own; made by :func:`calor.custom_vjp`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._forward: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Define the gradient.

        ``forward(*args)`` returns (value, residuals); ``backward(residuals, cotangent)`` returns
        one gradient per argument (None for zero), shaped like the argument.
        """
        self._forward, self._backward = forward, backward

    def __call__(self, *args: Any) -> Any:
        if self._forward is None or self._backward is None:
            name = getattr(self.function, "__name__", "function")
            raise GradientError(
                f"{name} has no gradient yet; call {name}.defvjp(forward, backward)"
            )
        leaves, _structure = tree.flatten(args)
        tensors = [x for x in leaves if isinstance(x, Handle)]
        if not local.grad_enabled or all(t._record is None for t in tensors):
            return self.function(*args)
        value, residuals = self._forward(*args)
        outputs, shape = tree.flatten(value)
        backward = self._backward

        def pull(gs: list[Any]) -> list[Any]:
            from calor.functions.creation import zeros

            filled = [
                zeros(y.shape, dtype=y.dtype, device=y.device) if g is None else g
                for g, y in zip(gs, outputs, strict=True)
            ]
            gradients = backward(residuals, tree.unflatten(shape, filled))
            if not isinstance(gradients, tuple):
                gradients = (gradients,)
            if len(gradients) != len(args):
                raise ArgumentError(
                    f"the backward function returned {len(gradients)} gradients for "
                    f"{len(args)} arguments"
                )
            flat: list[Any] = []
            for argument, g in zip(args, gradients, strict=True):
                count = len(tree.leaves(argument))
                flat += [None] * count if g is None else tree.leaves(g)
            return [g for x, g in zip(leaves, flat, strict=True) if isinstance(x, Handle)]

        record = Custom(tuple(t._record for t in tensors), pull, len(outputs))
        return tree.unflatten(shape, _linked(outputs, record))


def custom_vjp(function: Callable[..., Any]) -> CustomVjp:
    """Return the function ready for a gradient of its own: ``f.defvjp(forward, backward)``.

    >>> import calor
    >>> @calor.custom_vjp
    ... def clipped(x):
    ...     return calor.exp(x)
    >>> clipped.defvjp(lambda x: (calor.exp(x), None), lambda _, g: (g * 2,))
    >>> calor.grad(clipped)(0.0).item()
    2.0
    """
    return CustomVjp(function)


def _linked(outputs: list[Any], record: Custom) -> list[Any]:
    return [
        wrap(y._value, Projection(record, i) if y._value.spec.dtype.is_inexact else None)
        if isinstance(y, Handle)
        else y
        for i, y in enumerate(outputs)
    ]


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function without remembered intermediates: its gradient computes it again.

    Trades time for memory (Chen et al., "Training deep nets with sublinear memory cost", 2016).
    Random numbers drawn inside are the same in both runs.

    >>> import calor
    >>> calor.grad(calor.checkpoint(lambda x: calor.sin(x) * x))(0.0).item()
    0.0
    """

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from calor.random import default_generator

        if not local.grad_enabled:
            return function(*args, **kwargs)
        start = next_serial()
        drawn = default_generator.state
        leaves, structure = tree.flatten((args, kwargs))
        # The arguments as they are now: the handles may be given other values later.
        held = [wrap(x._value, x._record) if isinstance(x, Handle) else x for x in leaves]
        outputs, shape = tree.flatten(function(*args, **kwargs))
        edges = boundary((y._record for y in outputs if isinstance(y, Handle)), start)
        if not edges:
            return tree.unflatten(shape, outputs)

        def pull(gs: list[Any]) -> list[Any]:
            create_graph = local.grad_enabled
            with enable_grad(), default_generator.at(drawn):
                again = [barrier(x) if isinstance(x, Handle) else x for x in held]
                inner_args, inner_kwargs = tree.unflatten(structure, again)
                made = tree.leaves(function(*inner_args, **inner_kwargs))
            pairs = [(y._record, g) for y, g in zip(made, gs, strict=True) if g is not None]
            found = backpropagate(pairs, edges, create_graph)
            return [found.get(id(r)) for r in edges]

        record = Custom(tuple(edges), pull, len(outputs))
        return tree.unflatten(shape, _linked(outputs, record))

    return wrapped
