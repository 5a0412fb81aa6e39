"""Gradients of control flow, written in control flow, and given to its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor.functions.creation import zeros
from calor.graph.graph import Graph
from calor.ops import control as rows
from calor.recording.replay import replay
from calor.transforms import control
from calor.transforms.forward import jvp
from calor.transforms.grad import vjp


def _as_list(g: Any) -> list[Any]:
    return list(g) if isinstance(g, list | tuple) else [g]


def _inexact(tensors: Sequence[Any]) -> list[int]:
    return [i for i, t in enumerate(tensors) if t.dtype.is_inexact]


def _pull(
    graph: Graph, primals: Sequence[Any], places: Sequence[int], gs: Sequence[Any]
) -> list[Any]:
    """Return gradients of the primals at ``places`` for gradients of the graph's float outputs."""

    def run(*moving: Any) -> list[Any]:
        given = list(primals)
        for place, t in zip(places, moving, strict=True):
            given[place] = t
        made = replay(graph, given)
        return [made[i] for i in floats]

    floats = [i for i, s in enumerate(graph.output_specs) if s.dtype.is_inexact]
    _, pull = vjp(run, *[primals[p] for p in places])
    found = pull(list(gs))
    return [
        zeros(primals[p].shape, dtype=primals[p].dtype, device=primals[p].device)
        if g is None
        else g
        for p, g in zip(places, found, strict=True)
    ]


def cond_gradient(g: Any, y: Any, *x: Any, then: Graph, otherwise: Graph) -> list[Any]:
    """Gradient of cond: the cond of the branches' gradients."""
    predicate, operands = x[0], x[1:]
    floats = [i for i, s in enumerate(then.output_specs) if s.dtype.is_inexact]
    all_g = _as_list(g)
    gs = [all_g[i] for i in floats]
    places = _inexact(operands)
    n = len(operands)

    def branch(graph: Graph) -> Any:
        return lambda *given: _pull(graph, given[:n], places, given[n:])

    found = control.cond(predicate, branch(then), branch(otherwise), *operands, *gs)
    result: list[Any] = [None] * len(x)
    for place, part in zip(places, found, strict=True):
        result[1 + place] = part
    return result


def scan_gradient(
    g: Any,
    y: Any,
    *x: Any,
    body: Graph,
    captures: int,
    carries: int,
    length: int,
    reverse: bool,
    keep: bool,
) -> list[Any]:
    """Gradient of scan: a scan the other way, over the carries that were kept."""
    held, carry, xs = x[:captures], x[captures : captures + carries], x[captures + carries :]
    all_g, all_y = _as_list(g), _as_list(y)
    outs = len(body.output_specs) - carries
    kept = all_y[carries + outs :]
    float_carry = _inexact(carry)
    float_outs = [i for i in range(outs) if body.output_specs[carries + i].dtype.is_inexact]
    float_held, float_xs = _inexact(held), _inexact(xs)
    start = [all_g[i] for i in float_carry]
    sums = [zeros(held[i].shape, dtype=held[i].dtype, device=held[i].device) for i in float_held]
    g_outs = [all_g[carries + i] for i in float_outs]
    # The kept carries are outputs too: a gradient of this gradient reaches them.
    g_kept = [all_g[carries + outs + i] for i in float_carry]
    places = (
        float_carry + [carries + i for i in float_xs] + [carries + len(xs) + i for i in float_held]
    )

    def step(state: tuple[list[Any], list[Any]], row: tuple[list[Any], ...]) -> Any:
        g_carry, totals = state
        before, inputs, g_out, g_before = row
        primals = [*before, *inputs, *held]
        # Gradients of the body's float outputs: the carry's, then the stacked ones'.
        found = _pull(body, primals, places, [*g_carry, *g_out])
        nc, nx = len(float_carry), len(float_xs)
        added = [a + b for a, b in zip(totals, found[nc + nx :], strict=True)]
        arrived = [a + b for a, b in zip(found[:nc], g_before, strict=True)]
        return (arrived, added), found[nc : nc + nx]

    (g_init, g_held), g_xs = control.scan(
        step,
        (start, sums),
        (list(kept), list(xs), g_outs, g_kept),
        length=length,
        reverse=not reverse,
    )
    result: list[Any] = [None] * len(x)
    for i, part in zip(float_held, g_held, strict=True):
        result[i] = part
    for i, part in zip(float_carry, g_init, strict=True):
        result[captures + i] = part
    for i, part in zip(float_xs, g_xs, strict=True):
        result[captures + carries + i] = part
    return result


def while_jvp(
    tangents: Sequence[Any],
    y: Any,
    *x: Any,
    condition: Graph,
    body: Graph,
    captures: tuple[int, int],
) -> list[Any]:
    """Tangents of while_loop: the loop on carry and tangent together."""
    first, rest = x[: captures[0]], x[captures[0] :]
    second, carry = rest[: captures[1]], rest[captures[1] :]
    t_second = tangents[captures[0] : sum(captures)]
    t_carry = tangents[sum(captures) :]
    floats = _inexact(carry)
    start = [
        zeros(carry[i].shape, dtype=carry[i].dtype, device=carry[i].device)
        if t_carry[i] is None
        else t_carry[i]
        for i in floats
    ]
    moving = [i for i, t in enumerate(t_second) if t is not None]

    def test(state: tuple[list[Any], list[Any]]) -> Any:
        return replay(condition, [*state[0], *first])[0]

    def step(state: tuple[list[Any], list[Any]]) -> Any:
        values, ts = state

        def run(*parts: Any) -> list[Any]:
            given, more = list(values), list(second)
            for i, t in zip(floats, parts[: len(floats)], strict=True):
                given[i] = t
            for i, t in zip(moving, parts[len(floats) :], strict=True):
                more[i] = t
            return replay(body, [*given, *more])

        primals = [values[i] for i in floats] + [second[i] for i in moving]
        made, derivatives = jvp(run, primals, [*ts, *(t_second[i] for i in moving)])
        return made, [derivatives[i] for i in floats]

    _, found = control.while_loop(test, step, (list(carry), start))
    result: list[Any] = [None] * len(carry)
    for i, t in zip(floats, found, strict=True):
        result[i] = t
    return result if len(result) > 1 else result[0]


rows.cond.differentiate_by(vjp=cond_gradient)
rows.scan.differentiate_by(vjp=scan_gradient)
rows.while_loop.differentiate_by(jvp=while_jvp)
