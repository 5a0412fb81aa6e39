"""Gradient records: what an op keeps so that its gradient can be taken later.

Requirements: a record belongs to a tensor handle, not to its value, so no cycle forms and a record
dies with its last handle. It keeps the operands' records and just the residuals that the op's row
names; an operand that is not saved is known by its Spec. Gradients are recorded ops like any
other, so they are lazy, compiled, and differentiable again.

For complex tensors the gradient is the conjugate Wirtinger derivative, as in PyTorch: a step
against it descends.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from calor.errors import GradientError
from calor.graph.op import Op
from calor.local import local
from calor.recording.recipes import Recipe
from calor.specs import Spec
from calor.tensor.tensor import wrap
from calor.tensor.values import Handle, Value

_serial = itertools.count()
_new = object.__new__


def next_serial() -> int:
    """Return a number that orders records in time: later records have higher ones."""
    return next(_serial)


class Record:
    """One recorded op with a gradient. ``parents`` and ``saved`` are per operand."""

    __slots__ = ("__weakref__", "needs", "output", "parents", "recipe", "saved", "serial")

    def __init__(
        self,
        recipe: Recipe,
        parents: tuple[Any, ...],
        saved: tuple[Value | None, ...],
        output: Any,
    ) -> None:
        self.recipe = recipe
        self.parents = parents
        self.saved = saved
        self.output = output
        self.serial = next(_serial)

    def pull(self, g: Any) -> list[Any]:
        """Return the gradients of the operands for the gradient of the output."""
        recipe = self.recipe
        sig = recipe.signature
        row = sig.op
        if row.vjp is None:
            raise GradientError(
                f"op {row.name!r} has no gradient: {row.no_gradient or 'none is defined'}; use "
                f"calor.stop_gradient(x) where none should flow"
            )
        needs = tuple(p is not None for p in self.parents)
        result = row.pullback(needs, g, self.result(), self.operands(), sig.attributes)
        if recipe.plain:
            return result
        return [
            None if r is None or p is None else _undo(r, steps)
            for r, p, steps in zip(result, self.parents, recipe.prologues, strict=True)
        ]

    def operands(self) -> tuple[Any, ...]:
        """Return the saved operands as tensors, brought to the op's shape and dtype."""
        made = []
        for i, kept in enumerate(self.saved):
            if kept is None:
                made.append(self.recipe.signature.inputs[i])
                continue
            tensor = wrap(kept, self.parents[i])
            for step in self.recipe.prologues[i]:
                tensor = step.op(tensor, **step.attributes)
            made.append(tensor)
        return tuple(made)

    def result(self) -> Any:
        """Return the saved output as a tensor, or its Spec when it is not saved."""
        return wrap(self.output, self) if type(self.output) is Value else self.output


class ManyRecord(Record):
    """The record of an op with several outputs; each output's tensor holds a Projection."""

    __slots__ = ()

    def result(self) -> Any:
        """Return the outputs, each a tensor when saved, else its Spec."""
        return tuple(
            wrap(o, Projection(self, i)) if type(o) is Value else o
            for i, o in enumerate(self.output)
        )


class Projection:
    """One output of a record with several."""

    __slots__ = ("index", "parents", "record", "serial")

    def __init__(self, record: ManyRecord | Custom, index: int) -> None:
        self.record = record
        self.index = index
        self.parents = (record,)
        # Same place in the order as its record's successors: after the record, before its users.
        self.serial = next(_serial)


class Leaf:
    """Where gradients end: a tensor with ``requires_grad``, or an argument of a transform.

    ``parent`` is the record that the tensor had before a transform put this leaf there, so that
    outer transforms see through it. ``active`` ends with the transform that made the leaf.
    ``owner`` is the tensor, held weakly, that has the leaf as its record while a transform runs;
    ``tensor`` is the one that takes the gradient as ``.grad``.
    """

    __slots__ = ("__weakref__", "active", "owner", "parents", "serial", "tensor")

    def __init__(self, parent: Any = None, tensor: Any = None) -> None:
        self.parents = () if parent is None else (parent,)
        self.tensor = self.owner = tensor
        self.active = True
        self.serial = next(_serial)


class Custom:
    """A record whose gradient is a Python function: custom rules and recomputation.

    ``pull`` takes one gradient (or None) per output and returns one per parent. ``specs`` of the
    outputs say that it is linear, so that forward mode may transpose it; a user's rule may not be.
    ``push`` is a forward rule: one tangent (or None) per parent to one per output.
    """

    __slots__ = ("outputs", "parents", "pull", "push", "serial", "specs")

    def __init__(
        self,
        parents: tuple[Any, ...],
        pull: Callable[[list[Any]], Sequence[Any]],
        outputs: int,
        specs: tuple[Spec, ...] | None = None,
        push: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
    ) -> None:
        self.parents = parents
        self.pull = pull
        self.push = push
        self.outputs = outputs
        self.specs = specs
        self.serial = next(_serial)


