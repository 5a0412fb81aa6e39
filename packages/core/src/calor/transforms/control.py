"""Control flow that depends on data: cond, while_loop, fori_loop and scan.

Each traces its functions into sub-graphs; tensors that they capture become operands of the node.
They may be used inside and outside jit, and may be nested.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calor import tree
from calor.dtypes import bool_
from calor.errors import ArgumentError, ShapeError, TraceError
from calor.graph.graph import Graph
from calor.graph.trace import Handle, Value, local, wrap
from calor.graph.tracing import GraphTrace
from calor.ops import control as rows
from calor.ops import elementwise as e
from calor.specs import Spec, spec
from calor.transforms.records import untracked


def _tensors(values: Any, device: Any) -> tuple[list[Any], tree.TreeDef]:
    from calor.functions.creation import asarray

    flat, structure = tree.flatten(values)
    return [x if isinstance(x, Handle) else asarray(x, device=device) for x in flat], structure


class Body:
    """A function traced for a sub-graph: graph, captures, and the structure of its result."""

    def __init__(
        self, function: Callable[..., Any], name: str, specs: Sequence[Spec], call: Any, device: Any
    ) -> None:
        with GraphTrace(device, name, read_only=True) as trace, untracked():
            placeholders = [trace.placeholder(s) for s in specs]
            result = call(function, placeholders)
            leaves, self.structure = tree.flatten(result)
            from calor.functions.creation import asarray

            outputs = [x if isinstance(x, Handle) else asarray(x, device=device) for x in leaves]
            self.graph: Graph = trace.graph(outputs)
            given = trace.inputs[len(specs) :]
        self.captures = [wrap(x) if type(x) is Value else x for x in given]


def widen(graph: Graph, count: int, captures: Sequence[Any], union: Sequence[Any]) -> Graph:
    """Return the graph with the captures of ``union`` as its inputs after the first ``count``."""
    from calor.graph.graph import Builder

    builder = Builder()
    first = [builder.input(graph.specs[i]) for i in range(count)]
    rest = {id(t): builder.input(spec(t.shape, t.dtype)) for t in union}
    outputs = builder.inline(graph, [*first, *(rest[id(t)] for t in captures)])
    return builder.build(outputs)


def _device(leaves: Sequence[Any]) -> Any:
    from calor.backends.selection import current_device

    for x in leaves:
        if isinstance(x, Handle):
            return x._value.device
    return current_device()


def _strong(flat: list[Any]) -> list[Spec]:
    return [spec(t._value.spec.shape, t._value.spec.dtype) for t in flat]


def _many(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple) else [made]


def _check_structure(what: str, body: Body, wanted: tree.TreeDef) -> None:
    if body.structure != wanted:
        raise ShapeError(f"{what} returns the structure {body.structure}, it must be {wanted}")


def cond(
    predicate: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any
) -> Any:
    """Return ``then(*operands)`` where the predicate holds, else ``otherwise(*operands)``.

    ``predicate`` is a 0-d bool tensor; both functions return the same structure, shapes and
    dtypes, and only one of them runs. Differentiable.

    >>> import calor
    >>> x = calor.asarray(-2.0)
    >>> calor.cond(x > 0, lambda x: x, lambda x: -x, x).item()
    2.0
    """
    if not isinstance(predicate, Handle):
        return then(*operands) if predicate else otherwise(*operands)
    if predicate._value.spec.dtype is not bool_:
        predicate = e.cast(predicate, dtype=bool_)
    device = predicate._value.device
    flat, structure = _tensors(operands, device)
    specs = _strong(flat)

    def call(function: Callable[..., Any], placeholders: list[Any]) -> Any:
        return function(*tree.unflatten(structure, placeholders))

    first = Body(then, "cond's first branch", specs, call, device)
    second = Body(otherwise, "cond's second branch", specs, call, device)
    _check_structure("cond: the second branch", second, first.structure)
    union = list({id(t): t for t in (*first.captures, *second.captures)}.values())
    made = rows.cond(
        predicate,
        *flat,
        *union,
        then=widen(first.graph, len(specs), first.captures, union),
        otherwise=widen(second.graph, len(specs), second.captures, union),
    )
    return tree.unflatten(first.structure, _many(made))


def while_loop(condition: Callable[[Any], Any], body: Callable[[Any], Any], init: Any) -> Any:
    """Return the carry after ``body`` was applied while ``condition(carry)`` holds.

    The carry is any pytree of tensors; its shapes and dtypes stay the same. Forward derivatives
    exist (calor.jvp); there is no reverse one, since the number of steps is not known.

    >>> import calor
    >>> calor.while_loop(lambda x: x < 100, lambda x: x * 2, calor.asarray(3)).item()
    192
    """
    flat, structure = tree.flatten(init)
    device = _device(flat)
    flat, structure = _tensors(init, device)
    specs = _strong(flat)

    def call(function: Callable[..., Any], placeholders: list[Any]) -> Any:
        return function(tree.unflatten(structure, placeholders))

    test = Body(condition, "while_loop's condition", specs, call, device)
    step = Body(body, "while_loop's body", specs, call, device)
    _check_structure("while_loop: the body", step, structure)
    made = rows.while_loop(
        *test.captures,
        *step.captures,
        *flat,
        condition=test.graph,
        body=step.graph,
        captures=(len(test.captures), len(step.captures)),
    )
    return tree.unflatten(structure, _many(made))


def scan(
    body: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    *,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Return the last carry and the stacked outputs of ``carry, y = body(carry, x)`` over xs.

    ``xs`` is a pytree of tensors whose first axis is walked (from the end with ``reverse``);
    with ``xs=None`` give ``length``, and x is None. Differentiable to any order.

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
    specs = _strong(carry) + [spec(t.shape[1:], t.dtype) for t in rows_in]
    n = len(carry)

    def call(function: Callable[..., Any], placeholders: list[Any]) -> Any:
        result = function(
            tree.unflatten(carry_structure, placeholders[:n]),
            tree.unflatten(row_structure, placeholders[n:]),
        )
        if not isinstance(result, tuple) or len(result) != 2:
            raise TraceError("scan: the body must return a pair (carry, output)")
        return result

    traced = Body(body, "scan's body", specs, call, device)
    after, out_structure = traced.structure.children
    if after != carry_structure:
        raise ShapeError(f"scan: the body returns the carry {after}, it must be {carry_structure}")
    operands = [*traced.captures, *carry, *rows_in]
    keep = local.grad_enabled and any(t._record is not None for t in operands)
    made = _many(
        rows.scan(
            *operands,
            body=traced.graph,
            captures=len(traced.captures),
            carries=n,
            length=count,
            reverse=reverse,
            keep=keep,
        )
    )
    outputs = made[n : len(made) - n] if keep else made[n:]
    return tree.unflatten(carry_structure, made[:n]), tree.unflatten(out_structure, outputs)


def fori_loop(lower: Any, upper: Any, body: Callable[[Any, Any], Any], init: Any) -> Any:
    """Return the carry after ``carry = body(i, carry)`` for i from lower to upper − 1.

    With Python bounds it is a scan and differentiable; with tensors as bounds a while_loop.

    >>> import calor
    >>> calor.fori_loop(0, 5, lambda i, total: total + i, calor.asarray(0)).item()
    10
    """
    if isinstance(lower, int) and isinstance(upper, int):
        from calor.ops.sources import iota

        n = max(upper - lower, 0)
        if n == 0:
            return init
        from calor.backends.selection import on_device
        from calor.dtypes import int64

        with on_device(_device(tree.leaves(init))):
            places = iota(length=n, dtype=int64) + lower
        return scan(lambda carry, i: (body(i, carry), None), init, places)[0]

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        return state[0] + 1, body(state[0], state[1])

    return while_loop(lambda state: state[0] < upper, step, (lower, init))[1]
