"""Transforms around programs: each makes another program of the same kind of one or two.

What a transform takes is drawn with it: which arguments are given and which are captured, the
structure of arguments and results, axes, and what of a result is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .pieces import Block, Rng, Run

# Takes a generator, the shape, and two programs.
Wrapper = Callable[[Rng, tuple[int, ...], Run, Run], Run]
_THREE: Final = 3


def _pick(rng: Rng, *runs: Run) -> Run:
    return runs[int(rng.integers(len(runs)))]


def _grad(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
    whole = np.asarray(rng.integers(0, 2, shape[0]), str(rng.choice(("int8", "int32", "int64"))))

    def captured(lib: Any, x: Any, w: Any) -> Any:
        return lib.grad(lambda t: lib.sum(f(lib, t, w) * w))(x)

    def by_last(lib: Any, x: Any, w: Any) -> Any:
        def loss(u: Any, t: Any) -> Any:
            made = f(lib, t, u)
            return lib.sum(made * x), {"made": made, "number": 3, "none": None, "pair": (u, t)}

        (value, aux), found = lib.value_and_grad(loss, argnums=-1, has_aux=True)(w, x)
        return found + aux["made"] * value + aux["pair"][1] * aux["number"]

    def by_both(lib: Any, x: Any, w: Any) -> Any:
        one, other = lib.grad(lambda t, u: lib.sum(f(lib, t, u) * g(lib, u, t)), (1, 0))(x, w)
        return one * 0.5 + other

    def by_tree(lib: Any, x: Any, w: Any) -> Any:
        def loss(held: Any) -> Any:
            t, u = held["x"], held["pair"][0]
            return lib.sum(f(lib, t, u) * u) + lib.sum(held["unused"] * 0.5), u

        held = {"x": x, "pair": [w, None], "whole": lib.array(whole), "unused": x * 2.0}
        found, aux = lib.grad(loss, has_aux=True)(held)
        assert found["whole"] is None, "a gradient of whole numbers"
        return found["x"] + found["pair"][0] * aux + found["unused"]

    def of_unused(lib: Any, x: Any, w: Any) -> Any:
        found = lib.grad(lambda t, u: lib.sum(f(lib, t, w)), argnums=(0, 1))(x, w)
        return found[0] + found[1] + x

    return _pick(rng, captured, by_last, by_both, by_tree, of_unused)


def _vjp(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
    def again(lib: Any, x: Any, w: Any) -> Any:
        y, pull = lib.vjp(lambda t: f(lib, t, w), x)
        return pull(w)[0] + pull(y * 0.5)[0] * y

    def parts(lib: Any, x: Any, w: Any) -> Any:
        def run(t: Any, u: Any) -> Any:
            return {"a": f(lib, t, u), "b": (g(lib, u, t), [t])}

        y, pull = lib.vjp(run, x, w)
        one, other = pull({"a": w, "b": None})
        last = pull({"a": None, "b": (x, [w])})
        return one + other * y["b"][0] + last[0] + last[1] * 0.3

    def tree(lib: Any, x: Any, w: Any) -> Any:
        y, pull = lib.vjp(lambda held, n: f(lib, held[0], held[1]["w"]) * n, (x, {"w": w}), 2)
        (one, other), none = pull(x)
        assert none is None, "a gradient of a whole number"
        return one - other["w"] * y

    return _pick(rng, again, parts, tree)


def _jvp(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
    def captured(lib: Any, x: Any, w: Any) -> Any:
        y, moved = lib.jvp(lambda t: f(lib, t, w), (x,), (w * 0.5,))
        return moved + y

    def both(lib: Any, x: Any, w: Any) -> Any:
        y, moved = lib.jvp(lambda t, u: (f(lib, t, u), {"u": u * x}), (x, w), (w, x))
        return moved[0] + moved[1]["u"] * y[1]["u"]

    def tree(lib: Any, x: Any, w: Any) -> Any:
        held, along = {"p": (x, w)}, {"p": (x * w, w)}

        def run(d: Any, t: Any) -> Any:
            return f(lib, *d["p"]) * g(lib, t, w)

        return lib.jvp(run, (held, x), (along, lib.sin(w)))[1]

    return _pick(rng, captured, both, tree)


def _linearize(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
    def captured(lib: Any, x: Any, w: Any) -> Any:
        y, push = lib.linearize(lambda t: f(lib, t, w), x)
        return push(w) * y + push(x * 0.5)

    def both(lib: Any, x: Any, w: Any) -> Any:
        _, push = lib.linearize(lambda t, u: [f(lib, t, u), g(lib, u, u)], x, w)
        one, other = push(w, x * 0.3)
        return one + other

    return _pick(rng, captured, both)


def _contracted(lib: Any, jacobian: Any, v: Any, shape: tuple[int, ...]) -> Any:
    made = jacobian * v
    for _ in shape:
        made = lib.sum(made, axis=-1)
    return made


def _jacobian(name: str) -> Wrapper:
    def wrapper(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
        def run(lib: Any, x: Any, w: Any) -> Any:
            found = getattr(lib, name)(lambda t: f(lib, t, w))(x)
            return _contracted(lib, found, w, shape)

        return run

    return wrapper


def _hessian(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
    return lambda lib, x, w: _contracted(
        lib, lib.hessian(lambda t: lib.sum(f(lib, t, w) * w))(x), x, shape)  # fmt: skip


def _vmap(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
    axis = int(rng.integers(-len(shape) - 1, len(shape) + 1))
    to = int(rng.integers(-len(shape) - 1, len(shape) + 1))
    last = len(shape)
    kind = str(rng.choice(("int8", "uint8", "int32", "int64")))
    places = rng.integers(0, shape[0], _THREE).astype(kind)

    def both(lib: Any, x: Any, w: Any) -> Any:
        made = lib.vmap(lambda t, u: f(lib, t, u))(lib.stack([x, w]), lib.stack([w, x * 0.5]))
        return made[0] + made[1] * w

    def axes(lib: Any, x: Any, w: Any) -> Any:
        given = lib.stack([x, w, x * 0.3], axis=axis)
        made = lib.vmap(lambda t, u: f(lib, t, u), (axis, None), to)(given, w)
        return lib.sum(made * lib.stack([w, x, w], axis=to), axis=to)

    def captured(lib: Any, x: Any, w: Any) -> Any:
        made = lib.vmap(lambda t: f(lib, x, t), -1, last)(lib.stack([w, x], axis=last))
        return lib.sum(made, axis=last)

    def tree(lib: Any, x: Any, w: Any) -> Any:
        def run(held: Any, by: Any) -> Any:
            return {"a": f(lib, held["p"], held["q"][0]) * by, "b": (held["q"][0] * 2.0,)}

        held = {"p": lib.stack([x, w], axis=axis), "q": [w]}
        axes = ({"p": axis, "q": None}, 0)
        made = lib.vmap(run, axes, {"a": to, "b": (None,)})(held, lib.array(np.array([0.5, 2.0])))
        return lib.sum(made["a"], axis=to) + made["b"][0]

    def at_places(lib: Any, x: Any, w: Any) -> Any:
        def run(i: Any, t: Any) -> Any:
            return lib.taken(f(lib, x, w), i) * lib.taken(t, i)

        made = lib.vmap(run)(lib.array(places), lib.stack([x, w, x * w]))
        return x + lib.sum(made, axis=0)

    def unmapped(lib: Any, x: Any, w: Any) -> Any:
        made = lib.vmap(lambda t: f(lib, t, w), None, size=2)(x)
        return made[1] * w + made[0]

    return _pick(rng, both, axes, captured, tree, at_places, unmapped)


def _jit(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
    by = float(rng.uniform(0.5, 2))
    options = {"dynamic": True} if rng.random() < 0.2 else {}

    def plain(lib: Any, x: Any, w: Any) -> Any:
        call = lib.jit(lambda t, u: f(lib, t, u), **options)
        return call(call(x, w), x)

    def captured(lib: Any, x: Any, w: Any) -> Any:
        return lib.jit(lambda t: f(lib, t, w) * w)(x)

    def numbers(lib: Any, x: Any, w: Any) -> Any:
        call = lib.jit(lambda t, n, m=1.0: f(lib, t * n, w) * m)
        return call(x, 2) + call(x, by, m=by) + call(x, 2, m=3)

    def static(lib: Any, x: Any, w: Any) -> Any:
        def run(t: Any, how: Any, u: Any) -> Any:
            return f(lib, t, u) if how == "one" else g(lib, u, t)

        call = lib.jit(run, static_argnames="how")
        return call(x, "one", w) * call(x, "other", u=w) + call(w, "one", u=x)

    def tree(lib: Any, x: Any, w: Any) -> Any:
        def run(held: Any) -> Any:
            made = f(lib, held["x"], held["more"][0])
            return {"a": made, "b": [held["x"] * made, None, 3]}

        call = lib.jit(run)
        one, other = call({"x": x, "more": (w, 1)}), call({"x": w, "more": (x, 1)})
        return one["a"] * other["b"][0] * one["b"][2]

    def bound(lib: Any, x: Any, w: Any) -> Any:
        call = lib.bound(lambda u, t: f(lib, t, u), w)
        return call(x) + call(x * 0.5)

    return _pick(rng, plain, captured, numbers, static, tree, bound)


def _checkpoint(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
    def both(lib: Any, x: Any, w: Any) -> Any:
        call = lib.checkpoint(lambda t, u: f(lib, t, u))
        return call(x, w) * call(w, x)

    def captured(lib: Any, x: Any, w: Any) -> Any:
        return lib.checkpoint(lambda t: f(lib, t, w) * w)(x)

    def tree(lib: Any, x: Any, w: Any) -> Any:
        def run(held: Any, *, n: int) -> Any:
            return {"a": f(lib, *held), "b": (held[1] * n, None, lib.stop_gradient(held[0]))}

        made = lib.checkpoint(run)((x, w), n=2)
        return made["a"] + made["b"][0] * made["b"][2]

    return _pick(rng, both, captured, tree)


def _cond(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
    side = 1.0 if rng.random() < 0.5 else -1.0

    def operands(lib: Any, x: Any, w: Any) -> Any:
        first, second = (lambda t, u: f(lib, t, u)), (lambda t, u: g(lib, u, t))
        return lib.cond(lib.sum(x - w) * side > 0.0, first, second, x, w)

    def captured(lib: Any, x: Any, w: Any) -> Any:
        made = lib.cond(
            lib.sum(x * w) * side > 0.0,
            lambda d: {"a": f(lib, d[0], w), "b": w},
            lambda d: {"a": x * d[0], "b": g(lib, d[0], w)}, [x])  # fmt: skip
        return made["a"] + made["b"]

    return _pick(rng, operands, captured)


def _scan(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
    reverse, count = bool(rng.random() < 0.5), int(rng.integers(1, 4))

    def rows(lib: Any, x: Any, w: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            made = f(lib, carry, row)
            return made, made * w

        every = lib.stack([x, w, x * 0.5][:count])
        last, made = lib.scan(step, w, every, count, reverse=reverse)
        return last + lib.sum(made * every, axis=0)

    def tree(lib: Any, x: Any, w: Any) -> Any:
        whole = lib.array(np.arange(count, dtype=np.int32))

        def step(carry: Any, row: Any) -> Any:
            a, (b, n) = carry
            made = f(lib, a * 0.5, w)
            return (b, (made + row["x"], n + row["n"])), {"kept": a * x, "n": n}

        given = {"x": lib.stack([x * w] * count), "n": whole}
        start = (x, (w, lib.array(np.array(1, np.int32))))
        (a, (b, n)), made = lib.scan(step, start, given, count, reverse=reverse)
        return a + b * n + lib.sum(made["kept"], axis=0) * lib.sum(made["n"])

    def alone(lib: Any, x: Any, w: Any) -> Any:
        last, made = lib.scan(
            lambda c, _: (f(lib, c, x), [c[0]]), w, None, count, reverse=reverse)  # fmt: skip
        return last * lib.sum(made[0])

    def counted(lib: Any, x: Any, w: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            return f(lib, c * (i + 1), w) * 0.5 + x

        return lib.fori_loop(1, 1 + count, step, x)

    return _pick(rng, rows, tree, alone, counted)


def _while(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
    count = int(rng.integers(0, 3))

    def run(lib: Any, x: Any, w: Any) -> Any:
        def step(carry: Any) -> Any:
            t, (n, u) = carry
            return f(lib, t, u), (n + 1, u * 0.5 + x * w)

        start = (x, (lib.array(np.array(0, np.int32)), w))
        t, (_, u) = lib.while_loop(lambda c: c[1][0] < count, step, start)
        return t + u

    return run


_SLOPES: Final[tuple[Callable[[Any, Any, Any], tuple[Any, Any]], ...]] = (
    lambda lib, x, w: (lib.cos(x) * 3.0, x * w),
    lambda lib, x, w: (w * 0.5, None),
    lambda lib, x, w: (x * x * w, lib.tanh(w)),
    lambda lib, x, w: (None, lib.sin(x)),
)


def _own(how: str) -> Wrapper:
    def wrapper(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
        slopes = _SLOPES[int(rng.integers(len(_SLOPES)))]

        def run(lib: Any, x: Any, w: Any) -> Any:
            call = lib.own(lambda t, u: f(lib, t, u), slopes, how)
            return call(x, w) * call(w, x * 0.5) + x

        return run

    return wrapper


def _own_of_two(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
    rules, read = (_SLOPES[0], _SLOPES[2]), int(rng.integers(3))

    def run(lib: Any, x: Any, w: Any) -> Any:
        call = lib.own_of_two(lambda t, u: f(lib, t, u), lambda t, u: g(lib, u, t), rules)
        one, other, place = call(x, w)
        made = (one, other, one * other)[read]
        return made * x + place

    return run


def _still(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
    def stopped(lib: Any, x: Any, w: Any) -> Any:
        held = lib.stop_gradient({"a": (g(lib, x, w), x)})
        return f(lib, x, held["a"][0]) * held["a"][1]

    def first(lib: Any, x: Any, w: Any) -> Any:
        return f(lib, x, lib.quiet(lambda: g(lib, x, w) * w))

    def last(lib: Any, x: Any, w: Any) -> Any:
        made = f(lib, x, w)
        return made + lib.quiet(lambda: made * x)

    def loud(lib: Any, x: Any, w: Any) -> Any:
        return lib.quiet(lambda: lib.loud(lambda: f(lib, x, w))) * x

    return _pick(rng, stopped, first, last, loud)


def _called(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
    return lambda lib, x, w: f(lib, x, lib.called(np.cos, g(lib, x, w)))


def _autocast(rng: Rng, shape: tuple[int, ...], f: Run, g: Run) -> Run:
    return lambda lib, x, w: lib.autocast(lambda t: f(lib, t, w))(x)


# Each wrapper; whether it differentiates, and what it needs and leaves of backward and forward.
WRAPPERS: Final[dict[str, tuple[Wrapper, str]]] = {
    "grad": (_grad, "backward"), "vjp": (_vjp, "backward"), "jvp": (_jvp, "forward"),
    "linearize": (_linearize, "forward"), "jacrev": (_jacobian("jacrev"), "backward"),
    "jacfwd": (_jacobian("jacfwd"), "forward"), "hessian": (_hessian, "backward forward"),
    "vmap": (_vmap, ""), "jit": (_jit, ""), "checkpoint": (_checkpoint, ""), "cond": (_cond, ""),
    "scan": (_scan, ""), "while_loop": (_while, "-backward"),
    "custom_vjp": (_own("reverse"), "-forward"), "custom_jvp": (_own("forward"), ""),
    "custom_both": (_own("both"), ""), "custom_of_two": (_own_of_two, "-forward"),
    "still": (_still, ""), "callback": (_called, ""), "autocast": (_autocast, ""),
}  # fmt: skip


def wrapped(name: str, rng: Rng, shape: tuple[int, ...], inner: Block, other: Block) -> Block:
    """Return a transform around two programs."""
    wrapper, means = WRAPPERS[name]
    run = wrapper(rng, shape, inner.run, other.run)
    return Block(
        run,
        f"{name} [{run.__qualname__.split('.')[-1]}] of ({inner.text}; {other.text})",
        inner.backward and other.backward and "-backward" not in means,
        inner.forward and other.forward and "-forward" not in means,
    )


def fits(name: str, inner: Block) -> bool:
    """Return whether a program can be differentiated as a transform does."""
    means = WRAPPERS[name][1].split()
    backward = "backward" in means or name == "checkpoint"
    return (inner.backward or not backward) and (inner.forward or "forward" not in means)
