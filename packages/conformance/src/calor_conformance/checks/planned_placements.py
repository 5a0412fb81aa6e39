"""Where a router plans to run what: beside all placements of a few operations on given speeds.

Two members with the reference's numbers are told to have certain speeds: one has cheap calls and
slow products, the other the opposite, and to move a value between them takes a certain time.
Programs of drawn sizes, small ones and some beyond what two bytes count, are placed on them. The
seconds that are told are those of the placement by these speeds, and no other takes fewer. What an
operation does is counted in loops and branches as often as it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import product
from math import isclose
from typing import Any, Final

import numpy as np

import calor
from calor.backends.device import Device, device_of
from calor.graph.graph import Graph, Node

from .base import Check, Place
from .device_subjects import device_subjects
from .routed_programs import PACKAGE, Member

CONTRACT: Final = "a router places a program where it takes least, by the speeds of its members"
_GRAPHS, _MOST = 60, 9
# For a call, an operation, a byte and an arithmetic operation; to begin a move, and for a byte.
_SPEEDS: Final = {
    "near-and-slow": (1e-7, 1e-7, 1e-10, 1e-9), "far-and-fast": (8e-6, 5e-7, 2e-11, 1e-12),
}  # fmt: skip
_MOVE: Final = (3e-6, 1e-10)
# Inputs behind the first are mostly state, which stays where it was moved.
_FIRST, _SHARE = 4, 1 / 64
_VIEWS: Final = ("reshape", "expand", "permute", "slice", "full", "iota", "constant")
Rng = np.random.Generator


def _members() -> list[Device]:
    """Return members of which the router knows the speeds, as if it had measured them."""
    figures, speeds = (import_module(f"{PACKAGE}.{n}") for n in ("figures", "speeds"))
    members = [device_of(Member(name), 0) for name in _SPEEDS]
    names = [speeds.name_of(m) for m in members]
    for name, known in zip(names, _SPEEDS.values(), strict=True):
        figures.kept(("speeds", name), lambda known=known: known)
    for source in names:
        for target in names:
            if source != target:
                figures.kept(("transfer", source, target), lambda: _MOVE)
    return members


_ONE: Final[tuple[Callable[[Any], Any], ...]] = (
    calor.tanh, calor.exp, calor.negative, lambda x: x.mT, lambda x: calor.sum(x, 0, keepdims=True),
    lambda x: calor.reshape(x, (-1, 1)),
)  # fmt: skip
_TWO: Final[tuple[Callable[[Any, Any], Any], ...]] = (
    calor.add, calor.multiply, calor.maximum, lambda a, b: a @ b.mT,
)  # fmt: skip


def _graph(rng: Rng) -> Graph:
    """Return the graph of a program of up to six operands of a drawn size."""
    rows, columns = (int(rng.choice([2, 40, 128, 260])) for _ in range(2))
    given = [calor.asarray(np.ones((rows, columns), np.float32))] * int(rng.integers(1, 7))
    draws = [(rng.random(), int(rng.integers(1 << 20)), int(rng.integers(1 << 20)))
             for _ in range(int(rng.integers(1, 5)))]  # fmt: skip

    def program(*operands: Any) -> list[Any]:
        values = list(operands)
        for share, first, second in draws:
            x = values[first % len(values)]
            fits = [v for v in values if v.shape == x.shape]
            if share < 0.4:
                values.append(_ONE[second % len(_ONE)](x))
            else:
                values.append(_TWO[second % len(_TWO)](x, fits[second % len(fits)]))
        return values[len(operands) :]

    return calor.trace(program, *given)


def _done(graph: Graph, node: Node) -> tuple[int, int, int]:
    """Return operations, bytes and arithmetic of a node, those of its bodies with their turns."""
    bodies = [value for value in node.attributes.values() if isinstance(value, Graph)]
    if bodies:
        turns = node.attributes.get("length", 16 if node.op.name == "while_loop" else 1)
        every = [_done(body, inner) for body in bodies for inner in body.nodes]
        count, nbytes, flops = (turns * sum(e[k] for e in every) for k in range(3))
        return 1 + count, nbytes, flops
    if node.op.name in _VIEWS:
        return 1, 0, 0
    nbytes = sum(graph.specs[v].nbytes for v in [*node.inputs, *node.outputs])
    flops = 0
    if node.op.name == "dot_general":
        shape = graph.specs[node.inputs[0]].shape
        length = int(np.prod([shape[a] for a in node.attributes["contract"][0]], dtype=int))
        flops = 2 * graph.specs[node.outputs[0]].size * length
    return 1, nbytes, flops


def _takes(graph: Graph, chosen: Sequence[int], inputs: bool = True) -> float:
    """Return the seconds of a placement: of the operations, and of the values that move."""
    speeds, total = list(_SPEEDS.values()), 0.0
    maker = {v: i for i, node in enumerate(graph.nodes) for v in node.outputs}
    for i, node in enumerate(graph.nodes):
        _, *each = speeds[chosen[i]]
        total += sum(a * b for a, b in zip(_done(graph, node), each, strict=True))
        for v in {*node.inputs} - {*graph.host}:
            source = chosen[maker[v]] if v in maker else 0
            if source != chosen[i] and (inputs or v in maker):
                move = _MOVE[0] + speeds[chosen[i]][0] + _MOVE[1] * graph.specs[v].nbytes
                total += move * (1.0 if v in maker or v < _FIRST else _SHARE)
    return total


def _placed(place: Place) -> None:
    placement, members = import_module(f"{PACKAGE}.placement"), _members()
    apart = 0
    for number in range(_GRAPHS):
        graph = _graph(np.random.default_rng([place.seed, 961, number]))
        if not 0 < len(graph.nodes) <= _MOST:
            continue
        found = placement.placements(members, graph)
        for told, made, chosen, reasons in found:
            what = f"{[n.op.name for n in made.nodes]} on {chosen}"
            wants = {c: _takes(made, c) for c in product((0, 1), repeat=len(made.nodes))}
            want = wants[chosen]
            assert isclose(told, want, rel_tol=1e-9), f"{what}: {told} s, not {want} s"
            least = min(wants.values())
            assert told <= 1.002 * least, f"{what} takes {told} s, and another {least} s"
            assert set(reasons) == {i for i, n in enumerate(chosen) if n}, f"{what}: {reasons}"
            inner = placement.seconds_of(members, made, chosen)
            want = _takes(made, chosen, inputs=False)
            assert isclose(inner, want, rel_tol=1e-9), f"{what}: {inner} s inside, not {want} s"
            apart += len({*chosen}) > 1
        for told, made, chosen, _ in placement.alone(members, graph):
            assert len({*chosen}) == 1, f"alone on {chosen}"
            want = _takes(made, chosen)
            assert isclose(told, want, rel_tol=1e-9), f"alone on {chosen}: {told} s, not {want} s"
    assert apart, "no program is on both members"


def _counted(place: Place) -> None:
    """What nodes do, in loops and branches too."""
    effort = import_module(f"{PACKAGE}.effort").effort
    rng = np.random.default_rng([place.seed, 962])
    rows, columns, length = (int(n) for n in rng.integers(2, 300, 3))
    x = calor.asarray(np.ones((length, columns), np.float32))
    w = calor.asarray(np.ones((columns, rows), np.float32))

    def program(x: Any, w: Any) -> Any:
        last, kept = calor.scan(lambda c, row: (c + row, calor.tanh(row @ w)), x[0], x)
        more = calor.while_loop(lambda v: calor.sum(v) < 9, lambda v: v * 2 + w[:, 0], last)
        return calor.cond(calor.sum(more) > 0, lambda v: (v @ w) * 2, lambda v: v @ -w, more), kept

    graph = calor.trace(program, x, w)
    for node in graph.nodes:
        got, want = effort(graph, node), _done(graph, node)
        assert got == want, f"{node.op.name} does {got}, not {want}"


_SUBJECTS: Final[dict[str, Callable[[Place], None]]] = {
    "planned-placements": _placed, "planned-efforts": _counted,
}  # fmt: skip


def planned_placements() -> Iterator[Check]:
    """Yield the checks, if calor-router is installed."""
    yield from device_subjects(PACKAGE, _SUBJECTS, CONTRACT)
