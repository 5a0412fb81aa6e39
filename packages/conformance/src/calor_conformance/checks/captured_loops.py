"""Loops and branches whose conditions and bodies read values from outside, nested, transformed.

Conditions, bodies and branches capture what is differentiated, mapped or an input of a compiled
call. The same statements as loops and branches of Python say what is right: values, derivatives
forward and backward by every value, and each row of a mapped call.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float64, int32

from .base import Check, Place

CONTRACT: Final = "a loop or branch differentiates and maps what it captures as its steps would"
_PROGRAMS, _ROWS, _NEAR = 9, 3, 1e-9
Rng = np.random.Generator
# Values from outside: a factor, a summand, and a limit of conditions.
Held = tuple[Any, Any, Any]


@dataclass(frozen=True)
class _Node:
    """A loop or a branch around a step, or around another one."""

    kind: str
    steps: int
    inner: _Node | None

    def told(self) -> str:
        return f"{self.kind} {self.steps}{f' of {self.inner.told()}' if self.inner else ''}"

    def kinds(self) -> set[str]:
        return {self.kind} | (self.inner.kinds() if self.inner else set())


def _node(rng: Rng, depth: int) -> _Node:
    inner = _node(rng, depth - 1) if depth and rng.random() < 0.6 else None
    return _Node(str(rng.choice(("while", "fori", "scan", "cond"))), int(rng.integers(1, 4)), inner)


def _step(node: _Node, held: Held, y: Any, i: Any, plain: bool) -> Any:
    """What a body does: a step that captures, and what is inside."""
    a, b, _ = held
    made = calor.sin(y * a) + b * (i + 1) * 0.25
    if node.inner is None:
        return made
    return _run_node(node.inner, (a, b * calor.mean(made), held[2]), made, plain)


def _run_node(node: _Node, held: Held, y: Any, plain: bool) -> Any:
    a, b, limit = held
    step = partial(_step, node, held)
    if node.kind == "cond":

        def other(t: Any) -> Any:
            return t * b - a

        def test(t: Any) -> Any:
            return calor.sum(t * a) < limit

        if plain:
            return step(y, 0, plain) if test(y).item() else other(y)
        return calor.cond(test(y), lambda t: step(t, 0, plain), other, y)
    if node.kind == "fori":
        if not plain:
            return calor.fori_loop(0, node.steps, lambda i, t: step(t, i, plain), y)
        for i in range(node.steps):
            y = step(y, i, plain)
        return y
    if node.kind == "scan":
        rows = calor.arange(node.steps, dtype=float64) * b
        if not plain:
            last, kept = calor.scan(lambda t, r: (step(t, r, plain), t * r), y, rows)
            return last + calor.sum(kept)
        total = calor.zeros((), dtype=float64)
        for k in range(node.steps):
            total, y = total + calor.sum(y * rows[k]), step(y, rows[k], plain)
        return y + total
    # A count, and a condition on what is captured.
    count, most = calor.asarray(0.0, dtype=float64), limit * 0 + node.steps
    if not plain:
        return calor.while_loop(
            lambda c: (c[0] < most) & (c[0] < limit + 2),
            lambda c: (c[0] + 1, step(c[1], c[0], plain)), (count, y),
        )[1]  # fmt: skip
    while count.item() < most.item() and count.item() < limit.item() + 2:
        count, y = count + 1, step(y, count, plain)
    return y


def _compare(got: Any, want: Any, what: str) -> None:
    found, right = got.numpy(), want.numpy()
    assert found.shape == right.shape, f"{what}: {found.shape}, not {right.shape}"
    near = np.allclose(found, right, rtol=_NEAR, atol=_NEAR)
    assert near, f"{what}: {found.tolist()}, not {right.tolist()}"


def _program(node: _Node, rng: Rng) -> None:
    shape = ((), (2,))[int(rng.integers(2))]
    rows = [[calor.asarray(rng.normal(size=s)) for s in (shape, (), (), ())] for _ in range(_ROWS)]

    def run(x: Any, a: Any, b: Any, limit: Any, *, plain: bool = False) -> Any:
        return _run_node(node, (a, b, limit), x, plain)

    plain: Any = partial(run, plain=True)
    what = f"{node.told()} of {shape}"
    given = rows[0]
    _compare(run(*given), plain(*given), what)
    _compare(calor.jit(run)(*given), plain(*given), f"{what}, jitted")
    along = [calor.asarray(rng.normal(size=t.shape)) for t in given]
    for way, name in ((run, "jvp"), (calor.jit(run), "jvp, jitted")):
        got, want = (calor.jvp(f, tuple(given), tuple(along)) for f in (way, plain))
        _compare(got[0], want[0], f"{what}, value of {name}")
        _compare(got[1], want[1], f"{what}, {name}")
    mapped = calor.vmap(run)(*(calor.stack(column) for column in zip(*rows, strict=True)))
    _compare(mapped, calor.stack([plain(*row) for row in rows]), f"{what}, mapped")
    inner = calor.vmap(run, in_axes=(0, None, None, 0))
    columns = calor.stack([row[0] for row in rows]), calor.stack([row[3] for row in rows])
    right = calor.stack([plain(row[0], given[1], given[2], row[3]) for row in rows])
    _compare(inner(columns[0], given[1], given[2], columns[1]), right, f"{what}, mapped in part")
    if "while" in node.kinds():
        # How many values a loop on data keeps is not known: it has no derivative backward.
        return
    numbers = (0, 1, 2)
    got, want = (
        calor.grad(lambda *t, f=f: calor.sum(f(*t)), argnums=numbers)(*given) for f in (run, plain)
    )
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        _compare(g, w, f"{what}, gradient {k}")


def _run(place: Place) -> None:
    for number in range(_PROGRAMS):
        rng = np.random.default_rng([place.seed, 201, number])
        _program(_node(rng, 2), rng)


def captured_loops() -> Iterator[Check]:
    """Yield the check of drawn loops and branches."""
    yield Check(
        kind="history",
        subject="drawn-captured-loops",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=lambda: inspect.getsource(_run_node) + inspect.getsource(_program),
        dtypes=(float64, int32),
        features=("control_flow",),
        looks=True,
    )
