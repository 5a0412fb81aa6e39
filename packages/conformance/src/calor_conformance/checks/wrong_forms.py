"""What rules, loops and options of transforms must not be: the rest of ``wrong_uses``.

Each is drawn: shapes, and which of the ways to be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import calor
from calor.errors import (
    ArgumentError,
    AxisError,
    CalorError,
    DTypeError,
    GradientError,
    ShapeError,
    TraceError,
)
from calor.transforms.state import Stateful

Rng = np.random.Generator
Work = Callable[[], Any]
Misuse = tuple[Callable[[Rng], Work], tuple[type[CalorError], ...]]
# Something done wrongly to a tensor of drawn shape.
Wrong = Callable[[Any], Any]


def _floats(rng: Rng) -> Any:
    shape = tuple(int(n) for n in rng.integers(2, 5, int(rng.integers(1, 3))))
    return calor.asarray(np.ones(shape, np.float32))


def _one_of(*wrong: Wrong) -> Callable[[Rng], Work]:
    """Return what draws one of some ways to be wrong, and a tensor."""

    def draw(rng: Rng) -> Work:
        chosen, x = wrong[int(rng.integers(len(wrong)))], _floats(rng)
        return lambda: chosen(x)

    return draw


def _each(name: str, errors: Any, *wrong: Wrong) -> dict[str, Misuse]:
    """Return one misuse for each way to be wrong."""
    kinds = errors if isinstance(errors, tuple) else (errors,)
    names = [name] if len(wrong) == 1 else [f"{name}-{n + 1}" for n in range(len(wrong))]
    return {n: (_one_of(one), kinds) for n, one in zip(names, wrong, strict=True)}


def _int(t: Any) -> Any:
    return t.astype(calor.int32)


def _own(forward: Any, backward: Any) -> Any:
    made = calor.custom_vjp(lambda t: t * 2)
    made.defvjp(forward, backward)
    return made


def _pushed(rule: Any, x: Any, both: bool = False) -> Any:
    """Differentiate forward by a rule that is wrong, op by op or jitted."""
    made: Any = calor.custom_jvp(lambda t: t * 2)
    if both:
        made = _own(lambda t: (t * 2, None), lambda _, g: (g,))
    made.defjvp(rule)
    return calor.jit(lambda t: calor.jvp(made, (t,), (t,)))(x)


def _nothing_before(t: Any) -> Any:
    return calor.custom_vjp(lambda a: a)(t), calor.custom_jvp(lambda a: a)(t)


class _Kept(Stateful):
    dynamic = ("rate",)

    def __init__(self) -> None:
        self.rate, self.weight = 1.0, calor.asarray(np.float32(1))


def _structure_changed(x: Any) -> Any:
    kept = _Kept()

    def run(t: Any) -> Any:
        kept.more = t * 2
        return t + kept.weight

    return calor.jit(run)(x)


def _number_assigned(x: Any) -> Any:
    kept = _Kept()

    def run(held: Any, t: Any) -> Any:
        held.rate = 3.0
        return t * held.rate

    return calor.jit(run)(kept, x)


def _written_outside(x: Any) -> Any:
    kept = calor.zeros(())

    def run(t: Any) -> Any:
        kept[...] = t.sum()
        return t

    return calor.vmap(run)(x)


def _condition_writes(x: Any) -> Any:
    kept = calor.zeros(())

    def test(c: Any) -> Any:
        kept[...] = kept + 1
        return c.sum() < 3

    return calor.while_loop(test, lambda c: c + 1, x)


def _scanned(body: Any, **options: Any) -> Wrong:
    return lambda t: calor.scan(body, t, calor.stack([t, t]), **options)


def _callback(host: Any, results: Any = None) -> Wrong:
    def call(a: Any) -> Any:
        return calor.callback(host, a if results is None else results(a), a)

    return lambda t: calor.jit(call)(t).numpy()


_SUM: Final = calor.sum
_GIVEN: Final = (ArgumentError, ShapeError, DTypeError, GradientError, TraceError)
MISUSES: Final[dict[str, Misuse]] = {
    **_each("tangent-of-another-dtype", DTypeError,
        lambda t: calor.jvp(lambda a: a * 2, (t,), (t.astype(calor.float64),)),
        lambda t: calor.linearize(lambda a: a * 2, t)[1](_int(t))),
    **_each("tangent-of-another-structure", ShapeError,
        lambda t: calor.jvp(lambda d: d["a"] * 2, ({"a": t},), ([t, t],)),
        lambda t: calor.jvp(lambda d: d[0] * 2, ([t, t],), ({"a": t, "b": {"c": t}, "d": t},)),
        lambda t: calor.linearize(lambda a, b: a * b, t, t)[1](t)),
    **_each("cotangent-of-another-structure", ShapeError,
        lambda t: calor.vjp(lambda a: {"a": a, "b": a}, t)[1]({"a": t}),
        lambda t: calor.vjp(lambda a: (a, [a]), t)[1]((t,)),
        lambda t: calor.vjp(lambda a: {"a": a, "b": a}, t)[1]({"a": t, "c": None})),
    **_each("cotangent-of-another-dtype", DTypeError,
        lambda t: calor.vjp(lambda a: a * 2, t)[1](_int(t)),
        lambda t: calor.vjp(lambda a: a * 2, t)[1](t.astype(calor.float64))),
    **_each("backward-from-another-gradient", (ShapeError, DTypeError),
        lambda t: (t.detach().requires_grad_() * 2).backward(t[:1]),
        lambda t: (t.detach().requires_grad_() * 2).backward(t.astype(calor.float64))),
    **_each("argnums-outside", ArgumentError,
        lambda t: calor.grad(lambda a, b: _SUM(a), argnums=-3)(t, t),
        lambda t: calor.value_and_grad(lambda a, b: _SUM(a), argnums=(0, 2))(t, t),
        lambda t: calor.jacrev(lambda a: a, argnums=1)(t),
        lambda t: calor.hessian(lambda a: _SUM(a), argnums=(0, -2))(t)),
    **_each("rules-not-given", GradientError, _nothing_before,
        lambda t: calor.custom_jvp(lambda a: a)(t),
        lambda t: calor.jvp(_own(lambda a: (a, None), lambda _, g: (g,)), (t,), (t,)),
        lambda t: calor.jit(lambda b: calor.jvp(
            _own(lambda a: (a, None), lambda _, g: (g,)), (b,), (b,)))(t)),
    **_each("forward-function-without-a-pair", ArgumentError,
        lambda t: calor.grad(lambda a: _SUM(_own(lambda b: b, lambda _, g: (g,))(a)))(t),
        lambda t: calor.jit(_own(lambda b: (b, b, b), lambda _, g: (g,)))(t)),
    **_each("forward-rule-of-another-form", (ArgumentError, ShapeError, DTypeError),
        lambda t: _pushed(lambda p, m: p[0] * 2, t),
        lambda t: _pushed(lambda p, m: (p[0] * 2, m[0], m[0]), t, True),
        lambda t: _pushed(lambda p, m: (p[0] * 2, [m[0], m[0]]), t),
        lambda t: _pushed(lambda p, m: (p[0] * 2, calor.stack([m[0], m[0]])), t, True),
        lambda t: _pushed(lambda p, m: (p[0] * 2, _int(m[0])), t),
        lambda t: _pushed(lambda p, m: (p[0] * 2, 3.0), t, True)),
    **_each("backward-rule-of-numbers", ArgumentError,
        lambda t: calor.grad(lambda a: _SUM(_own(lambda b: (b, None), lambda _, g: (2.0,))(a)))(
            t)),
    **_each("while-backward", GradientError,
        lambda t: calor.grad(lambda a: _SUM(
            calor.while_loop(lambda c: _SUM(c) < 99, lambda c: c * 2, a)))(t)),
    **_each("while-of-another-form", _GIVEN,
        lambda t: calor.while_loop(lambda c: c > 1, lambda c: c * 2, t),
        lambda t: calor.while_loop(lambda c: _SUM(c), lambda c: c * 2, t),
        lambda t: calor.while_loop(lambda c: _SUM(c) < 9, lambda c: (c, c), t),
        lambda t: calor.while_loop(lambda c: _SUM(c) < 9, lambda c: calor.stack([c, c]), t),
        lambda t: calor.while_loop(lambda c: _SUM(c) < 9, _int, t),
        lambda t: calor.while_loop(lambda c: bool(_SUM(c) < 9), lambda c: c * 2, t)),
    **_each("while-condition-writes", TraceError, _condition_writes),
    **_each("scan-of-another-form", _GIVEN,
        _scanned(lambda c, r: c), _scanned(lambda c, r: [c, r]),
        _scanned(lambda c, r: (c, r), length=3), _scanned(lambda c, r: ({"a": c}, r)),
        lambda t: calor.scan(lambda c, r: (c, r), t),
        lambda t: calor.scan(lambda c, r: (c, r), t, {"a": calor.stack([t, t]), "b": _SUM(t)})),
    **_each("loop-bounds", DTypeError,
        lambda t: calor.fori_loop(0, 2.0, lambda i, c: c, t),
        lambda t: calor.fori_loop(0, _SUM(t), lambda i, c: c, t),
        lambda t: calor.fori_loop(_int(t), 3, lambda i, c: c, t)),
    **_each("cond-of-another-form", _GIVEN,
        lambda t: calor.cond(t > 0, lambda a: a, lambda a: a, t),
        lambda t: calor.cond(_SUM(t) > 0, lambda a: {"a": a}, lambda a: {"b": a}, t),
        lambda t: calor.cond(_SUM(t) > 0, lambda a: a, lambda a: a[:1], t)),
    **_each("vmap-of-other-axes", (ArgumentError, AxisError),
        lambda t: calor.vmap(lambda d: d["a"], ({"b": 0},))({"a": t}),
        lambda t: calor.vmap(lambda d: d[0], ([0, 0, 0],))([t, t]),
        lambda t: calor.vmap(lambda a: (a, a), out_axes=(0,))(t),
        lambda t: calor.vmap(lambda a: {"x": a}, out_axes={"y": 0})(t),
        lambda t: calor.vmap(lambda a, b: a, axis_size=9)(t, t),
        lambda t: calor.vmap(lambda a, b: a)(t, 3.0),
        lambda t: calor.vmap(lambda a: a, True)(t)),
    **_each("vmap-of-another-randomness", ArgumentError,
        lambda t: calor.vmap(lambda a: a, randomness="all")(t)),
    **_each("vmap-gives-a-text", TraceError, lambda t: calor.vmap(lambda a: (a, "text"))(t)),
    **_each("vmap-writes-outside", TraceError, _written_outside),
    **_each("jit-of-other-options", ArgumentError,
        lambda t: calor.jit(lambda a: a, static_argnames="other"),
        lambda t: calor.jit(lambda a: a, memory_limit="much"),
        lambda t: calor.autocast("float32")),
    **_each("jit-of-a-static-tensor", TraceError,
        lambda t: calor.jit(lambda a, n: a, static_argnums=1)(t, t),
        lambda t: calor.jit(lambda a, n: a, static_argnames="n")(t, n=t)),
    **_each("jit-changes-an-object", TraceError, _structure_changed, _number_assigned),
    **_each("callback-of-another-form", (ArgumentError, ShapeError, DTypeError, CalorError),
        lambda t: calor.callback(lambda a: None, None, t),
        lambda t: calor.callback(lambda a: a, "text", t),
        _callback(lambda a: a[:1]), _callback(lambda a: a.astype(np.int32)),
        _callback(lambda a: (a, a)), _callback(lambda a: [a], lambda a: (a, a))),
    **_each("callback-differentiated", GradientError,
        lambda t: calor.grad(lambda a: _SUM(calor.callback(np.sin, a, a)))(t),
        lambda t: calor.jit(calor.grad(lambda a: _SUM(calor.callback(np.sin, a, a))))(t)),
    **_each("jacobian-of-whole-numbers", GradientError,
        lambda t: calor.jacrev(_int)(t), lambda t: calor.hessian(_int)(t),
        lambda t: calor.jacrev(lambda a: (a, "text"))(t),
        lambda t: calor.jacfwd(lambda a: a)(t.astype(calor.complex64))),
}  # fmt: skip
