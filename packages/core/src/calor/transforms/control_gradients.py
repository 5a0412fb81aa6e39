"""Gradients of control flow, written in control flow, and given to its rows with their tangents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calor.functions.creation import zeros
from calor.graph.graph import Graph
from calor.ops import control as rows
from calor.recording.replay import replay
from calor.specs import spec
from calor.transforms import control
from calor.transforms.bodies import Body
from calor.transforms.control_tangents import cond_jvp, inexact, scan_jvp, while_jvp
from calor.transforms.grad import vjp
from calor.transforms.scan_products import apart
from calor.transforms.scan_saves import with_rows
from calor.transforms.simplify import simplify


def _as_list(g: Any) -> list[Any]:
    return list(g) if isinstance(g, list | tuple) else [g]


def _pull(
    graph: Graph,
    primals: Sequence[Any],
    places: Sequence[int],
    gs: Mapping[int, Any],
    also: Sequence[int] = (),
) -> list[Any]:
    """Return gradients of the primals at ``places``, then the outputs ``also``.

    ``gs``: the gradients of some of the outputs.
    """

    def run(*moving: Any) -> list[Any]:
        given = list(primals)
        for place, t in zip(places, moving, strict=True):
            given[place] = t
        made[:] = replay(graph, given)
        return [made[i] for i in gs]

    made: list[Any] = []
    _, pull = vjp(run, *[primals[p] for p in places])
    found = pull([*gs.values()])
    parts = [_zeros(primals[p]) if g is None else g for p, g in zip(places, found, strict=True)]
    return [*parts, *(made[i] for i in also)]


def _zeros(like: Any) -> Any:
    return zeros(like.shape, dtype=like.dtype, device=like.device)


def cond_gradient(g: Any, y: Any, *x: Any, then: Graph, otherwise: Graph) -> list[Any]:
    """Gradient of cond: the cond of the branches' gradients."""
    predicate, operands = x[0], x[1:]
    floats = [i for i, s in enumerate(then.output_specs) if s.dtype.is_inexact]
    all_g = _as_list(g)
    gs = [all_g[i] for i in floats]
    places = inexact(operands)
    n = len(operands)

    def branch(graph: Graph) -> Any:
        return lambda *given: _pull(
            graph, given[:n], places, dict(zip(floats, given[n:], strict=True))
        )

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
    """Gradient of scan: a scan the other way, over the carries that were kept.

    Products that were stacked are read, and those that need no step are computed for all steps at
    once.
    """
    held, carry, xs = x[:captures], x[captures : captures + carries], x[captures + carries :]
    all_g, all_y = _as_list(g), _as_list(y)
    outs = len(body.output_specs) - carries
    float_carry, float_held, float_xs = inexact(carry), inexact(held), inexact(xs)
    start = [_zeros(carry[i]) if all_g[i] is None else all_g[i] for i in float_carry]
    g_outs = {
        i: all_g[i]
        for i in range(carries, carries + outs)
        if body.output_specs[i].dtype.is_inexact and all_g[i] is not None
    }
    # The kept carries are outputs too: a gradient of this gradient reaches them.
    g_kept = {k: all_g[carries + outs + i] for k, i in enumerate(float_carry)}
    g_kept = {k: given for k, given in g_kept.items() if given is not None}
    places = (
        float_carry + [carries + i for i in float_xs] + [carries + len(xs) + i for i in float_held]
    )
    known = range(carries, carries + outs)
    stacks = [*all_y[carries + outs :], *xs, *g_outs.values(), *(all_y[i] for i in known)]

    def pulled(*given: Any) -> list[Any]:
        rows, own, g_carry = given[: n - outs], given[n : n + captures], given[n + captures :]
        primals = [*rows[: carries + len(xs)], *own]
        gs = dict(zip(float_carry, g_carry, strict=True))
        gs |= zip(g_outs, rows[carries + len(xs) :], strict=True)
        return _pull(body, primals, places, gs, known)

    n, nc, nx = len(stacks), len(float_carry), len(float_xs)
    specs = [spec(t.shape[1:], t.dtype) for t in stacks]
    specs += [spec(t.shape, t.dtype) for t in (*held, *start)]
    traced = Body(pulled, "scan's gradient", specs, lambda function, t: function(*t), x[0].device)
    stays = dict(zip(range(n, n + captures), held, strict=True))
    stays |= enumerate(traced.captures, n + captures + nc)
    moved = apart(
        with_rows(simplify(traced.graph), range(n - outs, n)),
        rows=range(n),
        held=[*stays],
        stacked=range(nc, nc + nx),
        added=range(nc + nx, nc + nx + len(float_held)),
    )
    before = moved.rows(dict(enumerate(stacks)), stays)
    summed = [place - nc - nx for place in moved.places[nc + nx :]]
    read = {*moved.graph.outputs, *(i for node in moved.graph.nodes for i in node.inputs)}
    read &= {*range(n)}

    def step(state: tuple[list[Any], list[Any]], row: tuple[Any, ...]) -> Any:
        g_carry, totals = state
        rows, products, g_before = row
        # A stack stands for a row that nothing reads.
        given = [rows.get(i, stack) for i, stack in enumerate(stacks)]
        found = replay(moved.graph, [*given, *held, *g_carry, *traced.captures, *products])
        ends = nc + nx + len(totals)
        added = [a + b for a, b in zip(totals, found[nc + nx : ends], strict=True)]
        arrived = found[:nc]
        for place, part in zip(g_kept, g_before, strict=True):
            arrived[place] = arrived[place] + part
        return (arrived, added), (found[nc : nc + nx], found[ends:])

    (g_init, totals), (g_xs, more) = control.scan(
        step,
        (start, [_zeros(held[float_held[k]]) for k in summed]),
        ({i: stacks[i] for i in sorted(read)}, before, [*g_kept.values()]),
        length=length,
        reverse=not reverse,
    )
    g_held = dict(zip(summed, totals, strict=True))
    found = moved.sums([*stacks, *before], g_xs, more)
    g_held |= {place - nc - nx: total for place, total in found.items()}
    result: list[Any] = [None] * len(x)
    for k, i in enumerate(float_held):
        result[i] = g_held[k]
    for i, part in zip(float_carry, g_init, strict=True):
        result[captures + i] = part
    for i, part in zip(float_xs, g_xs, strict=True):
        result[captures + carries + i] = part
    return result


rows.cond.differentiate_by(vjp=cond_gradient, jvp=cond_jvp)
rows.scan.differentiate_by(vjp=scan_gradient, jvp=scan_jvp)
rows.while_loop.differentiate_by(jvp=while_jvp)
