"""Gradients that the user writes, and gradients that recompute instead of remembering."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from calor import tree
from calor.autocasting import casting_anew, recorded_as
from calor.dtypes import bool_
from calor.errors import ArgumentError, GradientError
from calor.functions.creation import zeros
from calor.graph.graph import Graph
from calor.keywords import explained
from calor.local import local
from calor.ops.backpropagation import backpropagate
from calor.ops.base import Op, op
from calor.ops.gradient_rules import GradientRule, custom_gradient
from calor.recording.journal import Journal
from calor.recording.records import (
    Custom,
    Leaf,
    Projection,
    boundary,
    enable_grad,
    ending_at,
    next_serial,
)
from calor.recording.replay import replay
from calor.specs import Spec, spec
from calor.tensor.tensor import wrap
from calor.tensor.values import Handle, is_weak
from calor.transforms.bodies import Body, state, store
from calor.transforms.forms import Form, fitting
from calor.transforms.forward import jvp, tangents_of
from calor.transforms.forward_rules import Push

# The same value under another name: passes must not merge what is computed from it with what is
# computed from its operand, so a recomputation stays one.
barrier: Op = op(
    "barrier",
    lambda x: x,
    lambda x: x.copy(),
    lambda g, y, x: [g],
)


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
            leaves = tree.aligned(g, part, absent=True)
            if leaves is None:
                raise ArgumentError(
                    f"the backward function of {self.name} returned a gradient of the structure "
                    f"{tree.flatten(g)[1]} for argument {number} of {part}; return its structure"
                )
            flat += leaves
        given = [flat[i] for i in self.arguments.places]
        return [self._checked(*one) for one in zip(given, self.specs, strict=True)]

    def _checked(self, g: Any, wanted: Spec) -> Any:
        """Return a tensor's gradient if it has the shape and the dtype of the tensor."""
        if g is None or not wanted.dtype.is_inexact or wanted.weak:
            return None
        return fitting(
            g,
            wanted,
            f"the backward function of {self.name} returned",
            "gradient for a tensor",
            "a gradient has the shape of its tensor (sum over axes that were broadcast)",
        )


