"""Loops and branches that carry values of several dtypes, in any order, and their derivatives.

Rules of loops split what is carried: what takes derivatives, what is counted, what is kept. Where
dtypes alternate, a part may be taken for its neighbour. Carries of integers, truths, real and
complex numbers are drawn in any order, with captures. The same steps as Python statements say what
is right: values, derivatives of first and second order backward, and forward.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, bool_, complex64, float16, float32, float64, int8, int32, int64

from .base import Check, Place

CONTRACT: Final = "a loop hands on and differentiates each part of its carry, whatever its dtype"
_PROGRAMS, _STEPS = 6, 3
_DTYPES: Final = (float32, int32, bool_, complex64, float16, float64, int64, int8, float32)
_KINDS: Final = ("scan", "fori", "while", "cond", "reverse scan", "fori on data")
Rng = np.random.Generator


def _start(rng: Rng, kinds: list[DType]) -> list[Any]:
    made = []
    for k, dtype in enumerate(kinds):
        shape = ((), (2,), (3, 1))[int(rng.integers(3))]
        numbers: Any = rng.normal(size=shape) / 2
        if dtype.kind == "complex":
            numbers = numbers + 1j * rng.normal(size=shape) / 2
        elif dtype is bool_:
            numbers = numbers > 0
        elif dtype.is_integer:
            numbers = np.round(numbers * 4) + k
        made.append(calor.asarray(np.asarray(numbers).astype(dtype.numpy)))
    return made


def _next(carry: list[Any], a: Any, b: Any, i: Any) -> list[Any]:
    """Each part of the next carry reads itself, a neighbour of its own, and what is captured."""
    made = []
    for k, t in enumerate(carry):
        other = carry[(k + 1) % len(carry)]
        if t.dtype is bool_:
            made.append(~t if k % 2 else t ^ (calor.sum(other.astype(bool_)) > 0))
        elif t.dtype.is_integer:
            made.append(t + k + 1 + calor.sum(_real(other) > 0).astype(t.dtype))
        else:
            pull = calor.sum(calor.tanh(_real(other))) * 0.25 + b * (k + 1) * 0.5
            made.append((t * (a + 0.5) * 0.75 + pull * 0.5 + i * 0.125).astype(t.dtype))
    return made


def _real(t: Any) -> Any:
    return (calor.real(t) - calor.imag(t) if t.dtype.kind == "complex" else t).astype(float32)


def _program(kind: str, carry: list[Any], a: Any, b: Any, plain: bool) -> Any:
    if kind == "cond":
        test = calor.sum(_real(carry[0])) + a > b

        def one(*parts: Any) -> list[Any]:
            return _next(list(parts), a, b, 1.0)

        def other(*parts: Any) -> list[Any]:
            return _next(list(parts), b, a, 2.0)

        if plain:
            return one(*carry) if test.item() else other(*carry)
        return list(calor.cond(test, one, other, *carry))
    order = range(_STEPS)[::-1] if kind == "reverse scan" else range(_STEPS)
    if plain:
        for i in order:
            carry = _next(carry, a, b, float(i))
        return carry
    if kind.endswith("scan"):
        rows = calor.arange(_STEPS, dtype=float32)
        back = kind == "reverse scan"
        return calor.scan(lambda c, i: (_next(c, a, b, i), i), carry, rows, reverse=back)[0]
    if kind.startswith("fori"):
        end = calor.asarray(_STEPS) if kind == "fori on data" else _STEPS
        return calor.fori_loop(0, end, lambda i, c: _next(c, a, b, _real(calor.asarray(i))), carry)
    start = (calor.asarray(0.0, dtype=float32), carry)
    return calor.while_loop(
        lambda c: c[0] < _STEPS, lambda c: (c[0] + 1, _next(c[1], a, b, c[0])), start
    )[1]


def _compare(got: list[Any], want: list[Any], kinds: list[DType], what: str) -> None:
    near = 3e-2 if float16 in kinds else 2e-4
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        told = f"{what}, part {k}"
        assert g.dtype is w.dtype, f"{told}: {g.dtype}, not {w.dtype}"
        a, b = g.numpy(), w.numpy()
        assert a.shape == b.shape, f"{told}: shape {a.shape}, not {b.shape}"
        if a.dtype.kind in "iub":
            assert np.array_equal(a, b), f"{told}: {a.tolist()}, not {b.tolist()}"
        else:
            a, b = a.astype(complex), b.astype(complex)
            bound = near * max(1.0, float(abs(b).max(initial=0.0)))
            assert (abs(a - b) <= bound).all(), f"{told}: {a.tolist()}, not {b.tolist()}"


def _run_program(place: Place, rng: Rng, kind: str) -> None:
    known = [d for d in _DTYPES if place.plain.info.dtypes.get(d)]
    kinds = [known[int(n)] for n in rng.permutation(len(known))[: int(rng.integers(2, 5))]]
    if float32 not in kinds:
        kinds.insert(int(rng.integers(len(kinds) + 1)), float32)
    start = _start(rng, kinds)
    smooth = [k for k, d in enumerate(kinds) if d.is_inexact]
    a, b = (calor.asarray(np.float32(n)) for n in rng.normal(size=2) / 2)
    what = f"{kind} of {', '.join(d.name for d in kinds)}"

    def run(plain: bool, *given: Any) -> Any:
        carry = list(start)
        for k, t in zip(smooth, given[2:], strict=True):
            carry[k] = t
        return _program(kind, carry, given[0], given[1], plain)

    def loss(plain: bool, *given: Any) -> Any:
        parts = run(plain, *given)
        return sum(calor.sum(_real(parts[k]) ** 2) * (k + 1) for k in smooth)

    given = [a, b, *(start[k] for k in smooth)]
    looped, right = partial(run, False), partial(run, True)
    want = right(*given)
    _compare(looped(*given), want, kinds, what)
    _compare(calor.jit(looped)(*given), want, kinds, f"{what}, jitted")
    along = [t * 0.5 + 0.25 for t in given]
    along = [t.astype(x.dtype) for t, x in zip(along, given, strict=True)]
    forward = [calor.jvp(partial(loss, p), tuple(given), tuple(along)) for p in (False, True)]
    _compare(list(forward[0]), list(forward[1]), kinds, f"{what}, forward")
    twice = [
        calor.jvp(
            lambda u, v, p=p: calor.jvp(
                lambda s, t: loss(p, s, t, *given[2:]), (u, v), tuple(along[:2])
            )[1],
            tuple(given[:2]), tuple(along[:2]),
        )[1]
        for p in (False, True)
    ]  # fmt: skip
    _compare([twice[0]], [twice[1]], kinds, f"{what}, forward twice")
    if kind in ("while", "fori on data"):
        return
    numbers = tuple(range(len(given)))
    back = [calor.grad(partial(loss, p), argnums=numbers)(*given) for p in (False, True)]
    _compare(list(back[0]), list(back[1]), kinds, f"{what}, backward")

    def slopes(plain: bool, *at: Any) -> Any:
        found = calor.grad(partial(loss, plain), argnums=numbers)(*at)
        return sum(calor.sum(_real(g) ** 2) for g in found)

    second = [calor.grad(partial(slopes, p), argnums=numbers)(*given) for p in (False, True)]
    _compare(list(second[0]), list(second[1]), kinds, f"{what}, backward twice")


def _run(place: Place) -> None:
    for number in range(_PROGRAMS):
        if not place.tries(number, 3):
            continue
        rng = np.random.default_rng([place.seed, 404, number])
        _run_program(place, rng, _KINDS[number % len(_KINDS)])


def carries_of_dtypes() -> Iterator[Check]:
    """Yield the check of loops and branches that carry several dtypes."""
    yield Check(
        kind="transforms",
        subject="carries-of-several-dtypes",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _run_program),
        op="tanh",
        dtypes=(float32, bool_, int32, int64),
        features=("control_flow",),
        looks=True,
    )
