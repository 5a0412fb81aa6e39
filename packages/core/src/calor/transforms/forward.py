"""Forward mode: ``calor.jvp`` and ``calor.linearize``.

The tangent of an op's output is the transpose of its gradient: the gradient is linear in the
cotangent u, so its own gradient with respect to u is the derivative itself ("You only linearize
once", Radul et al. 2022, does the reverse). Ops that have no gradient, such as while_loop, bring
their own ``jvp``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calor import tree
from calor.errors import GradientError, ShapeError
from calor.graph.graph import Graph
from calor.ops.backpropagation import backpropagate
from calor.ops.sources import zeros_of
from calor.recording import record as recorder
from calor.recording.records import (
    Custom,
    Leaf,
    ManyRecord,
    Projection,
    Record,
    enable_grad,
    reachable,
)
from calor.recording.replay import replay
from calor.tensor.tensor import wrap
from calor.tensor.values import Handle, is_weak
from calor.transforms.grad import Differentiated, seed_for, strip


def jvp(  # numpydoc ignore=RS01
    function: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """Return the value of a function and its derivative along tangents.

    Parameters
    ----------
    function : callable
        It returns a tensor, or a pytree of tensors; with ``has_aux`` a pair of that and anything.
    primals : sequence
        The arguments: tensors, Python floats, pytrees of them, or modules.
    tangents : sequence
        The directions, in the structure, shapes and dtypes of ``primals``. None stands for zero.
    has_aux : bool, optional
        Whether ``function`` returns a pair. By default False.

    Returns
    -------
    tuple
        The value and the derivative, which has the structure of the value. With ``has_aux`` the
        other part of the pair comes third.

    Raises
    ------
    ShapeError
        If primals and tangents differ in number, structure or shape.
    DTypeError
        If a tangent has another dtype than its primal.
    GradientError
        If ``function`` contains a `calor.custom_vjp` without a forward rule, or an op without a
        derivative.

    References
    ----------
    Radul, Paszke, Frostig, Johnson and Maclaurin, "You only linearize once: tangents transpose to
    gradients", POPL 2023.

    Examples
    --------
    >>> import calor
    >>> y, dy = calor.jvp(lambda x: x * x, (calor.asarray(3.0),), (calor.asarray(1.0),))
    >>> dy.item()
    6.0
    """
    if len(primals) != len(tangents):
        raise ShapeError(f"jvp: {len(primals)} primals but {len(tangents)} tangents")
    value, push, *aux = linearize(function, *primals, has_aux=has_aux)
    return (value, push(*tangents), *aux)


def linearize(
    function: Callable[..., Any], *primals: Any, has_aux: bool = False
) -> tuple[Any, ...]:  # numpydoc ignore=RS01
    """Return the value of a function, and the function that gives its derivative along tangents.

    Parameters
    ----------
    function : callable
        It returns a tensor, or a pytree of tensors; with ``has_aux`` a pair of that and anything.
    *primals : Any
        The arguments: tensors, Python floats, pytrees of them, or modules.
    has_aux : bool, optional
        Whether ``function`` returns a pair. By default False.

    Returns
    -------
    tuple
        The value, and a function from tangents, one for each of ``primals``, to the derivative,
        which has the structure of the value. ``function`` runs once, however often the derivative
        is asked for; what the derivative reads is kept. With ``has_aux`` the other part of the
        pair comes third.

    Raises
    ------
    ShapeError
        When the second function is called, if primals and tangents differ in number, structure or
        shape.
    DTypeError
        When the second function is called, if a tangent has another dtype than its primal.
    GradientError
        When the second function is called, if ``function`` contains a `calor.custom_vjp` without a
        forward rule, or an op without a derivative.

    Examples
    --------
    >>> import calor
    >>> y, push = calor.linearize(lambda x: x * x, calor.asarray(3.0))
    >>> [push(calor.asarray(t)).item() for t in (1.0, 10.0)]
    [6.0, 60.0]
    """
    made = Linearized(function, primals, has_aux)

    def push(*tangents: Any) -> Any:
        structures = made.prepared.structures
        if len(tangents) != len(structures):
            raise ShapeError(f"jvp: {len(structures)} primals but {len(tangents)} tangents")
        flat: list[Any] = []
        for structure, tangent in zip(structures, tangents, strict=True):
            given = tree.aligned(tangent, structure, absent=True)
            if given is None:
                raise ShapeError("jvp: a tangent has another structure than its primal")
            flat += given
        return made.along(flat)

    return (made.value, push, made.aux) if has_aux else (made.value, push)


class Linearized(Differentiated):
    """A function that ran once at its arguments: its value, and its derivative along tangents."""

    def __init__(
        self, function: Callable[..., Any], primals: Sequence[Any], has_aux: bool = False
    ) -> None:
        super().__init__(function, primals, has_aux)
        roots = [y._record for y in self.flat if isinstance(y, Handle)]
        stop = frozenset(id(leaf) for leaf in self.prepared.leaves)
        self.order = reachable(roots, stop)[::-1]

    def along(self, tangents: Sequence[Any]) -> Any:
        """Return the derivative along one tangent or None for each leaf of the arguments."""
        prepared = self.prepared
        moving: dict[int, Any] = {}
        slots = [slot for part in prepared.slots for slot in part]
        primals = [x for part in prepared.primals for x in part]
        for slot, x, t in zip(slots, primals, tangents, strict=True):
            if slot is not None and t is not None:
                moving[id(slot)] = seed_for(x, t)
        for record in self.order:
            if id(record) not in moving:
                _push(record, moving)
        made = [_derivative(y, moving, prepared.leaves) for y in self.flat]
        return tree.unflatten(self.structure, made)


def _derivative(y: Any, moving: dict[int, Any], leaves: Sequence[Any]) -> Any:
    """Return the tangent of an output; zeros where nothing moves, None for what is no tensor."""
    if not isinstance(y, Handle) or is_weak(y):
        return None
    t = None if y._record is None else moving.get(id(y._record))
    if t is None:
        t = zeros_of(y._value.spec, y._value.device)
    return strip(t, leaves)


def _push(record: Any, moving: dict[int, Any]) -> None:
    """Find the tangent of a record's output from those of its parents, if any moves."""
    if type(record) is Projection:
        shared = moving.get(id(record.record))
        if shared is not None and shared[record.index] is not None:
            moving[id(record)] = shared[record.index]
        return
    tangents = [None if p is None else moving.get(id(p)) for p in record.parents]
    if all(t is None for t in tangents):
        return
    if type(record) is Leaf:
        moving[id(record)] = tangents[0]
    elif type(record) is Custom:
        if record.push is not None:
            moving[id(record)] = record.push(tangents)
            return
        if record.specs is None:
            raise GradientError(
                "forward mode meets a custom gradient, which has only a reverse rule; give it a "
                "forward rule (defjvp), or use calor.vjp"
            )
        moving[id(record)] = transposed(record.pull, record.specs, tangents)
    else:
        moving[id(record)] = _tangent(record, tangents)