class CustomVjp:
    """A function with a gradient of its own; made by :func:`calor.custom_vjp`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._forward: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._rule: Callable[..., Any] | None = None

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Define the gradient.

        Parameters
        ----------
        forward : callable
            ``forward(*args)`` returns the value and residuals, any pytree for ``backward``. It may
            call the function itself, whose value it is.
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

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Define the derivative along tangents too, for `calor.jvp`.

        Parameters
        ----------
        rule : callable
            ``rule(primals, tangents)`` takes two tuples with an entry for each argument and returns
            the value and its derivative, as for `calor.custom_jvp`.

        Returns
        -------
        callable
            The rule, so that the method can decorate it.
        """
        self._rule = rule
        return rule

    def __call__(self, *args: Any) -> Any:
        if self._forward is None or self._backward is None:
            raise GradientError(
                f"{self.name} has no gradient yet; call {self.name}.defvjp(forward, backward)"
            )
        if any(own is self for own in local.forwarding):
            # Its forward function may call it for the value.
            return self.function(*args)
        arguments, tensors = Form.of(args)
        if all(map(is_weak, tensors)):
            # Numbers have no gradient.
            return self.function(*args)
        if local.jit and local.jit[-1].modes[-1]:
            return self._traced(arguments, tensors)
        if not local.grad_enabled or all(t._record is None for t in tensors):
            return self.function(*args)
        value, residuals = self._forwarded(args)
        form, outputs = Form.of(value)
        kept, tensors_kept = Form.of(residuals)
        held = [as_now(t) for t in tensors_kept]
        specs = tuple(t._value.spec for t in tensors)
        rule = Pull(self.name, self._backward, arguments, specs, form, kept)

        def pull(gs: list[Any]) -> list[Any]:
            filled = [
                zeros(y.shape, dtype=y.dtype, device=y.device) if g is None else g
                for g, y in zip(gs, outputs, strict=True)
            ]
            return rule(held, filled)

        push: Callable[[Sequence[Any]], Sequence[Any]]
        forward = self._push(arguments, form, [y._value.spec for y in outputs])
        if forward is None:
            push = functools.partial(_without_rule, self.name)
        else:
            push = functools.partial(forward, [as_now(t) for t in tensors])
        record = Custom(tuple(t._record for t in tensors), pull, len(outputs), push=push)
        return form.filled(linked(outputs, record))

    @property
    def name(self) -> str:
        """What the function is called in errors and graphs."""
        return getattr(self.function, "__name__", "function")

    def _push(self, arguments: Form, value: Form, specs: Sequence[Spec]) -> Push | None:
        """Return the forward rule on tensors, if there is one."""
        if self._rule is None:
            return None
        return Push(self.name, self._rule, arguments, value, tuple(specs))

    def _forwarded(self, args: Sequence[Any]) -> tuple[Any, Any]:
        """Return the value and the residuals."""
        assert self._forward is not None
        local.forwarding.append(self)
        try:
            found = self._forward(*args)
        finally:
            local.forwarding.pop()
        if not isinstance(found, tuple) or len(found) != 2:
            what = f"{len(found)} parts" if isinstance(found, tuple) else type(found).__name__
            raise ArgumentError(
                f"the forward function of {self.name} returned {what}; return a pair of the value "
                f"and of residuals for the backward function, (value, None) without any"
            )
        return found

    def _traced(self, arguments: Form, tensors: list[Any]) -> Any:
        """Record the function as one node, so that a graph keeps its gradient."""
        backward = self._backward
        assert backward is not None

        def rule(value: Form, residuals: Form, outputs: Sequence[Spec], given: Any) -> Any:
            pull = Pull(self.name, backward, arguments, given, value, residuals)
            return pull, self._push(arguments, value, outputs)

        return as_node(self.name, self._forwarded, arguments, tensors, rule)


def as_node(
    name: str,
    forwarded: Callable[[Sequence[Any]], tuple[Any, Any]],
    arguments: Form,
    tensors: Sequence[Any],
    rule: Callable[..., tuple[Any, Any]],
) -> Any:
    """Record a function with rules of its own as one node of a trace; return its value.

    ``forwarded`` takes the arguments and returns the value and residuals. ``rule`` takes the forms
    of both, the specs of the value and those of the arguments; it returns the reverse rule, and the
    forward rule or None.
    """
    forms: list[Form] = []

    def call(_: Any, placeholders: list[Any]) -> list[Any]:
        value, residuals = forwarded(arguments.filled(placeholders))
        parts = [Form.of(value), Form.of(residuals)]
        forms.extend(form for form, _ in parts)
        return [t for _, found in parts for t in found]

    specs = tuple(t._value.spec for t in tensors)
    body = Body(forwarded, name, list(specs), call, tensors[0]._value.device)
    value, residuals = forms
    count = len(value.places)
    pull, push = rule(value, residuals, body.graph.output_specs[:count], specs)
    known = GradientRule(name, count, len(tensors), pull, push)
    held = dict(zip(map(id, body.written), state(name, body.written), strict=True))
    captures = [held.get(id(t), t) for t in body.captures]
    made = custom_gradient(*tensors, *captures, body=body.graph, rule=known)
    outputs = made if isinstance(made, tuple) else (made,)
    store(body.written, outputs[body.results :], [True] * len(body.written))
    return value.filled(outputs[:count])


def _without_rule(name: str, *_: Any) -> list[Any]:
    """Raise for the forward rule that a function with a gradient of its own does not have."""
    raise GradientError(
        f"forward mode meets the custom gradient of {name}, which has only a reverse rule; give it "
        f"a forward rule ({name}.defjvp), or use calor.vjp"
    )


