"""Derivatives of drawn programs: backward, forward, of second order, mapped, and as users ask.

An op's gradient is right alone and wrong beside another reader of the same value: which values are
read again, by what, and in which shape, is drawn. The derivative is that of NumPy's program along a
direction, by differences in double precision.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float64

from ..rows.crossed.programs import Program
from ..rows.crossed.smooth import smooth
from .base import Array, Check, Place

CONTRACT: Final = "the derivative of a program is that of its meaning, in every way to ask for it"
_PROGRAMS, _OPS = 12, (4, 9)
_TURNS = 3
_STEP, _NEAR = 1e-5, 1e-5
Weighted = Callable[..., Any]


class _Case:
    """A program with a direction, and weights that make one number of its results."""

    def __init__(self, number: int, ops: int) -> None:
        self.program, self.operands = smooth(number, ops)
        rng = np.random.default_rng([number, ops, 2])
        self.along, self.other, self.weights = (
            [np.asarray(rng.uniform(-1, 1, a.shape)) for a in arrays]
            for arrays in (self.operands, self.operands, self.results(*self.operands))
        )
        self.what = f"program {number} of {ops} ops"

    def run(self, *tensors: Any) -> list[Any]:
        return self.program.run(*tensors)

    def results(self, *arrays: Array) -> list[Array]:
        return self.program.meaning(*arrays)

    def total(self, *tensors: Any) -> Any:
        made = self.run(*tensors)
        return sum(
            (calor.sum(r * calor.asarray(w)) for r, w in zip(made, self.weights, strict=True)),
            calor.asarray(np.zeros(())),
        )

    def meaning(self, by: float, over: float = 0.0) -> float:
        """Return the weighted sum, moved along both directions."""
        moved = [
            a + by * t + over * u
            for a, t, u in zip(self.operands, self.along, self.other, strict=True)
        ]
        made = self.results(*moved)
        return float(sum(np.sum(r * w) for r, w in zip(made, self.weights, strict=True)))

    def slope(self, over: float = 0.0) -> float:
        return (self.meaning(_STEP, over) - self.meaning(-_STEP, over)) / (2 * _STEP)

    def tensors(self) -> list[Any]:
        return [calor.asarray(a) for a in self.operands]

    def compare(self, got: float, want: float, terms: float, how: str) -> None:
        assert abs(got - want) <= _NEAR * (terms + 1), (
            f"{self.what}, {how}: {got!r} along a direction, not {want!r}"
        )


class _Looped(_Case):
    """The program as the body of a loop, whose carry is a result of the first operand's shape."""

    def run(self, *tensors: Any) -> list[Any]:
        first, second, third = tensors

        def body(carry: Any, by: Any) -> Any:
            made = self.program.run(carry, second * by, third)
            return self.next(made, carry, calor.tanh), made[0]

        scale = calor.asarray(np.arange(1.0, _TURNS + 1) / _TURNS)
        end, every = calor.scan(body, first, scale)
        return [end, every]

    def results(self, *arrays: Array) -> list[Array]:
        carry, second, third = arrays
        every = []
        for turn in range(_TURNS):
            made = self.program.meaning(carry, second * ((turn + 1) / _TURNS), third)
            carry = self.next(made, carry, np.tanh)
            every.append(made[0])
        return [carry, np.stack(every)]

    @staticmethod
    def next(made: list[Any], carry: Any, tanh: Callable[[Any], Any]) -> Any:
        """Return the next carry: the last result of its shape, and what it was."""
        fit = [r for r in made if r.shape == carry.shape]
        return tanh(fit[-1]) + carry * 0.5 if fit else tanh(carry)


def _inner(found: list[Any], directions: list[Array]) -> tuple[float, float]:
    """Return the sum of products, and the sum of their magnitudes."""
    each = [t.numpy() * d for t, d in zip(found, directions, strict=True)]
    return float(sum(np.sum(p) for p in each)), float(sum(np.sum(np.abs(p)) for p in each))