def link(recipe: Recipe, operands: Sequence[Handle], out: Any) -> Any:
    """Return the gradient record of an op just recorded; None when nothing can flow through it."""
    if type(out) is list:
        return _link_many(recipe, operands, out)
    parents = tuple([h._record for h in operands])
    needs = tuple([p is not None for p in parents])
    keeps = recipe.keeps.get(needs)
    if keeps is None:
        kept = recipe.signature.op.residuals_for(needs, recipe.signature)
        flows = recipe.out.dtype.is_inexact and not _stops(recipe.signature.op)
        keeps = recipe.keeps[needs] = kept if flows else ()
    if not keeps:
        return None
    save_output, save = keeps
    record: Record = _new(Record)
    record.recipe = recipe
    record.parents = parents
    record.saved = tuple(
        [h._value if keep else None for h, keep in zip(operands, save)]  # noqa: B905 - hot
    )
    record.output = out if save_output else recipe.out
    record.serial = next(_serial)
    return record


def _link_many(recipe: Recipe, operands: Sequence[Handle], out: list[Value]) -> Any:
    parents = tuple([h._record for h in operands])
    needs = tuple([p is not None for p in parents])
    save_output, save = recipe.signature.op.residuals_for(needs, recipe.signature)
    saved = tuple([h._value if keep else None for h, keep in zip(operands, save, strict=True)])
    outputs = tuple(v if save_output else v.spec for v in out)
    shared = ManyRecord(recipe, parents, saved, outputs)
    return [Projection(shared, i) if v.spec.dtype.is_inexact else None for i, v in enumerate(out)]


def _stops(row: Op) -> bool:
    """Return whether a row has a gradient that lets nothing through."""
    return row.vjp is not None and row.no_gradient is not None


def _undo(g: Any, steps: Iterable[Any]) -> Any:
    """Take a gradient back through the casts and expands of an operand, last step first."""
    for step in reversed(tuple(steps)):
        g = step.op.pullback((True,), g, step.outputs[0], step.inputs, step.attributes)[0]
    return g


class untracked:
    """Context in which nothing is recorded for gradients by this run of the code.

    A graph that is traced meanwhile can be differentiated later all the same.
    """

    enabled = False

    def __init__(self) -> None:
        self.before: list[bool] = []

    def __enter__(self) -> Self:
        self.before.append(local.grad_enabled)
        local.grad_enabled = self.enabled
        return self

    def __exit__(self, *error: object) -> None:
        local.grad_enabled = self.before.pop()


class no_grad(untracked):
    """Context in which operations are not recorded for gradients.

    Examples
    --------
    >>> import calor
    >>> x = calor.ones(3, requires_grad=True)
    >>> with calor.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __enter__(self) -> Self:
        # A graph must know what was made here, for it is differentiated without this context.
        for trace in local.jit[-1:]:
            trace.switch(self.enabled)
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for trace in local.jit[-1:]:
            trace.switch(None)


class enable_grad(no_grad):
    """Context in which operations are recorded for gradients again, inside `no_grad`.

    Examples
    --------
    >>> import calor
    >>> x = calor.ones(3, requires_grad=True)
    >>> with calor.no_grad(), calor.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    enabled = True


def reachable(roots: Iterable[Any], stop: frozenset[int] = frozenset()) -> list[Any]:
    """Return all records below the roots, latest first; does not look below ``stop`` (ids)."""
    seen: dict[int, Any] = {}
    stack = [r for r in roots if r is not None]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        if id(node) not in stop:
            stack.extend(p for p in node.parents if p is not None)
    return sorted(seen.values(), key=lambda r: -r.serial)


@contextmanager
def ending_at(records: Iterable[Any]) -> Iterator[None]:
    """Context in which a gradient is taken to these records, whatever is below them.

    What is recomputed for a gradient ends there, and the transform that asked for it may be over.
    """
    local.ends.append(frozenset(map(id, records)))
    try:
        yield
    finally:
        local.ends.pop()


def _is_end(record: Any) -> bool:
    return any(id(record) in ends for ends in local.ends)


def reaches_outside(records: Iterable[Any], inside: frozenset[int]) -> bool:
    """Return whether a gradient can end anywhere besides the leaves whose ids are ``inside``."""
    records = list(records)
    return any(
        bool(r.parents) if id(r) in inside else r.active for r in records if type(r) is Leaf
    ) or (bool(local.ends) and any(_is_end(r) for r in records if id(r) not in inside))


def alive(roots: Iterable[Any]) -> set[int]:
    """Return the ids of the records at and below the roots from which a gradient can end anywhere.

    It ends in a leaf of a tensor, or of a transform that still runs, or where a recomputation does.
    """
    found: set[int] = set()
    for record in reversed(reachable(roots)):
        own = type(record) is Leaf and record.active
        if own or _is_end(record) or any(id(p) in found for p in record.parents if p is not None):
            found.add(id(record))
    return found


def boundary(roots: Iterable[Any], start: int) -> list[Any]:
    """Return the latest records older than ``start`` on each path below the roots."""
    found: dict[int, Any] = {}
    seen: set[int] = set()
    stack = [r for r in roots if r is not None]
    while stack:
        node = stack.pop()
        if node.serial < start:
            found[id(node)] = node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.extend(p for p in node.parents if p is not None)
    return sorted(found.values(), key=lambda r: r.serial)
