"""Loops whose bodies move what they capture, twice or more, before they multiply or add it up.

What a loop captures is the same in each step, so a move of it may be taken out of the loop, and its
gradient is summed over steps before or behind the moves back. Captured values are reshaped,
permuted, reversed, broadcast and cut in drawn chains, then multiplied or summed with what the loop
carries; the same steps without a loop say what the values and the derivatives are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float64, int32

from .base import Check, Place

CONTRACT: Final = "a loop has the derivatives by what its body moves that its steps have"
_PROGRAMS, _NEAR, _MOST = 10, 1e-9, 32
_REFERENCE: Final = "numpy"
Rng = np.random.Generator
Shape = tuple[int, ...]
Move = tuple[str, Callable[[Any], Any], Shape]


def _move(rng: Rng, shape: Shape) -> Move:
    """Return a movement of a shape: its words, itself, and the shape that it makes."""
    kind, rank = int(rng.integers(6)), len(shape)
    if kind == 0:
        axes = tuple(int(a) for a in rng.permutation(rank))
        made = tuple(shape[a] for a in axes)
        return f"permute {axes}", lambda t: calor.permute_dims(t, axes), made
    if kind == 1:
        made = _form(rng, prod(shape))
        return f"reshape {made}", lambda t: calor.reshape(t, made), made
    if kind == 2:
        axes = tuple(k for k in range(rank) if rng.random() < 0.6) or (0,)
        return f"flip {axes}", lambda t: calor.flip(t, axis=axes), shape
    if kind == 3 and prod(shape) * 2 <= _MOST:
        made = (2, *shape)
        return f"broadcast {made}", lambda t: calor.broadcast_to(t, made), made
    if kind == 4 and prod(shape) * 2 <= _MOST:
        at = int(rng.integers(rank + 1))
        made = (*shape[:at], 2, *shape[at:])
        return f"spread at {at}", lambda t: calor.broadcast_to(
            calor.expand_dims(t, axis=at), made), made  # fmt: skip
    axis = int(rng.integers(rank))
    if shape[axis] < 2:
        return _move(rng, shape)
    key = (*(slice(None),) * axis, slice(1, None))
    made = (*shape[:axis], shape[axis] - 1, *shape[axis + 1 :])
    return f"cut {axis}", lambda t: t[key], made


def _form(rng: Rng, size: int) -> Shape:
    """Return a shape of a size, of two or three axes."""
    made: list[int] = []
    for _ in range(int(rng.integers(1, 3))):
        fits = [n for n in (1, 2, 3, 4) if size % n == 0]
        made.append(int(rng.choice(fits)))
        size //= made[-1]
    made.append(size)
    return tuple(int(n) for n in rng.permutation(made))


class _Chain:
    """A value of a drawn shape, and two movements of it or more."""

    def __init__(self, rng: Rng) -> None:
        self.start: Shape = tuple(int(n) for n in rng.permutation((2, 3, 2))[: rng.integers(2, 4)])
        self.moves, shape = list[Move](), self.start
        for _ in range(int(rng.integers(2, 5))):
            self.moves.append(_move(rng, shape))
            shape = self.moves[-1][2]
        self.made = shape

    def __call__(self, t: Any) -> Any:
        for _, move, _ in self.moves:
            t = move(t)
        return t

    @property
    def told(self) -> str:
        return f"{self.start}: {', '.join(name for name, _, _ in self.moves)}"


# What a body does with a moved value m and a carried vector y of one number for each end of m.
def _times(m: Any, y: Any) -> Any:
    return calor.sum(m * y, axis=tuple(range(m.ndim - 1)))


def _product(m: Any, y: Any) -> Any:
    rows = calor.reshape(m, (-1, m.shape[-1]))
    return calor.sum(calor.sin(rows @ y)) * 0.1 + y


def _both(m: Any, y: Any) -> Any:
    """The value is read before and behind the product."""
    rows = calor.reshape(m, (-1, m.shape[-1]))
    return (rows @ y) @ rows


def _summed(m: Any, y: Any) -> Any:
    return calor.sum(m, axis=tuple(range(m.ndim - 1))) * y


def _outer(m: Any, y: Any) -> Any:
    made = calor.expand_dims(m, axis=-1) * y
    return calor.sum(made, axis=tuple(range(m.ndim)))


_USES: Final = (_times, _product, _both, _summed, _outer)


class _Program:
    """A loop of a kind over a body that reads one moved value, or two."""

    def __init__(self, rng: Rng, kind: str) -> None:
        self.kind, self.steps = kind, int(rng.integers(2, 5))
        self.chains = [_Chain(rng) for _ in range(int(rng.integers(1, 3)))]
        self.uses = [_USES[int(k)] for k in rng.integers(0, len(_USES), len(self.chains))]
        self.reverse = bool(rng.integers(2))
        self.size = self.chains[0].made[-1]
        # The rows of a scan scale the value before it is moved, or what comes of it.
        self.early = bool(rng.integers(2))

    @property
    def told(self) -> str:
        uses = ", ".join(f"{c.told} {u.__name__[1:]}"
                         for c, u in zip(self.chains, self.uses, strict=True))  # fmt: skip
        return f"{self.kind} of {self.steps}{' reversed' * self.reverse}: {uses}"

    def body(self, held: Any, y: Any, row: Any) -> Any:
        total = y * 0.5
        for chain, use, w in zip(self.chains, self.uses, held, strict=True):
            moved = chain(w * row if self.early else w)
            # Another chain ends with another length.
            at = y if moved.shape[-1] == self.size else calor.broadcast_to(
                calor.mean(y), (moved.shape[-1],))  # fmt: skip
            made = use(moved, at)
            total = total + (made if made.shape == y.shape else calor.sum(made)) * row
        return calor.sin(total)

    def plain(self, y: Any, rows: Any, *held: Any) -> Any:
        order = range(self.steps)
        for k in reversed(order) if self.reverse and self.kind == "scan" else order:
            y = self.body(held, y, rows[k])
        return y

    def loop(self, y: Any, rows: Any, *held: Any) -> Any:
        if self.kind == "scan":
            return calor.scan(lambda c, row: (self.body(held, c, row), None), y, rows,
                              reverse=self.reverse)[0]  # fmt: skip
        if self.kind == "fori":
            return calor.fori_loop(
                0, self.steps, lambda i, c: self.body(held, c, calor.take(rows, i, axis=0)), y
            )

        def step(state: Any) -> Any:
            n, c = state
            return n + 1, self.body(held, c, calor.take(rows, n, axis=0))

        start = (calor.asarray(np.int32(0)), y)
        return calor.while_loop(lambda state: state[0] < self.steps, step, start)[1]


def _compare(got: Any, want: Any, told: str) -> None:
    found, right = got.numpy(), want.numpy()
    assert found.shape == right.shape, f"{told}: shape {found.shape}, not {right.shape}"
    near = np.allclose(found, right, rtol=_NEAR, atol=_NEAR)
    assert near, f"{told}: {found.tolist()}, not {right.tolist()}"


def _jvp(run: Any, given: list[Any], along: list[Any]) -> Any:
    return calor.jvp(run, tuple(given), tuple(along))


def _slope(run: Any, weights: Any, count: int) -> Any:
    return calor.grad(lambda *t: calor.sum(weights * run(*t)), argnums=tuple(range(count)))


def _ask(program: _Program, rng: Rng, place: Place, jitted: bool) -> None:
    shapes = [(program.size,), (program.steps,), *(c.start for c in program.chains)]
    arrays = [np.asarray(rng.uniform(0.3, 1.2, s) * rng.choice((-1, 1), s)) for s in shapes]
    sides = [np.asarray(rng.normal(size=s)) for s in shapes]
    weights, at = rng.normal(size=program.size), int(rng.integers(2, len(shapes)))
    mapped = place.interpreted and rng.random() < 0.3
    backward = program.kind != "while"  # A loop of an unknown count has none.
    told = f"{'jitted ' * jitted}{program.told}"
    # The steps that are written out need a program each, so the reference makes them.
    with calor.device(_REFERENCE):
        given, along = ([calor.asarray(a) for a in some] for some in (arrays, sides))
        wants = _jvp(program.plain, given, along)
        slope = _slope(program.plain, calor.asarray(weights), len(given))
        due = slope(*given) if backward else ()
        others = [t * -2 if k == at else t for k, t in enumerate(given)]
        more = slope(*others) if backward and mapped else ()
    way: Any = calor.jit if jitted else lambda f: f
    given, along = ([calor.asarray(a) for a in some] for some in (arrays, sides))
    pushed = way(lambda p, t: _jvp(program.loop, p, t))(given, along)
    _compare(pushed[0], wants[0], told)
    _compare(pushed[1], wants[1], f"the tangent of {told}")
    if not backward:
        return
    slope = _slope(program.loop, calor.asarray(weights), len(given))
    for k, (a, b) in enumerate(zip(way(slope)(*given), due, strict=True)):
        _compare(a, b, f"the gradient by {k} of {told}")
    if mapped:
        # The same of rows, of which each has its own captured value.
        axes = tuple(0 if k == at else None for k in range(len(given)))
        rows = calor.stack([given[at], given[at] * -2])
        made = calor.vmap(slope, in_axes=axes)(
            *(rows if k == at else t for k, t in enumerate(given))
        )
        for k, (a, one, other) in enumerate(zip(made, due, more, strict=True)):
            want = calor.stack([one, other])
            _compare(a, want, f"the gradient by {k} of mapped {told}")


def _run(place: Place) -> None:
    for number in range(_PROGRAMS):
        if place.tries(number, 12):
            rng = np.random.default_rng([place.seed, 612, number])
            kind = ("scan", "fori", "scan", "while")[number % 4]
            program = _Program(rng, kind)
            _ask(program, rng, place, not place.interpreted or number % 3 == 0)


def moves_in_loops() -> Iterator[Check]:
    """Yield the check of loops that move what they capture."""
    yield Check(
        kind="jit-gradient",
        subject="moves-in-loops",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _Program),
        op="permute",
        dtypes=(float64, int32),
        features=("control_flow",),
        looks=True,
    )
