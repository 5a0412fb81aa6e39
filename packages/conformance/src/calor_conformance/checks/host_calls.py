"""``calor.callback``: what the host is given and gives back, in every place of a program.

Structures, dtypes and arguments that are no tensors are drawn, and the transforms around the call.
A call that keeps its order is made as often as the program passes it, in the program's order.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bool_, float32, float64, int8, int32, int64

from .base import Array, Check, Place, members

CONTRACT: Final = "a function of the host gets what it is called with, and gives what it declares"
_TURNS: Final = 8
Rng = np.random.Generator
_DTYPES: Final = (float32, float64, int32, int64, int8, bool_)


def _as_it_is(function: Any) -> Any:
    return function


def _in_scan(function: Any) -> Any:
    def call(*given: Any) -> Any:
        start = calor.asarray(np.int32(0))
        made = calor.scan(lambda c, _: (c + 1, function(*given)), start, length=2)[1]
        return calor.tree.map(lambda t: t[1], made)

    return call


def _in_cond(function: Any) -> Any:
    def call(*given: Any) -> Any:
        yes = calor.asarray(np.float32(1)) > 0
        return calor.cond(yes, lambda: function(*given), lambda: calor.tree.map(
            lambda t: t * 1 if t.dtype is not bool_ else t, function(*given)))  # fmt: skip

    return call


_AROUND: Final[dict[str, Callable[[Any], Any]]] = {
    "nothing": _as_it_is, "jit": calor.jit, "scan": _in_scan, "cond": _in_cond,
    "jit of scan": lambda f: calor.jit(_in_scan(f)), "checkpoint": calor.checkpoint,
    "jit of cond": lambda f: calor.jit(_in_cond(f)),
}  # fmt: skip


def _array(rng: Rng) -> tuple[Array, Any]:
    shape = ((), (2,), (2, 3), (1, 2), (0,))[int(rng.integers(5))]
    dtype = _DTYPES[int(rng.integers(len(_DTYPES)))]
    return np.asarray(rng.integers(0, 9, shape)).astype(dtype.numpy), dtype


def _same(got: Any, want: Any, what: str) -> None:
    made = got.numpy()
    assert (made.dtype, made.shape) == (want.dtype, want.shape), f"{what}: {made!r}, not {want!r}"
    assert np.array_equal(made, want), f"{what}: {made.tolist()}, not {want.tolist()}"


def _given(place: Place) -> None:
    """Arguments and results in structures, with what is no tensor beside them."""
    for turn in range(_TURNS):
        rng = np.random.default_rng([place.number(turn), 1])
        (a, _), (b, _), (c, _) = (_array(rng) for _ in range(3))
        tag: Any = ("text", 7, (1, "two"), None, [1, 2], np.arange(2), {"k": 1.5}, len)[
            int(rng.integers(8))]  # fmt: skip
        seen: list[Any] = []

        def host(first: Any, more: Any, tag: Any, seen: Any = seen) -> Any:
            seen.append((first, more, tag))
            return {"one": more["b"].copy(), "rest": (first, [more["c"][0]])}

        x, y, z = map(calor.asarray, (a, b, c))
        results = {"one": y, "rest": (calor.specs.spec(a.shape, x.dtype), [z])}
        name = str(rng.choice(list(_AROUND)))

        def run(first: Any, second: Any, third: Any, host: Any = host, results: Any = results,
                tag: Any = tag) -> Any:  # fmt: skip
            return calor.callback(host, results, first, {"b": second, "c": [third, 3]}, tag)

        call = _AROUND[name](run)
        for again in range(2):
            made = call(x, y, z)
            what = f"{name}, call {again}, beside {tag!r}"
            _same(made["one"], b, what)
            _same(made["rest"][0], a, what)
            _same(made["rest"][1][0], c, what)
        first, more, beside = seen[-1]
        for array, want in ((first, a), (more["b"], b), (more["c"][0], c)):
            assert type(array) is np.ndarray, f"{what}: the host gets a {type(array).__name__}"
            assert not array.flags.writeable, f"{what}: the host may write to what it gets"
            assert array.dtype == want.dtype, f"{what}: the host gets {array.dtype}"
        assert more["c"][1] == 3, f"{what}: a number is {more['c'][1]!r}"
        told = repr(beside) == repr(tag) and type(beside) is type(tag)
        assert told, f"{what}: what is no tensor is {beside!r}"


def _kinds_of_results(place: Place) -> None:
    """What stands for arrays: numbers, lists, tensors; functions that differ in what they hold."""
    rng = np.random.default_rng([place.seed, 2])
    values = rng.integers(0, 9, 3)
    x, number = calor.asarray(values.astype(np.float32)), calor.specs.spec((), float32)
    for name, around in _AROUND.items():
        ways: dict[str, tuple[Any, Any, Any]] = {
            "a number": (lambda a: float(a.sum()), number, np.float32(values.sum())),
            "a list": (lambda a: [1.0, 2.0, 3.0], x, np.array([1, 2, 3], np.float32)),
            "a tensor": (lambda a: calor.asarray(a) * 2, x, np.float32(values * 2)),
            "calor within": (
                lambda a: calor.jit(lambda t: t + 1)(calor.asarray(a)).numpy(), x,
                np.float32(values + 1)),
            "a view": (lambda a: a[::-1], x, np.float32(values[::-1])),
        }  # fmt: skip
        for kind, (host, results, want) in ways.items():
            made = around(lambda t, host=host, r=results: calor.callback(host, r, t * 1))(x)
            _same(made, np.asarray(want), f"{kind}, {name}")
        for by in (2.0, 3.0):
            # One code, and another value that it holds.
            call = around(lambda t, by=by: calor.callback(lambda a: a * np.float32(by), t, t))
            _same(call(x), np.float32(values * by), f"a function that holds {by}, {name}")
            made = around(lambda t, by=by: calor.callback(_scaled, t, t, by))(x)
            _same(made, np.float32(values * by), f"beside {by}, {name}")


def _scaled(array: Array, by: float) -> Array:
    return array * np.float32(by)


def _in_order(place: Place) -> None:
    """Calls that keep their order, in loops and branches inside each other, once a pass."""
    for turn in range(_TURNS):
        rng = np.random.default_rng([place.number(turn), 3])
        count, inner = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        up = bool(rng.random() < 0.5)
        seen: list[float] = []

        def note(a: Array, tag: str = "", seen: Any = seen) -> None:
            seen.append(float(a) + (0.5 if tag else 0.0))

        def passes(a: Any, note: Any = note, inner: int = inner) -> Any:
            def one(i: Any, c: Any) -> Any:
                calor.callback(note, None, c, ordered=True)
                made = calor.callback(lambda v: v + 1, c, c, ordered=True)
                return calor.cond(made > 102, lambda m: second(m), lambda m: m, made)

            def second(m: Any) -> Any:
                calor.callback(note, None, m, "tag", ordered=True)
                return m

            return calor.fori_loop(0, inner, one, a)

        def run(a: Any, count: int = count, passes: Any = passes, up: bool = up) -> Any:
            rows = calor.arange(count, dtype=float32)
            last, _ = calor.scan(lambda c, r: (passes(c), r), a, rows, reverse=up)
            return last

        start, want = 100.0, []
        for _ in range(count * inner):
            want.append(start)
            start += 1
            if start > 102:
                want.append(start + 0.5)
        # A group's members pass one after another, each through the loop of its own.
        want *= members()
        for how in (_as_it_is, calor.jit):
            call = how(run)
            for again in range(2):
                seen.clear()
                made = call(calor.asarray(np.float32(100)))
                _same(made, np.float32(start), f"call {again}")
                assert seen == want, f"call {again}: {seen}, not {want}"


def _mapped(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 4])
    size = int(rng.integers(1, 5))
    a, b = (rng.integers(0, 9, s).astype(np.float32) for s in ((size, 3), (3,)))
    number = calor.specs.spec((), float32)

    def host(x: Array, y: Array, tag: int) -> Any:
        assert x.shape == y.shape == (3,), f"the host gets {x.shape} and {y.shape}"
        return (x * y).sum(), (y - x) * tag

    def run(x: Any, y: Any) -> Any:
        return calor.callback(host, (number, y), x, y, 2)

    for how in (_as_it_is, calor.jit):
        for flip in (False, True):
            call = how(calor.vmap(lambda x, y, f=flip: run(y, x) if f else run(x, y), (0, None)))
            total, rest = call(calor.asarray(a), calor.asarray(b))
            _same(total, (a * b).sum(1), "mapped calls")
            _same(rest, (b - a) * (-2 if flip else 2), f"the other result, {flip}")
    own = calor.custom_vjp(lambda t: calor.callback(np.sin, t, t))
    own.defvjp(lambda t: (own(t), t), lambda t, g: (calor.callback(np.cos, t, t) * g,))
    for how in (_as_it_is, calor.jit):
        found = how(calor.vmap(calor.grad(lambda t: calor.sum(own(t) * 2))))(calor.asarray(a))
        assert np.allclose(found.numpy(), 2 * np.cos(a), 1e-5), f"its gradient: {found}"


_WAYS: Final = {
    "given": _given, "results": _kinds_of_results, "in-order": _in_order, "mapped": _mapped,
}  # fmt: skip


def host_calls() -> Iterator[Check]:
    """Yield a check of each matter."""
    for name, run in _WAYS.items():
        yield Check(
            kind="transforms",
            subject=f"host-calls-{name}",
            tier="training",
            contract=CONTRACT,
            run=run,
            text=partial(inspect.getsource, run),
            dtypes=_DTYPES,
            features=("control_flow",),
            looks=True,
        )