class _Derivatives(Sequence[Any]):
    """The tangents of a function's values, then those of its residuals, each found when read."""

    def __init__(
        self,
        values: int,
        of_values: Callable[[], Sequence[Any]],
        of_residuals: Callable[[], Sequence[Any]],
    ) -> None:
        self._values = values
        self._of_values = functools.cache(of_values)
        self._of_residuals = functools.cache(of_residuals)

    def __len__(self) -> int:
        return self._values + len(self._of_residuals())

    def __getitem__(self, place: Any) -> Any:
        if place < self._values:
            return self._of_values()[place]
        return self._of_residuals()[place - self._values]


def _derivative(tangents: Any, y: Any, *x: Any, body: Graph, rule: GradientRule) -> Any:
    """Forward rule of a function with rules of its own: the user's, and the plain one of residuals.

    What a backward rule reads moves too, where its gradient is differentiated forward.
    """
    push = rule.push or functools.partial(_without_rule, rule.name)

    def values() -> Sequence[Any]:
        return push(x[: rule.arguments], tangents[: rule.arguments])

    if len(body.outputs) == 1:
        return values()[0]
    places = [i for i, t in enumerate(tangents) if t is not None]

    def residuals(*moving: Any) -> list[Any]:
        given = list(x)
        for i, t in zip(places, moving, strict=True):
            given[i] = t
        return replay(body, given)[rule.values :]

    def plainly() -> Any:
        return jvp(residuals, [x[i] for i in places], [tangents[i] for i in places])[1]

    return _Derivatives(rule.values, values, plainly)


custom_gradient.differentiate_by(jvp=_derivative)


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


def linked(outputs: list[Any], record: Custom) -> list[Any]:
    """Return outputs whose gradients are those of a record."""
    return [
        wrap(y._value, Projection(record, i) if y._value.spec.dtype.is_inexact else None)
        if isinstance(y, Handle)
        else y
        for i, y in enumerate(outputs)
    ]


def as_now(tensor: Any) -> Any:
    """Return a tensor as it is now: its handle may be given another value later."""
    if local.jit:
        local.jit[-1].touch(tensor)
    return wrap(tensor._value, tensor._record)


# Stands for an output that is no tensor, through which nothing flows.
_NO_TENSOR = spec((), bool_)


@explained  # type: ignore[arg-type]
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
        the same random numbers. So it sees tensors and attributes of modules that are changed
        between the passes, up to the first backward pass.

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
        mode = recorded_as(local.autocast)
        leaves, structure = tree.flatten((args, kwargs))
        held = [as_now(x) if isinstance(x, Handle) else x for x in leaves]
        with Journal() as journal, casting_anew():
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

        @contextmanager
        def rerun() -> Iterator[list[Any]]:
            with enable_grad(), journal.rewound(), mode, casting_anew(), ending_at(edges):
                again = [barrier(x) if isinstance(x, Handle) else x for x in held]
                inner_args, inner_kwargs = tree.unflatten(structure, again)
                # Before state is put back, which the function may have returned.
                yield tree.leaves(function(*inner_args, **inner_kwargs))

        def pull(gs: list[Any]) -> list[Any]:
            create_graph = local.grad_enabled
            with rerun() as made:
                pairs = [(y._record, g) for y, g in zip(made, gs, strict=True) if g is not None]
            found = backpropagate(pairs, edges, create_graph)
            if not create_graph:
                # An optimizer's state of before its step is not held beside that of after it.
                journal.stop()
            return [found.get(id(r)) for r in edges]

        def push(tangents: Sequence[Any]) -> list[Any]:
            with rerun() as made:
                return tangents_of(made, edges, tangents)

        journal.watch()
        specs = tuple(y._value.spec if isinstance(y, Handle) else _NO_TENSOR for y in outputs)
        record = Custom(tuple(edges), pull, len(outputs), specs, push)
        # What was made without gradients, or does not depend on what has one, stays without.
        results = [
            new if isinstance(y, Handle) and y._record is not None else y
            for y, new in zip(outputs, linked(outputs, record), strict=True)
        ]
        return tree.unflatten(shape, results)

    return wrapped
