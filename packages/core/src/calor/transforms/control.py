"""Control flow that depends on data: cond, while_loop, fori_loop and scan.

Each traces its functions into sub-graphs; tensors that they capture become operands of the node,
and those that they change in place results of it as well. They may be used inside and outside jit,
and may be nested.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from calor import tree
from calor.config import config
from calor.device_selection import as_device, current_device
from calor.dtypes import bool_, int64
from calor.errors import ArgumentError, DTypeError, ShapeError, TraceError
from calor.local import local
from calor.ops import control as rows
from calor.ops import elementwise as e
from calor.ops.base import Op
from calor.ops.sources import iota
from calor.specs import Spec, spec
from calor.tensor.values import Handle
from calor.transforms.arguments import as_tensors
from calor.transforms.bodies import Body, recorded, state, store, union, without
from calor.transforms.flows import through
from calor.transforms.scan_ahead import ahead
from calor.transforms.scan_saves import with_products


def _tensors(values: Any, device: Any) -> tuple[list[Any], tree.TreeDef]:
    flat, structure = tree.flatten(values)
    return as_tensors(flat, device), structure


def _device(leaves: Sequence[Any]) -> Any:
    for x in leaves:
        if isinstance(x, Handle):
            return x._value.device
    return current_device()


def _specs(flat: list[Any]) -> list[Spec]:
    return [t._value.spec for t in flat]


def _node(
    row: Op, written: list[Any], where: slice, operands: list[Any], **attributes: Any
) -> list[Any]:
    """Record the op, store its results ``where`` they belong to written state; return them all.

    Branches and bodies without results have nothing to compute, so nothing is recorded. Results
    through which no gradient flows have no record.
    """
    graphs = [attributes[name] for name in ("then", "body") if name in attributes]
    if not any(graph.outputs for graph in graphs):
        return []
    made = row(*operands, **attributes)
    made = list(made) if isinstance(made, tuple) else [made]
    if written or recorded(operands):
        flags = through(row, [t._record is not None for t in operands], attributes)
        for t, flag in zip(made, flags, strict=True):
            t._record = t._record if flag else None
        store(written, made[where], flags[where])
    return made


def _check_structure(what: str, body: Body, wanted: tree.TreeDef) -> None:
    if body.structure != wanted:
        raise ShapeError(f"{what} returns the structure {body.structure}, it must be {wanted}")


def cond(  # numpydoc ignore=RS01
    predicate: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any
) -> Any:
    """Run one of two functions, chosen by a tensor.

    Unlike Python's ``if`` it can be traced by `calor.jit`. Differentiable.

    Parameters
    ----------
    predicate : Tensor or bool
        A 0-d tensor, or a Python truth value.
    then : callable
        Called as ``then(*operands)`` if the predicate holds.
    otherwise : callable
        Called as ``otherwise(*operands)`` if not. Both return the same structure, shapes and
        dtypes; keys of dictionaries may come in any order.
    *operands : Any
        Tensors, or pytrees of tensors.

    Returns
    -------
    Any
        What the chosen function returns. Only that one is computed.

    Raises
    ------
    ShapeError
        If the two functions return different structures, shapes or dtypes.
    DTypeError
        If the predicate is not 0-d.
    TraceError
        If a function reads the value of a traced tensor.

    Examples
    --------
    >>> import calor
    >>> x = calor.asarray(-2.0)
    >>> calor.cond(x > 0, lambda x: x, lambda x: -x, x).item()
    2.0
    """
    if not isinstance(predicate, Handle):
        return then(*operands) if predicate else otherwise(*operands)
    if config.nans and not local.jit:
        chosen: Any = predicate
        return then(*operands) if chosen else otherwise(*operands)
    if predicate._value.spec.dtype is not bool_:
        predicate = e.cast(predicate, dtype=bool_)
    device = predicate._value.device
    flat, structure = _tensors(operands, device)
    specs = _specs(flat)

    def call(function: Callable[..., Any], placeholders: list[Any]) -> Any:
        return function(*tree.unflatten(structure, placeholders))

    first = Body(then, "cond's first branch", specs, call, device)

    def alike(function: Callable[..., Any], placeholders: list[Any]) -> Any:
        return tree.ordered(call(function, placeholders), first.structure)

    second = Body(otherwise, "cond's second branch", specs, alike, device)
    _check_structure("cond: the second branch", second, first.structure)
    written = union(first.written, second.written)
    captured = union(first.captures, second.captures)
    order, results = [*range(len(flat)), *captured], [*range(first.results), *written]
    held = dict(zip(map(id, written), state("cond", written), strict=True))
    made = _node(
        rows.cond,
        written,
        slice(first.results, None),
        [predicate, *flat, *(held.get(id(t), t) for t in captured)],
        then=first.arranged(order, results),
        otherwise=second.arranged(order, results),
    )
    return tree.unflatten(first.structure, made[: first.results])


def while_loop(
    condition: Callable[[Any], Any], body: Callable[[Any], Any], init: Any
) -> Any:  # numpydoc ignore=RS01
    """Apply a function to a carry as long as a condition holds.

    Unlike Python's ``while`` it can be traced by `calor.jit`.

    Parameters
    ----------
    condition : callable
        ``condition(carry)`` returns a 0-d bool tensor.
    body : callable
        ``body(carry)`` returns the next carry, of the same structure, shapes and dtypes.
    init : Any
        The first carry: a tensor, or a pytree of tensors and numbers.

    Returns
    -------
    Any
        The last carry.

    Raises
    ------
    ShapeError
        If the body changes the structure, a shape or a dtype of the carry.
    DTypeError
        If the condition does not return a 0-d bool.
    TraceError
        If a function reads the value of a traced tensor, or the condition changes a tensor in
        place.

    Notes
    -----
    `calor.jvp` differentiates it. Reverse mode raises GradientError, as the number of steps is not
    known in advance; `scan` and `fori_loop` with Python bounds have reverse gradients.

    Examples
    --------
    >>> import calor
    >>> calor.while_loop(lambda x: x < 100, lambda x: x * 2, calor.asarray(3)).item()
    192
    """
    flat, structure = tree.flatten(init)
    device = _device(flat)
    flat, structure = _tensors(init, device)
    if config.nans and not local.jit:
        from calor.transforms.plain_control import plain_while

        return plain_while(condition, body, tree.unflatten(structure, flat))
    specs = _specs(flat)

    def call(function: Callable[..., Any], placeholders: list[Any]) -> Any:
        return tree.ordered(function(tree.unflatten(structure, placeholders)), structure)

    advice = "change it in the loop's body instead"
    test = Body(condition, "while_loop's condition", specs, call, device, read_only=advice)
    step = Body(body, "while_loop's body", specs, call, device)
    _check_structure("while_loop: the body", step, structure)
    n, written = len(flat), step.written
    first, second = without(test.captures, written), without(step.captures, written)
    carry = [*range(n), *written]
    made = _node(
        rows.while_loop,
        written,
        slice(n, None),
        [*first, *second, *flat, *state("while_loop's body", written)],
        condition=test.arranged([*carry, *first], range(test.results)),
        body=step.arranged([*carry, *second], carry),
        captures=(len(first), len(second)),
    )
    return tree.unflatten(structure, made[:n])


def scan(
    body: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    *,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Apply a function along the first axis of tensors, and hand on a carry from step to step.

    Differentiable to any order.

    Parameters
    ----------
    body : callable
        ``body(carry, x)`` returns the next carry, of the same structure, shapes and dtypes, and an
        output.
    init : Any
        The first carry: a tensor, or a pytree of tensors and numbers.
    xs : Any, optional
        A pytree of tensors with first axes of one size. Left out, ``x`` is None.
    length : int, optional
        The number of steps; needed if ``xs`` is left out.
    reverse : bool, optional
        Whether the steps go from the last index to the first. By default False.

    Returns
    -------
    tuple
        The last carry, and the outputs of all steps stacked along a new first axis.

    Raises
    ------
    ArgumentError
        If the first axes differ in size, or neither ``xs`` nor ``length`` says how many steps there
        are.
    ShapeError
        If the body changes the structure, a shape or a dtype of the carry.
    TraceError
        If the body does not return a pair, or reads the value of a traced tensor.

    Examples
    --------
    >>> import calor
    >>> total, sums = calor.scan(lambda c, x: (c + x, c + x), 0.0, calor.asarray([1.0, 2.0, 3.0]))
    >>> total.item(), sums.tolist()
    (6.0, [1.0, 3.0, 6.0])
    """
    device = _device([*tree.leaves(init), *tree.leaves(xs)])
    carry, carry_structure = _tensors(init, device)
    rows_in, row_structure = _tensors(xs, device)
    sizes = {t.shape[0] if t.ndim else -1 for t in rows_in}
    if length is not None:
        sizes.add(length)
    if len(sizes) != 1 or -1 in sizes:
        raise ArgumentError(
            f"scan: xs must share the size of their first axis (found {sorted(sizes)}); "
            f"without xs give length="
        )
    count = sizes.pop()
    if config.nans and not local.jit and count:
        from calor.transforms.plain_control import plain_scan

        def row(i: int) -> Any:
            return tree.unflatten(row_structure, [t[i] for t in rows_in])

        return plain_scan(body, tree.unflatten(carry_structure, carry), row, count, reverse)
    specs = _specs(carry) + [spec(t.shape[1:], t.dtype) for t in rows_in]
    n = len(carry)

    def call(function: Callable[..., Any], placeholders: list[Any]) -> Any:
        result = function(
            tree.unflatten(carry_structure, placeholders[:n]),
            tree.unflatten(row_structure, placeholders[n:]),
        )
        if not isinstance(result, tuple) or len(result) != 2:
            raise TraceError("scan: the body must return a pair (carry, output)")
        return tree.ordered(result[0], carry_structure), result[1]

    traced = Body(body, "scan's body", specs, call, device)
    after, out_structure = traced.structure.children
    if after != carry_structure:
        raise ShapeError(f"scan: the body returns the carry {after}, it must be {carry_structure}")
    written = traced.written
    held = without(traced.captures, written)
    carries = n + len(written)
    graph = traced.arranged(
        [*range(n), *written, *range(n, len(specs)), *held],
        [*range(n), *written, *range(n, traced.results)],
    )
    graph, rows_in, held = ahead(graph, carries, rows_in, held)
    operands = [*held, *carry, *state("scan's body", written), *rows_in]
    keep = recorded(operands)
    made = _node(
        rows.scan,
        written,
        slice(n, carries),
        operands,
        body=with_products(graph, carries, len(held)) if keep else graph,
        captures=len(held),
        carries=carries,
        length=count,
        reverse=reverse,
        keep=keep,
    )
    outputs = made[carries : carries + traced.results - n]
    return tree.unflatten(carry_structure, made[:n]), tree.unflatten(out_structure, outputs)