def _tangent(record: Record, tangents: list[Any]) -> Any:
    recipe = record.recipe
    sig = recipe.signature
    if sig.op.jvp is not None:
        prepared = [
            None if t is None else _through(t, steps)
            for t, steps in zip(tangents, recipe.prologues, strict=True)
        ]
        found = sig.op.jvp(prepared, record.result(), *record.operands(), **sig.attributes)
        if found is not NotImplemented:
            return found
    if isinstance(record, ManyRecord):
        return transposed(record.pull, sig.outputs, tangents)
    return transposed(lambda us: record.pull(us[0]), sig.outputs, tangents)[0]


def push_forward(
    graph: Graph, inputs: Sequence[Any], wanted: Sequence[int], tangents: Sequence[Any]
) -> list[Any]:
    """Return the tangents of a graph's outputs for those of some inputs, None where none moves.

    The graph is recorded again; a loop that has no gradient has a derivative.
    """
    given = list(inputs)
    with enable_grad():
        for i in wanted:
            given[i] = wrap(given[i]._value, Leaf(given[i]._record))
        outputs = replay(graph, given)
        leaves = [given[i]._record for i in wanted]
        found = tangents_of(outputs, leaves, tangents)
    for leaf in leaves:
        leaf.active = False
    return found


def tangents_of(
    outputs: Sequence[Any], starts: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    """Return the tangents of recorded values for those of the records that they come from.

    Parameters
    ----------
    outputs : sequence of Any
        Tensors, and what is none.
    starts : sequence of Record
        Where the way back ends.
    tangents : sequence of Tensor or None
        One for each of ``starts``.

    Returns
    -------
    list of Tensor or None
        One for each output, None where nothing moves.
    """
    moving = {id(r): t for r, t in zip(starts, tangents, strict=True) if t is not None}
    records = [y._record if isinstance(y, Handle) else None for y in outputs]
    stop = frozenset(map(id, starts))
    for record in reachable((r for r in records if r is not None), stop)[::-1]:
        if id(record) not in moving:
            _push(record, moving)
    return [None if r is None else moving.get(id(r)) for r in records]


def transposed(
    linear: Callable[[list[Any]], Sequence[Any]],
    specs: Sequence[Any],
    given: Sequence[Any],
    create_graph: bool = True,
) -> list[Any]:
    """Return the transpose of a linear function, at one tensor or None for each of its results.

    The tangents of outputs are the transpose of the gradient; the gradients of arguments are that
    of a forward rule.

    Parameters
    ----------
    linear : callable
        A list of tensors to a sequence of tensors or None.
    specs : sequence of Spec
        Those of its operands.
    given : sequence of Tensor or None
        One for each result.
    create_graph : bool, optional
        Whether the result can be differentiated. By default True.

    Returns
    -------
    list of Tensor or None
        One for each operand.
    """
    device = next(t for t in given if t is not None)._value.device
    operands = []
    for s in specs:
        u = zeros_of(s, device)
        u._record = Leaf() if s.dtype.is_inexact else None
        operands.append(u)
    with enable_grad():
        made = linear(operands)
    pairs = [
        (h._record, t)
        for h, t in zip(made, given, strict=True)
        if h is not None and t is not None and h._record is not None
    ]
    leaves = [u._record for u in operands if u._record is not None]
    found = backpropagate(pairs, leaves, create_graph)
    for leaf in leaves:
        leaf.active = False
    return [None if u._record is None else found.get(id(u._record)) for u in operands]


def _through(t: Any, steps: Any) -> Any:
    for step in steps:
        t = recorder.apply(step.op, t, **step.attributes)
    return t
