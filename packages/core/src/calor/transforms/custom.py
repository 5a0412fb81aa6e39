"""Gradients that the user writes, and gradients that recompute instead of remembering."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calor import tree
from calor.dtypes import bool_
from calor.errors import ArgumentError, DTypeError, GradientError, ShapeError
from calor.functions.creation import zeros
from calor.local import local
from calor.ops.backpropagation import backpropagate
from calor.ops.base import Op, op
from calor.ops.gradient_rules import GradientRule, custom_gradient
from calor.recording.journal import Journal
from calor.recording.records import Custom, Leaf, Projection, boundary, enable_grad, next_serial
from calor.specs import Spec, spec
from calor.tensor.tensor import wrap
from calor.tensor.values import Handle
from calor.transforms.bodies import Body, state, store
from calor.transforms.state import Static

# The same value under another name: passes must not merge what is computed from it with what is
# computed from its operand, so a recomputation stays one.
barrier: Op = op(
    "barrier",
    lambda x: x,
    lambda x: x.copy(),
    lambda g, y, x: [g],
)


@dataclass(frozen=True)
class Form:
    """Where the tensors of a flattened pytree stand; the other leaves are kept as they are."""

    structure: tree.TreeDef
    places: tuple[int, ...]
    others: tuple[Static, ...]

    @staticmethod
    def of(value: Any) -> tuple[Form, list[Any]]:
        """Return the form of a pytree and its tensors."""
        leaves, structure = tree.flatten(value)
        places = tuple(i for i, x in enumerate(leaves) if isinstance(x, Handle))
        others = tuple(Static(None if isinstance(x, Handle) else x) for x in leaves)
        return Form(structure, places, others), [leaves[i] for i in places]

    def filled(self, tensors: Sequence[Any]) -> Any:
        """Return the pytree with these tensors."""
        leaves = [x.value for x in self.others]
        for place, t in zip(self.places, tensors, strict=True):
            leaves[place] = t
        return tree.unflatten(self.structure, leaves)


@dataclass(frozen=True)
class Pull:
    """A backward function on tensors: residuals and cotangents to gradients of the arguments.

    ``name``: of the function. ``specs``: of the tensors in its arguments.
    """

    name: str
    backward: Callable[..., Any]
    arguments: Form
    specs: tuple[Spec, ...]
    value: Form
    residuals: Form

    def __call__(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        # What the function leaves in tensors from outside comes after the residuals.
        residuals = residuals[: len(self.residuals.places)]
        given = self.residuals.filled(residuals), self.value.filled(cotangents)
        return self.gradients(self.backward(*given))

    def gradients(self, found: Any) -> list[Any]:
        """Return what a backward function returned, one gradient per tensor of the arguments."""
        found = found if isinstance(found, tuple) else (found,)
        parts = self.arguments.structure.children
        if len(found) != len(parts):
            raise ArgumentError(
                f"the backward function of {self.name} returned {len(found)} gradients for "
                f"{len(parts)} arguments; return a tuple with one for each, None for zero"
            )
        flat: list[Any] = []
        for number, (part, g) in enumerate(zip(parts, found, strict=True)):
            leaves = [None] * part.count if g is None else tree.leaves(g)
            if len(leaves) != part.count:
                raise ArgumentError(
                    f"the backward function of {self.name} returned a gradient with {len(leaves)} "
                    f"leaves for argument {number}, which has {part.count}; return its structure"
                )
            flat += leaves
        given = [flat[i] for i in self.arguments.places]
        return [self._checked(*one) for one in zip(given, self.specs, strict=True)]

    def _checked(self, g: Any, wanted: Spec) -> Any:
        """Return a tensor's gradient if it has the shape and the dtype of the tensor."""
        if g is None or not wanted.dtype.is_inexact:
            return None
        told = f"the backward function of {self.name} returned "
        if not isinstance(g, Handle):
            raise ArgumentError(f"{told}a {type(g).__name__} as a gradient; return a tensor")
        found = g._value.spec
        if found.shape != wanted.shape:
            raise ShapeError(
                f"{told}a gradient of shape {found.shape} for a tensor of shape {wanted.shape}; a "
                f"gradient has the shape of its tensor (sum over axes that were broadcast)"
            )
        if found.dtype is not wanted.dtype:
            raise DTypeError(
                f"{told}a gradient in {found.dtype.name} for a tensor in {wanted.dtype.name}; "
                f"convert it: g.astype(calor.{wanted.dtype.name})"
            )
        return g