def _backward(case: _Case) -> None:
    pull = calor.jit(calor.grad(case.total, argnums=(0, 1, 2)))
    case.compare(
        *_swapped(_inner(list(pull(*case.tensors())), case.along), case.slope()), "backward"
    )


def _swapped(found: tuple[float, float], want: float) -> tuple[float, float, float]:
    return found[0], want, found[1]


def _collected(case: _Case) -> None:
    leaves = [calor.asarray(a, requires_grad=True) for a in case.operands]
    case.total(*leaves).backward()
    found = [t * 0 if t.grad is None else t.grad for t in leaves]
    case.compare(*_swapped(_inner(found, case.along), case.slope()), "collected")
    case.total(*leaves).backward()
    twice = [t * 0 if t.grad is None else t.grad for t in leaves]
    case.compare(*_swapped(_inner(twice, case.along), 2 * case.slope()), "collected twice")


def _forward(case: _Case) -> None:
    directions = [calor.asarray(t) for t in case.along]
    push = calor.jit(lambda *x: calor.jvp(case.total, tuple(x[:3]), tuple(x[3:]))[1])
    found = push(*case.tensors(), *directions).item()
    case.compare(found, case.slope(), abs(found), "forward")


def _second(case: _Case) -> None:
    gradient = calor.grad(case.total, argnums=(0, 1, 2))

    def along(*tensors: Any) -> Any:
        made = gradient(*tensors)
        return sum(
            (calor.sum(g * calor.asarray(t)) for g, t in zip(made, case.along, strict=True)),
            calor.asarray(np.zeros(())),
        )

    want, near = ((case.slope(step) - case.slope(-step)) / (2 * step) for step in (1e-4, 2e-4))
    if abs(want - near) > 1e-3 * (abs(want) + 1):
        return  # A bend of a piecewise function is among the differences.
    found = calor.jit(calor.grad(along, argnums=(0, 1, 2)))(*case.tensors())
    got, terms = _inner(list(found), case.other)
    assert abs(got - want) <= 2e-3 * (terms + 1), (
        f"{case.what}, of second order: {got!r} along two directions, not {want!r}"
    )


def _mapped(case: _Case) -> None:
    pull = calor.grad(case.total, argnums=(0, 1, 2))
    stacked = [np.stack([t, a, t * 0.5]) for a, t in zip(case.operands, case.along, strict=True)]
    every = calor.vmap(pull)(*map(calor.asarray, stacked))
    found = [g[1] for g in every]
    case.compare(*_swapped(_inner(found, case.along), case.slope()), "mapped")


def _again(case: _Case) -> None:
    kept = calor.checkpoint(case.total)
    found = calor.jit(calor.grad(lambda *x: kept(*x) * 2, argnums=(0, 1, 2)))(*case.tensors())
    case.compare(*_swapped(_inner(list(found), case.along), 2 * case.slope()), "computed again")


_WAYS: Final = {
    "backward": _backward, "collected": _collected, "forward": _forward, "second-order": _second,
    "mapped": _mapped, "computed-again": _again,
}  # fmt: skip


def _run(way: Callable[[_Case], None], of: type[_Case], place: Place) -> None:
    for number in range(_PROGRAMS):
        # Of two lengths where a derivative is quick, of one in turns where it is not.
        quick = of is _Case and way in (_backward, _forward)
        for ops in _OPS if quick else [_OPS[number % 2 if of is _Case else 0]]:
            way(of(place.number(number), ops))


def gradients_of_drawn() -> Iterator[Check]:
    """Yield a check of each way to ask for derivatives of drawn programs."""
    for name, way in _WAYS.items():
        yield _check(f"drawn-{name}", way, _Case)
    for name in ("backward", "forward", "mapped"):
        yield _check(f"drawn-loops-{name}", _WAYS[name], _Looped)


def _check(subject: str, way: Callable[[_Case], None], of: type[_Case]) -> Check:
    return Check(
        kind="transforms",
        subject=subject,
        tier="training",
        contract=CONTRACT,
        run=partial(_run, way, of),
        text=partial(inspect.getsource, Program),
        dtype=float64,
        dtypes=(float64,),
        looks=True,
    )
