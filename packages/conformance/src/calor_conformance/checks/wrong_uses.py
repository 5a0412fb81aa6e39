"""Transforms used wrongly: each refuses what has no meaning, by a typed error, and works after it.

A refusal that is lost gives numbers without a meaning. Shapes, dtypes, axes, structures and places
of what is wrong are drawn.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, int32, int64
from calor.errors import (
    ArgumentError,
    AxisError,
    CalorError,
    DTypeError,
    GradientError,
    ShapeError,
    TraceError,
)

from . import wrong_forms
from .base import Check, Place
from .errors import raised

CONTRACT: Final = "a transform refuses what has no meaning by a typed error, and works after it"
_TURNS: Final = 3
Rng = np.random.Generator
Work = Callable[[], Any]
# What is done wrongly, drawn; the errors that say so.
Misuse = tuple[Callable[[Rng], Work], tuple[type[CalorError], ...]]


def _shape(rng: Rng, least: int = 1) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(2, 5, int(rng.integers(least, 4))))


def _floats(shape: tuple[int, ...]) -> Any:
    return calor.asarray(np.ones(shape, np.float32))


def _grad_of_many(rng: Rng) -> Work:
    x = _floats(_shape(rng))
    return lambda: calor.grad(lambda t: t * 2)(x)


def _grad_of_whole(rng: Rng) -> Work:
    x = _floats(_shape(rng))
    return lambda: calor.grad(lambda t: calor.sum(t.astype(calor.int32)))(x)


def _grad_of_numbers(rng: Rng) -> Work:
    x = _floats(_shape(rng))
    return lambda: calor.grad(lambda t: 3.0)(x)


def _grad_of_no_argument(rng: Rng) -> Work:
    x, number = _floats(_shape(rng)), int(rng.integers(1, 4))
    return lambda: calor.grad(calor.sum, argnums=number)(x)


def _backward_of_many(rng: Rng) -> Work:
    x = calor.asarray(np.ones(_shape(rng), np.float32), requires_grad=True)
    return lambda: (x * 2).backward()


def _backward_of_a_leaf(rng: Rng) -> Work:
    x = _floats(())
    return lambda: (x * 2).backward()


def _whole_leaf(rng: Rng) -> Work:
    return lambda: calor.asarray(np.ones(_shape(rng), np.int32), requires_grad=True)


def _another_cotangent(rng: Rng) -> Work:
    shape = _shape(rng)
    pull = calor.vjp(lambda t: t * 2, _floats(shape))[1]
    return lambda: pull(_floats((*shape, 2)))


def _another_tangent(rng: Rng) -> Work:
    shape = _shape(rng)
    x, t = _floats(shape), _floats((2, *shape))
    return lambda: calor.jvp(lambda a: a * 2, (x,), (t,))


def _fewer_tangents(rng: Rng) -> Work:
    x = _floats(_shape(rng))
    return lambda: calor.jvp(lambda a, b: a * b, (x, x), (x,))


def _own_gradient(wrong: Callable[[Any], Any]) -> Callable[[Rng], Work]:
    """Return a function whose backward rule gives something else than a gradient."""

    def draw(rng: Rng) -> Work:
        x = _floats(_shape(rng))
        own = calor.custom_vjp(lambda t: t * 2)
        own.defvjp(lambda t: (t * 2, t), lambda kept, g: wrong(g))
        return lambda: calor.grad(lambda t: calor.sum(own(t)))(x).numpy()

    return draw


def _mapped_of_two_sizes(rng: Rng) -> Work:
    shape, axis = _shape(rng), int(rng.integers(2))
    other = (*shape[:0], shape[0] + 1 + axis, *shape[1:])
    return lambda: calor.vmap(lambda a, b: (a.sum(), b.sum()))(_floats(shape), _floats(other))


def _mapped_axis_outside(rng: Rng) -> Work:
    shape = _shape(rng)
    axis = int(rng.choice((len(shape), len(shape) + 2, -len(shape) - 1)))
    return lambda: calor.vmap(calor.sum, in_axes=axis)(_floats(shape))


def _mapped_result_outside(rng: Rng) -> Work:
    shape = _shape(rng, 2)
    axis = int(rng.choice((len(shape), -len(shape) - 1)))
    return lambda: calor.vmap(lambda t: t * 2, out_axes=axis)(_floats(shape))


def _mapped_result_without_axis(rng: Rng) -> Work:
    return lambda: calor.vmap(lambda t: t * 2, out_axes=None)(_floats(_shape(rng)))


def _nothing_mapped(rng: Rng) -> Work:
    return lambda: calor.vmap(lambda t: t * 2, in_axes=None)(_floats(_shape(rng)))


def _more_in_axes(rng: Rng) -> Work:
    return lambda: calor.vmap(lambda t: t * 2, in_axes=(0, 0))(_floats(_shape(rng)))


def _looked_at_mapped(rng: Rng) -> Work:
    return lambda: calor.vmap(lambda t: t if t.sum() > 0 else -t)(_floats(_shape(rng, 2)))


def _looked_at_jitted(rng: Rng) -> Work:
    look: Any = (bool, float, lambda t: t.numpy(), lambda t: t.item())[int(rng.integers(4))]
    return lambda: calor.jit(lambda t: t * float(look(t.sum()) is not None))(_floats(_shape(rng)))


def _leaked(rng: Rng) -> Work:
    kept: list[Any] = []

    def keep(t: Any) -> Any:
        kept.append(t * 2)
        return t + 1

    def work() -> Any:
        calor.jit(keep)(_floats(_shape(rng))).numpy()
        return (kept[0] + 1).numpy()

    return work


def _random_mapped(rng: Rng) -> Work:
    return lambda: calor.vmap(lambda t: t + calor.random.uniform())(_floats(_shape(rng)))


def _other_carry(rng: Rng) -> Work:
    shape = _shape(rng)
    bodies: Any = (
        lambda c, x: ((c, c), x), lambda c, x: (calor.stack([c, c]), x),
        lambda c, x: (c.astype(calor.int32), x), lambda c, x: c,
    )  # fmt: skip
    step = bodies[int(rng.integers(4))]
    return lambda: calor.scan(step, _floats(shape), _floats((3, *shape)))


def _other_branch(rng: Rng) -> Work:
    x = _floats(_shape(rng))
    branches: Any = (lambda t: calor.stack([t, t]), lambda t: (t, t), lambda t: t.astype("int32"))
    other = branches[int(rng.integers(3))]
    return lambda: calor.cond(calor.sum(x) > 0, lambda t: t * 2, other, x)


def _rows_of_two_lengths(rng: Rng) -> Work:
    n = int(rng.integers(2, 5))
    rows = _floats((n,)), _floats((n + 1,))
    return lambda: calor.scan(lambda c, r: (c, r[0]), _floats(()), rows)


_GIVEN: Final = (ArgumentError, ShapeError, DTypeError, GradientError, TraceError)
MISUSES: Final[dict[str, Misuse]] = {
    "grad-of-many-numbers": (_grad_of_many, (GradientError, ShapeError)),
    "grad-of-whole-numbers": (_grad_of_whole, (GradientError, DTypeError)),
    "grad-of-no-tensor": (_grad_of_numbers, (GradientError,)),
    "grad-by-no-argument": (_grad_of_no_argument, (ArgumentError, GradientError)),
    "backward-of-many-numbers": (_backward_of_many, (GradientError, ShapeError)),
    "backward-of-nothing": (_backward_of_a_leaf, (GradientError,)),
    "leaves-of-whole-numbers": (_whole_leaf, (GradientError, DTypeError)),
    "cotangent-of-another-shape": (_another_cotangent, (ShapeError, GradientError)),
    "tangent-of-another-shape": (_another_tangent, (ShapeError, GradientError)),
    "fewer-tangents": (_fewer_tangents, (ShapeError,)),
    "own-gradient-of-another-shape": (_own_gradient(lambda g: (calor.stack([g, g]),)), _GIVEN),
    "own-gradient-of-another-dtype": (_own_gradient(lambda g: (g.astype(calor.int32),)), _GIVEN),
    "own-gradient-of-more": (_own_gradient(lambda g: (g, g)), _GIVEN),
    "own-gradient-of-another-structure": (_own_gradient(lambda g: ([g, g],)), _GIVEN),
    "vmap-of-two-sizes": (_mapped_of_two_sizes, (ArgumentError, ShapeError)),
    "vmap-of-no-axis": (_mapped_axis_outside, (AxisError,)),
    "vmap-to-no-axis": (_mapped_result_outside, (AxisError,)),
    "vmap-without-a-result-axis": (_mapped_result_without_axis, (ArgumentError,)),
    "vmap-of-nothing": (_nothing_mapped, (ArgumentError,)),
    "vmap-of-more-arguments": (_more_in_axes, (ArgumentError,)),
    "vmap-looks-at-numbers": (_looked_at_mapped, (TraceError,)),
    "vmap-draws-numbers": (_random_mapped, (TraceError,)),
    "jit-looks-at-numbers": (_looked_at_jitted, (TraceError,)),
    "jit-leaks-a-tensor": (_leaked, (TraceError,)),
    "scan-of-another-carry": (_other_carry, _GIVEN),
    "scan-of-two-lengths": (_rows_of_two_lengths, _GIVEN),
    "cond-of-other-branches": (_other_branch, _GIVEN),
}  # fmt: skip


_EVERY: Final = {**MISUSES, **wrong_forms.MISUSES}


def _refused(name: str, place: Place) -> None:
    draw, kinds = _EVERY[name]
    for turn in range(_TURNS):
        error = raised(draw(np.random.default_rng([place.seed, turn])))
        assert isinstance(error, kinds), f"{type(error).__name__}: {error}"
        assert len(str(error)) > 20, f"the error says too little: {error}"
        # What was under way is given up: the next use is as if nothing had been.
        x = calor.asarray(np.arange(3, dtype=np.float32))
        found = calor.jit(calor.vmap(calor.grad(lambda t: t * t * 3)))(x)
        assert found.tolist() == [0.0, 6.0, 12.0], f"after the error: {found.tolist()}"
        assert (x + 1).tolist() == [1.0, 2.0, 3.0], "after the error"


def wrong_uses() -> Iterator[Check]:
    """Yield a check of each wrong use."""
    for name, (draw, _) in _EVERY.items():
        yield Check(
            kind="refusals",
            subject=name,
            tier="full",
            contract=CONTRACT,
            run=partial(_refused, name),
            text=partial(inspect.getsource, draw),
            features=("control_flow",) if name[:4] in ("scan", "cond", "whil", "loop") else (),
            dtypes=(float32, int32, int64),
            looks=True,
        )
