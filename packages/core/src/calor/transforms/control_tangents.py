"""Tangents of control flow, written in control flow.

A loop runs on its carry and the carry's tangent together, so that nothing is remembered. Only
while_loop needs that: the derivative of the others is the transpose of their gradient, but for one
whose graph holds a loop that has no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor.functions.creation import zeros
from calor.graph.graph import Graph
from calor.ops import control as rows
from calor.recording.replay import replay
from calor.transforms import control
from calor.transforms.forward import jvp


def inexact(tensors: Sequence[Any]) -> list[int]:
    """Return the places of floating and complex tensors."""
    return [i for i, t in enumerate(tensors) if t.dtype.is_inexact]


def has_gradient(graph: Graph) -> bool:
    """Return whether no op of a graph, or of one inside it, has a forward rule alone."""
    return all(
        node.op is not rows.while_loop
        and all(has_gradient(inner) for inner in node.attributes.values() if type(inner) is Graph)
        for node in graph.nodes
    )


def _along(graph: Graph, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Return a graph's outputs, and their derivatives along the tangents that are not None."""
    moving = [i for i, t in enumerate(tangents) if t is not None]

    def run(*parts: Any) -> list[Any]:
        given = list(primals)
        for i, part in zip(moving, parts, strict=True):
            given[i] = part
        return replay(graph, given)

    return jvp(run, [primals[i] for i in moving], [tangents[i] for i in moving])


def _started(carry: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Return the tangents of the floating part of a carry, zeros where none is given."""
    return [
        zeros(carry[i].shape, dtype=carry[i].dtype, device=carry[i].device)
        if tangents[i] is None
        else tangents[i]
        for i in inexact(carry)
    ]


def _spread(found: Sequence[Any], places: Sequence[int], count: int) -> list[Any]:
    """Return tangents at their places among ``count`` values, None elsewhere."""
    made: list[Any] = [None] * count
    for i, t in zip(places, found, strict=True):
        made[i] = t
    return made


def cond_jvp(
    tangents: Sequence[Any], y: Any, *x: Any, then: Graph, otherwise: Graph
) -> list[Any] | Any:
    """Tangents of cond: the cond of the branches' tangents; NotImplemented if it has a gradient."""
    if has_gradient(then) and has_gradient(otherwise):
        return NotImplemented
    predicate, operands = x[0], x[1:]
    places = [i for i, t in enumerate(tangents[1:]) if t is not None]
    floats = [i for i, s in enumerate(then.output_specs) if s.dtype.is_inexact]
    n = len(operands)

    def branch(graph: Graph) -> Any:
        def run(*given: Any) -> list[Any]:
            derivatives = _along(graph, given[:n], _spread(given[n:], places, n))[1]
            return [derivatives[i] for i in floats]

        return run

    moving = [tangents[1 + i] for i in places]
    found = control.cond(predicate, branch(then), branch(otherwise), *operands, *moving)
    return _result(_spread(found, floats, len(then.output_specs)))


def scan_jvp(
    tangents: Sequence[Any],
    y: Any,
    *x: Any,
    body: Graph,
    captures: int,
    carries: int,
    length: int,
    reverse: bool,
    keep: bool,
) -> list[Any] | Any:
    """Tangents of scan: a scan of carry and tangent; NotImplemented if it has a gradient."""
    if has_gradient(body):
        return NotImplemented
    ends = captures + carries
    held, carry, xs = x[:captures], x[captures:ends], x[ends:]
    t_held, t_carry, t_xs = tangents[:captures], tangents[captures:ends], tangents[ends:]
    places, floats = [i for i, t in enumerate(t_xs) if t is not None], inexact(carry)
    made = [i for i, s in enumerate(body.output_specs) if s.dtype.is_inexact and i >= carries]

    def step(state: tuple[list[Any], list[Any]], row: tuple[list[Any], list[Any]]) -> Any:
        values, ts = state
        own = _spread(row[1], places, len(xs))
        along = [*_spread(ts, floats, carries), *own, *t_held]
        outputs, derivatives = _along(body, [*values, *row[0], *held], along)
        after = outputs[:carries], [derivatives[i] for i in floats]
        return after, ([derivatives[i] for i in made], ts if keep else [])

    (_, last), (stacked, kept) = control.scan(
        step,
        (list(carry), _started(carry, t_carry)),
        (list(xs), [t_xs[i] for i in places]),
        length=length,
        reverse=reverse,
    )
    count = len(body.output_specs)
    found = _spread([*last, *stacked], [*floats, *made], count)
    return _result([*found, *(_spread(kept, floats, carries) if keep else ())])


def while_jvp(
    tangents: Sequence[Any],
    y: Any,
    *x: Any,
    condition: Graph,
    body: Graph,
    captures: tuple[int, int],
) -> list[Any] | Any:
    """Tangents of while_loop: the loop on carry and tangent together."""
    first, rest = x[: captures[0]], x[captures[0] :]
    second, carry = rest[: captures[1]], rest[captures[1] :]
    t_second = tangents[captures[0] : sum(captures)]
    floats = inexact(carry)

    def test(state: tuple[list[Any], list[Any]]) -> Any:
        return replay(condition, [*state[0], *first])[0]

    def step(state: tuple[list[Any], list[Any]]) -> Any:
        values, ts = state
        along = [*_spread(ts, floats, len(carry)), *t_second]
        made, derivatives = _along(body, [*values, *second], along)
        return made, [derivatives[i] for i in floats]

    start = list(carry), _started(carry, tangents[sum(captures) :])
    _, found = control.while_loop(test, step, start)
    return _result(_spread(found, floats, len(carry)))


def _result(tangents: list[Any]) -> list[Any] | Any:
    return tangents if len(tangents) > 1 else tangents[0]
