"""Forward mode: ``calor.jvp``.

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
from calor.tensor.values import Handle
from calor.transforms.grad import Differentiating, seed_for, strip


def jvp(  # numpydoc ignore=RS01
    function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Any, Any]:
    """Return the value of a function and its derivative along tangents.

    Parameters
    ----------
    function : callable
        It returns a tensor, or a pytree of tensors.
    primals : sequence
        The arguments: tensors, Python floats, pytrees of them, or modules.
    tangents : sequence
        The directions, in the structure, shapes and dtypes of ``primals``. None stands for zero.

    Returns
    -------
    tuple
        The value and the derivative, which has the structure of the value.

    Raises
    ------
    ShapeError
        If primals and tangents differ in number, structure or shape.
    DTypeError
        If a tangent has another dtype than its primal.
    GradientError
        If ``function`` contains a `calor.custom_vjp`, which has only a reverse rule, or an op
        without a derivative.

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
    prepared = Differentiating(primals)
    try:
        with enable_grad():
            result = function(*prepared.arguments)
    finally:
        prepared.restore()
    moving: dict[int, Any] = {}
    for slots, primal, tangent in zip(prepared.slots, prepared.primals, tangents, strict=True):
        given = [None] * len(slots) if tangent is None else tree.leaves(tangent)
        if len(given) != len(slots):
            raise ShapeError("jvp: a tangent has another structure than its primal")
        for slot, x, t in zip(slots, primal, given, strict=True):
            if slot is not None and t is not None:
                moving[id(slot)] = seed_for(x, t)
    flat, structure = tree.flatten(result)
    roots = [y._record for y in flat if isinstance(y, Handle)]
    stop = frozenset(id(leaf) for leaf in prepared.leaves)
    for record in reversed(reachable(roots, stop)):
        if id(record) not in moving:
            _push(record, moving)
    for leaf in prepared.leaves:
        leaf.active = False
    values: list[Any] = []
    derivatives: list[Any] = []
    y: Any
    for y in flat:
        if not isinstance(y, Handle):
            values.append(y)
            derivatives.append(None)
            continue
        t = None if y._record is None else moving.get(id(y._record))
        if t is None:
            t = zeros_of(y._value.spec, y._value.device)
        values.append(strip(y, prepared.leaves))
        derivatives.append(strip(t, prepared.leaves))
    return tree.unflatten(structure, values), tree.unflatten(structure, derivatives)


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
        if record.specs is None:
            raise GradientError(
                "forward mode meets a custom gradient, which has only a reverse rule; use "
                "calor.vjp, or leave it out of the function given to calor.jvp"
            )
        moving[id(record)] = _transposed(record.pull, record.specs, tangents)
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
        return sig.op.jvp(prepared, record.result(), *record.operands(), **sig.attributes)
    if isinstance(record, ManyRecord):
        return _transposed(record.pull, sig.outputs, tangents)
    return _transposed(lambda us: record.pull(us[0]), sig.outputs, tangents)[0]


def _transposed(pull: Any, specs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Return the tangents of outputs: the transpose of the gradient that ``pull`` gives."""
    device = next(t for t in tangents if t is not None)._value.device
    cotangents = []
    for s in specs:
        u = zeros_of(s, device)
        u._record = Leaf() if s.dtype.is_inexact else None
        cotangents.append(u)
    with enable_grad():
        pulled = pull(cotangents)
    pairs = [
        (h._record, t)
        for h, t in zip(pulled, tangents, strict=True)
        if h is not None and t is not None and h._record is not None
    ]
    leaves = [u._record for u in cotangents if u._record is not None]
    found = backpropagate(pairs, leaves, True)
    for leaf in leaves:
        leaf.active = False
    return [None if u._record is None else found.get(id(u._record)) for u in cotangents]


def _through(t: Any, steps: Any) -> Any:
    for step in steps:
        t = recorder.apply(step.op, t, **step.attributes)
    return t