def _bound(value: Any, which: str) -> Any:
    """Return a bound of a counted loop: a Python integer, or a 0-d tensor of an integer type."""
    if isinstance(value, Handle):
        known = value._value.spec
        if known.dtype.is_integer and not known.shape:
            return value
        raise DTypeError(
            f"fori_loop: the {which} bound is {known}; bounds are whole numbers, so convert it "
            f"first: n.astype(calor.int64)"
        )
    try:
        return operator.index(value)
    except TypeError:
        raise DTypeError(
            f"fori_loop: the {which} bound {value!r} is a {type(value).__name__}; bounds are whole "
            f"numbers: int(...)"
        ) from None


def fori_loop(lower: Any, upper: Any, body: Callable[[Any, Any], Any], init: Any) -> Any:
    """Apply a function to a carry for each index of a range.

    Parameters
    ----------
    lower : int or Tensor
        The first index; a tensor is a 0-d integer.
    upper : int or Tensor
        The end of the range, which is not in it. With Python bounds the loop is a `scan`, which has
        reverse gradients, else a `while_loop`, which has none.
    body : callable
        ``body(i, carry)`` returns the next carry, of the same structure, shapes and dtypes.
    init : Any
        The first carry: a tensor, or a pytree of tensors and numbers.

    Returns
    -------
    Any
        The last carry; ``init`` itself if the range is empty.

    Raises
    ------
    DTypeError
        If a bound is not a whole number.
    ShapeError
        If the body changes the structure, a shape or a dtype of the carry.

    Examples
    --------
    >>> import calor
    >>> calor.fori_loop(0, 5, lambda i, total: total + i, calor.asarray(0)).item()
    10
    """
    lower, upper = _bound(lower, "lower"), _bound(upper, "upper")
    if isinstance(lower, int) and isinstance(upper, int):
        n = max(upper - lower, 0)
        if n == 0:
            return init
        with as_device(_device(tree.leaves(init))):
            places = iota(length=n, dtype=int64) + lower
        return scan(lambda carry, i: (body(i, carry), None), init, places)[0]

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        return state[0] + 1, body(state[0], state[1])

    return while_loop(lambda state: state[0] < upper, step, (lower, init))[1]
