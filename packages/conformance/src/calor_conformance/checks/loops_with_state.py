"""Bodies that change what is outside of them: in loops, branches, and all that runs a body again.

A tensor, a stream of random numbers and an object are changed within bodies of drawn transforms,
inside each other. The same statements in loops and branches of Python, op by op, say what is right:
what comes out, what the outside holds afterwards, and the gradient.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, float64, int32, int64, uint32
from calor.transforms.state import Stateful

from .base import Check, Place

CONTRACT: Final = "what a body changes outside is changed as if its steps were written out"
_PROGRAMS: Final = 10
Rng = np.random.Generator
Body = Callable[["_Outside", Any], Any]
# What it is, and the run of it.
Drawn = tuple[str, Callable[["_Steps", "_Outside", Any], Any]]


class _Object(Stateful):
    def __init__(self) -> None:
        self.mean: Any = calor.zeros((3,), dtype=float64)
        self.count: Any = calor.asarray(np.int64(0))


class _Outside:
    """What bodies change."""

    def __init__(self, number: int) -> None:
        self.total: Any = calor.zeros((3,), dtype=float64)
        self.stream = calor.random.Generator(number)
        self.object = _Object()

    def told(self) -> list[Any]:
        held = (self.total, self.object.mean, self.object.count, self.stream.counter)
        return [t.detach().numpy() for t in held]


def _adds(out: _Outside, x: Any) -> Any:
    out.total += x * 0.5
    return x + out.total


def _draws(out: _Outside, x: Any) -> Any:
    drawn = calor.random.uniform((3,), dtype=float64, generator=out.stream)
    return x * (0.5 + drawn)


def _notes(out: _Outside, x: Any) -> Any:
    out.object.count += 1
    with calor.no_grad():
        out.object.mean *= 0.5
        out.object.mean += x
    return x * 0.9 + out.object.mean * 0.1


def _writes(out: _Outside, x: Any) -> Any:
    out.total[1] = x[0]
    out.total[0:1] *= 0.5
    return calor.tanh(x) + out.total[::-1]


def _plain(out: _Outside, x: Any) -> Any:
    return calor.sin(x) * x + 0.1


_PIECES: Final[tuple[Body, ...]] = (_adds, _draws, _notes, _writes, _plain)


class _Steps:
    """Transforms as steps that are written out."""

    def scan(self, body: Any, x: Any, count: int, reverse: bool) -> Any:
        rows, made = [x * (k + 1) for k in range(count)], [x] * count
        for k in reversed(range(count)) if reverse else range(count):
            x = body(x * 0.5 + rows[k] * 0.1)
            made[k] = x * 2
        return x + calor.sum(calor.stack(made), axis=0)

    def loop(self, body: Any, x: Any, count: int) -> Any:
        for _ in range(count):
            x = body(x)
        return x

    def branch(self, x: Any, one: Any, other: Any) -> Any:
        return one(x) if calor.sum(x).numpy() > 0 else other(x)

    def again(self, body: Any, x: Any, how: str) -> Any:
        return body(x)

    def runs(self, body: Any, x: Any, count: int) -> Any:
        return self.loop(body, x, count)


class _Transforms(_Steps):
    """The same as calor transforms them.

    ``apart``: whether jitted functions are called as programs of their own, through whose changes
    of the outside no gradient flows; inside another one they are part of that.
    """

    def __init__(self, apart: bool) -> None:
        self.apart = apart

    def scan(self, body: Any, x: Any, count: int, reverse: bool) -> Any:
        rows = calor.stack([x * (k + 1) for k in range(count)])

        def step(c: Any, row: Any) -> Any:
            made = body(c * 0.5 + row * 0.1)
            return made, made * 2

        last, every = calor.scan(step, x, rows, reverse=reverse)
        return last + calor.sum(every, axis=0)

    def loop(self, body: Any, x: Any, count: int) -> Any:
        return calor.fori_loop(0, count, lambda _, c: body(c), x)

    def runs(self, body: Any, x: Any, count: int) -> Any:
        def step(state: Any) -> Any:
            return state[0] + 1, body(state[1])

        start = (calor.asarray(np.int64(0)), x)
        return calor.while_loop(lambda state: state[0] < count, step, start)[1]

    def branch(self, x: Any, one: Any, other: Any) -> Any:
        return calor.cond(calor.sum(x) > 0, one, other, x)

    def again(self, body: Any, x: Any, how: str) -> Any:
        if how == "checkpoint" or not self.apart:
            return calor.checkpoint(body)(x)
        if how == "jit":
            return calor.jit(body)(x)
        if how == "both":
            return calor.jit(calor.checkpoint(body))(x)
        return calor.checkpoint(calor.jit(body))(x)


def _drawn(rng: Rng, depth: int, backward: bool) -> Drawn:
    """Draw a program of bodies inside each other."""
    if depth == 0:
        pieces = [_PIECES[int(i)] for i in rng.integers(0, len(_PIECES), int(rng.integers(1, 3)))]

        def chain(lib: _Steps, out: _Outside, x: Any) -> Any:
            for piece in pieces:
                x = piece(out, x)
            return x

        return ", ".join(piece.__name__[1:] for piece in pieces), chain
    (text, first), (more, second) = (_drawn(rng, d, backward) for d in (depth - 1, 0))
    count, reverse = int(rng.integers(1, 4)), bool(rng.random() < 0.5)
    how = str(rng.choice(("checkpoint", "jit", "both", "inside")))
    kinds = ("scan", "loop", "branch", "again", *(() if backward else ("runs",)))
    kind = str(rng.choice(kinds))

    def run(lib: _Steps, out: _Outside, x: Any) -> Any:
        one, other = partial(first, lib, out), partial(second, lib, out)
        if kind == "scan":
            return lib.scan(one, x, count, reverse)
        if kind == "branch":
            return other(lib.branch(x, one, other))
        if kind == "again":
            return lib.again(one, x, how) + other(x)
        return other((lib.loop if kind == "loop" else lib.runs)(one, x, count))

    return f"{how if kind == 'again' else kind} of ({text}; {more})", run


def _outcome(lib: _Steps, program: Any, number: int, x: Any, how: str, graded: bool) -> list[Any]:
    """Return what two calls give, what they change outside, and gradients."""
    out, made = _Outside(number), []

    def call(t: Any) -> Any:
        return program(lib, out, t)

    if graded:
        function: Any = calor.value_and_grad(lambda t: calor.sum(call(t) * t))
    else:
        function = call
    if how == "jit":
        # Objects are reached through the closure, the tensor and the stream too.
        function = calor.jit(function)
    for turn in range(2):
        found = function(x * (turn + 1))
        made += [t.detach().numpy() for t in calor.tree.leaves(found)] + out.told()
    return made


def _run(graded: bool, place: Place) -> None:
    for turn in range(_PROGRAMS):
        number = place.number(turn)
        rng = np.random.default_rng([number, graded])
        text, program = _drawn(rng, 1 + turn % 3, graded)
        x = calor.asarray(rng.uniform(-1, 1, 3))
        want = _outcome(_Steps(), program, number, x, "plain", graded)
        how = "jit" if turn % 2 else "plain"
        lib = _Transforms(apart=not graded or how == "jit")
        got = _outcome(lib, program, number, x, how, graded)
        for n, (a, b) in enumerate(zip(got, want, strict=True)):
            near = np.allclose(a, b, rtol=1e-9, atol=1e-9)
            assert near, f"{text}, {how}: result {n} is {a.tolist()}, not {b.tolist()}"


def loops_with_state() -> Iterator[Check]:
    """Yield the checks of bodies that change what is outside, without and with gradients."""
    for graded in (False, True):
        yield Check(
            kind="transforms",
            subject=f"bodies-that-change-the-outside{'-graded' if graded else ''}",
            tier="training" if graded else "compiled",
            contract=CONTRACT,
            run=partial(_run, graded),
            text=partial(inspect.getsource, _Transforms),
            op="random_bits",
            dtype=float64,
            dtypes=(float32, float64, int32, int64, uint32),
            features=("control_flow",),
            looks=True,
        )
