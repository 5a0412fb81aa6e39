"""Autocast with every transform: the types of steps are those of where they are written.

Regions of modes, inside each other, in functions that are computed again, compiled, mapped,
repeated or chosen; the mode where the gradient is asked for, and how, are drawn. The gradient of a
weight is the same in all of them, also of one that is read more than once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, bfloat16, bool_, float16, float32, int32

from ..rows.nested import rounded
from ..rows.nested.rounded import MARK, Number
from .base import Array, Check, Place

CONTRACT: Final = "a step has the type of its region, in each transform, and so has its gradient"
_PROGRAMS, _SIZE, _PRODUCTS = 10, 3, 4
_WEIGHTS: Final = ("w", "v", "b")
_NEAR: Final = 5e-6
Rng = np.random.Generator
Held = dict[str, Any]


@dataclass(frozen=True)
class _Segment:
    """Steps in a mode (None: that of around, False: off), inside a transform."""

    steps: tuple[str, ...]
    mode: bool | None
    around: str


def _segments(rng: Rng) -> list[_Segment]:
    made, products = [], 0
    for _ in range(int(rng.integers(2, 4))):
        steps = []
        for _ in range(int(rng.integers(1, 3))):
            step = str(rng.choice(("@w", "@v", "@w", "*b", "+x", "positive")))
            products += step[0] in "@*"
            # More of them than float16 has room for would overflow.
            steps.append(step if products <= _PRODUCTS else "positive")
        mode = (True, True, False, None)[int(rng.integers(4))]
        made.append(_Segment(tuple(steps), mode, str(rng.choice(list(_AROUND)))))
    return made


def _as_is(function: Any) -> Any:
    return function


def _scanned(function: Any) -> Any:
    def call(h: Any, held: Held) -> Any:
        start = calor.asarray(np.zeros((), np.int32))
        return calor.scan(lambda c, row: (c, function(row, held)), start, h[None])[1][0]

    return call


def _chosen(function: Any) -> Any:
    def call(h: Any, held: Held) -> Any:
        return calor.cond(calor.sum(h) < 1e9, lambda t: function(t, held), lambda t: t * 0, h)

    return call


def _mapped(function: Any) -> Any:
    def call(h: Any, held: Held) -> Any:
        # Rows of one row each.
        def row(t: Any, x: Any) -> Any:
            return function(t[None], {**held, "x": x[None]})[0]

        return calor.vmap(row)(h, held["x"])

    return call


def _captured(function: Any) -> Any:
    def call(h: Any, held: Held) -> Any:
        return calor.checkpoint(lambda t: function(t, held))(h)

    return call


_AROUND: Final[dict[str, Callable[[Any], Any]]] = {
    "nothing": _as_is, "checkpoint": calor.checkpoint, "checkpoint with captures": _captured,
    "jit": calor.jit, "scan": _scanned, "vmap": _mapped,
    "checkpoint of jit": lambda f: calor.checkpoint(calor.jit(f)),
    "jit of checkpoint": lambda f: calor.jit(calor.checkpoint(f)),
}  # fmt: skip


def _step(step: str, h: Any, held: Held) -> Any:
    if step[0] == "@":
        return h @ held[step[1]]
    if step[0] == "*":
        return h * held["b"]
    return h + held["x"] if step == "+x" else calor.where(h > 0.25, h, 0)


def _context(mode: bool | None, low: DType) -> AbstractContextManager[Any]:
    if mode is None:
        return nullcontext()
    return calor.autocast(low.name) if mode else calor.autocast(low.name, enabled=False)


def _program(segments: list[_Segment], low: DType) -> Callable[..., Any]:
    """Return the sum of what the segments make, as a function of x and of the weights."""

    def of(segment: _Segment) -> Any:
        def run(h: Any, held: Held) -> Any:
            with _context(segment.mode, low):
                for step in segment.steps:
                    h = _step(step, h, held)
                return h

        return _AROUND[segment.around](run)

    parts = [of(segment) for segment in segments]

    def total(x: Any, *weights: Any) -> Any:
        held = dict(zip(("x", *_WEIGHTS), (x, *weights), strict=True))
        h = x
        for part in parts:
            h = part(h, held)
        return calor.sum(h.astype(float32))

    return total


def _meaning(
    segments: list[_Segment], low: DType, ambient: bool, arrays: list[Array]
) -> tuple[Array, list[Array]]:
    """Return the sum and its gradients by x and the weights."""
    leaves = [Number(a) for a in arrays]
    held = dict(zip(("x", *_WEIGHTS), leaves, strict=True))
    h = leaves[0]
    for segment in segments:
        on = ambient if segment.mode is None else segment.mode
        for step in segment.steps:
            if step[0] == "@":
                h = rounded.product(h, held[step[1]], low if on else None)
            elif step[0] == "*":
                h = rounded.times(h, held["b"])
            else:
                h = rounded.plus(h, held["x"]) if step == "+x" else rounded.positive(h)
    made = rounded.total(h)
    return made.array, rounded.gradients(made, leaves)


# How gradients are asked for: of the program, x and the weights; ``within`` is the mode of around.
def _by_grad(wrap: Any, inside: Any) -> Callable[..., Any]:
    def way(run: Any, tensors: list[Any], within: Any, after: Any) -> tuple[Any, list[Any]]:
        call = wrap(calor.value_and_grad(inside(run), argnums=(0, 1, 2, 3)))
        with within():
            value, found = call(*tensors)
        return value, list(found)

    return way


def _by_vjp(run: Any, tensors: list[Any], within: Any, after: Any) -> tuple[Any, list[Any]]:
    with within():
        value, pull = calor.vjp(run, *tensors)
    with after():
        return value, list(pull(calor.ones(())))


def _collected(wrap: Any) -> Callable[..., Any]:
    def way(run: Any, tensors: list[Any], within: Any, after: Any) -> tuple[Any, list[Any]]:
        for t in tensors:
            t.requires_grad = True
        call = wrap(run)
        with within():
            value = call(*tensors)
        with after():
            value.backward()
        return value, [t.grad for t in tensors]

    return way


def _step_by_step(run: Any, tensors: list[Any], within: Any, after: Any) -> tuple[Any, list[Any]]:
    """Take the gradient where the program runs, in one compiled step."""
    for t in tensors:
        t.requires_grad = True

    def step(*given: Any) -> Any:
        loss = run(*given)
        loss.backward()
        return loss

    with within():
        value = calor.jit(step)(*tensors)
    return value, [t.grad for t in tensors]


_WAYS: Final[dict[str, Callable[..., Any]]] = {
    "grad": _by_grad(_as_is, _as_is), "jitted grad": _by_grad(calor.jit, _as_is),
    "grad of jitted": _by_grad(_as_is, calor.jit), "vjp": _by_vjp,
    "grad of checkpoint": _by_grad(_as_is, calor.checkpoint), "backward": _collected(_as_is),
    "backward of jitted": _collected(calor.jit), "backward in a jitted step": _step_by_step,
    "backward of checkpoint": _collected(calor.checkpoint),
}  # fmt: skip


def _same(got: Any, want: Array, what: str) -> None:
    assert got is not None, f"{what}: None"
    assert got.dtype is float32, f"{what}: {got.dtype}"
    made = got.detach().numpy().astype(np.float64)
    assert made.shape == want.shape, f"{what}: shape {made.shape}, not {want.shape}"
    off = np.abs(made - want) <= _NEAR * (1 + np.abs(want).max(initial=0.0))
    assert off.all(), f"{what}: {made.tolist()}, not {want.tolist()}"


def _run(way: str, low: DType, place: Place) -> None:
    for number in range(_PROGRAMS):
        rng = np.random.default_rng([place.number(number), list(_WAYS).index(way), low.itemsize])
        segments = _segments(rng)
        ambient, other = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
        shapes = (_SIZE, _SIZE), (_SIZE, _SIZE), (_SIZE, _SIZE), (_SIZE,)
        arrays = [np.asarray(rng.integers(-2, 3, s) * (1 + MARK), np.float32) for s in shapes]
        arrays[0] = np.asarray(arrays[0] * rng.integers(1, 12), np.float32)
        if way == "backward in a jitted step":
            other = ambient
        run = _program(segments, low)
        what = f"{way} of {segments}, autocast {ambient} around, {other} around the gradient"
        value, found = _WAYS[way](
            run,
            [calor.asarray(a) for a in arrays],
            partial(_context, ambient or None, low),
            partial(_context, other or None, low),
        )
        want, gradients = _meaning(segments, low, ambient, arrays)
        _same(value, want, what)
        for name, got, right in zip(("x", *_WEIGHTS), found, gradients, strict=True):
            got = calor.zeros(right.shape) if got is None else got
            _same(got, right, f"{what}: by {name}")


def lowered_transforms() -> Iterator[Check]:
    """Yield a check of each way to take a gradient, in each half type."""
    for way, run in _WAYS.items():
        for low in (bfloat16, float16):
            yield Check(
                kind="transforms",
                subject=f"autocast-{way.replace(' ', '-')}",
                tier="training",
                contract=CONTRACT,
                run=partial(_run, way, low),
                text=partial(inspect.getsource, run),
                dtype=low,
                dtypes=(float32, bool_, int32, low),
                features=("control_flow",),
                looks=True,
            )