class CustomVjp:
    """A function with a gradient of its own; made by :func:`calor.custom_vjp`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._forward: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Define the gradient.

        Parameters
        ----------
        forward : callable
            ``forward(*args)`` returns the value and residuals, any pytree for ``backward``.
        backward : callable
            ``backward(residuals, cotangent)`` returns one gradient for each argument, in its
            structure, with the shapes and dtypes of its tensors; None for zero.

        Notes
        -----
        When a gradient is taken, ArgumentError says that ``forward`` returned no pair or that
        ``backward`` returned another number of gradients or leaves, ShapeError and DTypeError that
        a gradient is not of its tensor.
        """
        self._forward, self._backward = forward, backward

    def __call__(self, *args: Any) -> Any:
        if self._forward is None or self._backward is None:
            raise GradientError(
                f"{self.name} has no gradient yet; call {self.name}.defvjp(forward, backward)"
            )
        arguments, tensors = Form.of(args)
        if local.jit and tensors and local.jit[-1].modes[-1]:
            return self._traced(arguments, tensors)
        if not local.grad_enabled or all(t._record is None for t in tensors):
            return self.function(*args)
        value, residuals = self._forwarded(args)
        form, outputs = Form.of(value)
        kept, held = Form.of(residuals)
        specs = tuple(t._value.spec for t in tensors)
        rule = Pull(self.name, self._backward, arguments, specs, form, kept)

        def pull(gs: list[Any]) -> list[Any]:
            filled = [
                zeros(y.shape, dtype=y.dtype, device=y.device) if g is None else g
                for g, y in zip(gs, outputs, strict=True)
            ]
            return rule(held, filled)

        record = Custom(tuple(t._record for t in tensors), pull, len(outputs))
        return form.filled(_linked(outputs, record))

    @property
    def name(self) -> str:
        """What the function is called in errors and graphs."""
        return getattr(self.function, "__name__", "function")

    def _forwarded(self, args: Sequence[Any]) -> tuple[Any, Any]:
        """Return the value and the residuals."""
        assert self._forward is not None
        found = self._forward(*args)
        if not isinstance(found, tuple) or len(found) != 2:
            what = f"{len(found)} parts" if isinstance(found, tuple) else type(found).__name__
            raise ArgumentError(
                f"the forward function of {self.name} returned {what}; return a pair of the value "
                f"and of residuals for the backward function, (value, None) without any"
            )
        return found

    def _traced(self, arguments: Form, tensors: list[Any]) -> Any:
        """Record the function as one node, so that a graph keeps its gradient."""
        assert self._forward is not None
        assert self._backward is not None
        forward = self._forward
        forms: list[Form] = []

        def call(_: Any, placeholders: list[Any]) -> list[Any]:
            value, residuals = self._forwarded(arguments.filled(placeholders))
            parts = [Form.of(value), Form.of(residuals)]
            forms.extend(form for form, _ in parts)
            return [t for _, found in parts for t in found]

        name = self.name
        specs = tuple(t._value.spec for t in tensors)
        body = Body(forward, name, list(specs), call, tensors[0]._value.device)
        value, residuals = forms
        pull = Pull(name, self._backward, arguments, specs, value, residuals)
        rule = GradientRule(name, len(value.places), len(tensors), pull)
        held = dict(zip(map(id, body.written), state(name, body.written), strict=True))
        captures = [held.get(id(t), t) for t in body.captures]
        made = custom_gradient(*tensors, *captures, body=body.graph, rule=rule)
        outputs = made if isinstance(made, tuple) else (made,)
        store(body.written, outputs[body.results :], [True] * len(body.written))
        return value.filled(outputs[: len(value.places)])


def custom_vjp(function: Callable[..., Any]) -> CustomVjp:
    """Return the function prepared for a gradient of its own.

    Parameters
    ----------
    function : callable
        The function; it returns a tensor or a pytree of tensors.

    Returns
    -------
    CustomVjp
        A callable. Its method ``defvjp(forward, backward)`` defines the gradient:
        ``forward(*args)`` returns the value and residuals, ``backward(residuals, cotangent)`` one
        gradient for each argument (None for zero). Called before that, it raises GradientError.

    Examples
    --------
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


def _as_now(tensor: Any) -> Any:
    """Return a tensor as it is now: its handle may be given another value later."""
    if local.jit:
        local.jit[-1].touch(tensor)
    return wrap(tensor._value, tensor._record)


# Stands for an output that is no tensor, through which nothing flows.
_NO_TENSOR = spec((), bool_)


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:  # numpydoc ignore=RS01
    """Return the function with its intermediates recomputed for the gradient, not stored.

    Parameters
    ----------
    function : callable
        Any function of tensors, pytrees and modules.

    Returns
    -------
    callable
        It takes the arguments of ``function`` and returns its result. Tensors that ``function``
        changes in place change once; the recomputation sees them as the first run did, so it draws
        the same random numbers.

    References
    ----------
    Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory cost", 2016.

    Examples
    --------
    >>> import calor
    >>> calor.grad(calor.checkpoint(lambda x: calor.sin(x) * x))(0.0).item()
    0.0
    """

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not local.grad_enabled:
            return function(*args, **kwargs)
        start = next_serial()
        leaves, structure = tree.flatten((args, kwargs))
        held = [_as_now(x) if isinstance(x, Handle) else x for x in leaves]
        with Journal() as journal:
            outputs, shape = tree.flatten(function(*args, **kwargs))
        edges = boundary((y._record for y in outputs if isinstance(y, Handle)), start)
        if not edges:
            return tree.unflatten(shape, outputs)
        journal.forget(outputs)
        for record in edges:
            tensor = record.owner() if type(record) is Leaf and record.owner else None
            if tensor is not None:
                # A parameter: it may be updated before the gradient is taken, or have this record
                # only while the transform runs that asks for the gradient.
                journal.note(tensor)

        def pull(gs: list[Any]) -> list[Any]:
            create_graph = local.grad_enabled
            with enable_grad(), journal.rewound():
                again = [barrier(x) if isinstance(x, Handle) else x for x in held]
                inner_args, inner_kwargs = tree.unflatten(structure, again)
                made = tree.leaves(function(*inner_args, **inner_kwargs))
                # Before state is put back, which the function may have returned.
                pairs = [(y._record, g) for y, g in zip(made, gs, strict=True) if g is not None]
            found = backpropagate(pairs, edges, create_graph)
            return [found.get(id(r)) for r in edges]

        specs = tuple(y._value.spec if isinstance(y, Handle) else _NO_TENSOR for y in outputs)
        record = Custom(tuple(edges), pull, len(outputs), specs)
        return tree.unflatten(shape, _linked(outputs, record))

    return wrapped
