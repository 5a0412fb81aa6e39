"""``calor.debug_nans``: the first op that makes what is not finite is named, and nothing else.

A program is drawn of harmless steps with one that fails for some elements, inside transforms. What
is named, counted and placed is compared with NumPy; what is meant to be infinite is let through.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.config import config
from calor.dtypes import float32, float64, int32
from calor.errors import NonFiniteError

from .base import Array, Check, Place

CONTRACT: Final = "the first op that makes a NaN or an infinity is named, and no other one"
_PROGRAMS: Final = 16
Rng = np.random.Generator
# Steps that keep numbers positive and finite.
_HARMLESS: Final[tuple[Callable[[Any], Any], ...]] = (
    lambda t: t * 2 + 1, lambda t: calor.sqrt(calor.abs(t) + 1), lambda t: calor.exp(-t * t),
    lambda t: t / (calor.abs(t) + 1), lambda t: calor.where(t > 0, t, -t),
)  # fmt: skip
# A step that fails where the mask is, the op that fails, and whether it makes NaN.
_FAILING: Final[dict[str, tuple[Callable[[Any, Any], Any], str, bool]]] = {
    "sqrt": (lambda t, m: calor.sqrt(calor.where(m, -1.0, 2.0) + t * 0), "sqrt", True),
    "log of 0": (lambda t, m: calor.log(calor.where(m, 0.0, 2.0) + t * 0), "log", False),
    "log below 0": (lambda t, m: calor.log(calor.where(m, -2.0, 2.0) + t * 0), "log", True),
    "overflow": (lambda t, m: calor.exp(calor.where(m, 1e4, 1.0) + t * 0), "exp", False),
    "division": (lambda t, m: (t * t + 1) / calor.where(m, 0.0, 1.0), "div", False),
    "difference": (
        lambda t, m: (calor.where(m, calor.inf, 1.0) + t * 0) - calor.where(m, calor.inf, 0.0),
        "sub", True),
}  # fmt: skip


def _scanned(f: Any) -> Any:
    def call(t: Any, m: Any) -> Any:
        return calor.scan(lambda c, row: (c + 1, f(row, m) * 1), t, calor.stack([t, t]))[1][0]

    return call


def _while(f: Any) -> Any:
    def call(t: Any, m: Any) -> Any:
        start = (calor.asarray(np.int32(0)), t)
        return calor.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f(s[1], m)), start)[1]

    return call


def _branch(f: Any) -> Any:
    return lambda t, m: calor.cond(calor.sum(t * 0) < 1, lambda u: f(u, m), lambda u: u, t)


def _own(f: Any) -> Any:
    made = calor.custom_jvp(lambda t, m: f(t, m))
    made.defjvp(lambda p, d: (f(*p), d[0] * 2))
    return made


_AROUND: Final[dict[str, Callable[[Any], Any]]] = {
    "nothing": lambda f: f, "jit": calor.jit, "scan": _scanned, "while": _while, "cond": _branch,
    "checkpoint": calor.checkpoint, "own": _own, "jit of scan": lambda f: calor.jit(_scanned(f)),
    "bound": lambda f: lambda t, m: calor.jit(f).bind(t)(m),
    "grad": lambda f: lambda t, m: calor.value_and_grad(lambda u: calor.sum(f(u, m)))(t)[0] + t * 0,
    "cond of jit": lambda f: _branch(calor.jit(f)),
}  # fmt: skip


def _raised(work: Callable[[], Any], infinities: bool) -> NonFiniteError | None:
    before = config.nans, config.eager, config.jit
    try:
        with calor.debug_nans(infinities=infinities):
            work().numpy()
    except NonFiniteError as error:
        return error
    finally:
        after = config.nans, config.eager, config.jit
        assert after == before, f"after debug_nans: {after}, not {before}"
    return None


def _named(place: Place) -> None:
    for number in range(_PROGRAMS):
        rng = np.random.default_rng([place.number(number), 3])
        shape = ((4,), (2, 3), (2, 2, 2))[int(rng.integers(3))]
        mask = rng.random(shape) < 0.4
        mask.reshape(-1)[int(rng.integers(mask.size))] = True
        dtype = (float32, float64)[int(rng.integers(2))]
        x, m = calor.asarray(rng.uniform(-1, 1, shape)).astype(dtype), calor.asarray(mask)
        before, after = (
            [_HARMLESS[int(i)] for i in rng.integers(0, len(_HARMLESS), int(rng.integers(0, 3)))]
            for _ in range(2)
        )
        name = str(rng.choice(list(_FAILING)))
        fails, op, nans = _FAILING[name]
        around = str(rng.choice(list(_AROUND)))

        def run(t: Any, m: Any, chain: Any = (before, fails, after)) -> Any:
            for step in chain[0]:
                t = step(t)
            t = chain[1](t, m)
            for step in chain[2]:
                t = step(t)
            return t

        call, none = _AROUND[around](run), calor.zeros(shape, dtype=calor.bool)
        what = f"{name} in {around}"
        wanted = _raised(lambda: call(x, none), True)  # noqa: B023 - called here
        assert wanted is None, f"{what}: {wanted}, where all is finite"
        error = _raised(lambda: call(x, m), True)  # noqa: B023 - called here
        assert error is not None, f"{what}: no error"
        assert error.op == op, f"{what}: {error.op} is named"
        first = tuple(int(n) for n in np.argwhere(mask)[0])
        told = f"({mask.sum()} of {mask.size} elements, the first at {first})"
        kind = "NaN" if nans else "an infinity"
        assert f"{op} made {kind} in {dtype.name}" in str(error), f"{what}: {error}"
        assert told in str(error), f"{what}: {error}, not {told}"
        assert error.line, f"{what}: no line"
        infinite = _raised(lambda: call(x, m), False)  # noqa: B023 - called here
        # An infinity by another one, or by the zero of a gradient, is NaN.
        alone = nans or around in ("grad", "while") or _HARMLESS[3] in after
        assert alone or infinite is None, f"{what}: {infinite}, of infinities that are let through"
        assert not nans or infinite is not None, f"{what}: no error for NaN alone"


def _but_last(array: Array) -> Array:
    """Return where an element is not the last of its row: a mask that leaves one."""
    return np.broadcast_to(np.arange(array.shape[-1]) < array.shape[-1] - 1, array.shape)


def _let_through(place: Place) -> None:
    """Infinities that were given, and NaN of data until an op makes one of it."""
    rng = np.random.default_rng([place.seed, 4])
    shape = (int(rng.integers(2, 4)), 3)
    given: Array = np.where(rng.random(shape) < 0.5, np.inf, 1.0).astype(np.float32)
    given[0, 0] = np.inf
    x, hidden = calor.asarray(given), calor.asarray((given > 2) & _but_last(given))
    meant: dict[str, Callable[[], Any]] = {
        "a mask": lambda: calor.softmax(calor.where(hidden, -calor.inf, 1.0), axis=-1),
        "data": lambda: x + 1, "a maximum": lambda: calor.max(x),
        "full": lambda: calor.full(shape, calor.inf) + 1,
        "a number": lambda: calor.zeros(shape) + calor.inf,
    }  # fmt: skip
    for name, work in meant.items():
        error = _raised(work, True)
        assert error is None, f"{name}: {error}"
    error = _raised(lambda: calor.asarray([np.nan, 1.0]) * 2, True)
    assert error is not None, "an op that makes NaN of data"
    assert "an operand holds NaN" in str(error), f"{error}"
    error = _raised(lambda: x - x, True)
    assert error is not None, "infinities that meet"
    assert "an operand holds an infinity" in str(error), f"{error}"
    error = _raised(lambda: calor.log(calor.zeros(shape) * x.shape[0]), True)
    assert error is not None, "an infinity of zeros"
    assert "its operands are finite" in str(error), f"{error}"
    backward = _raised(lambda: calor.grad(lambda t: calor.sum(calor.sqrt(t)))(calor.zeros(3)), True)
    assert backward is not None, "a gradient that is infinite"
    with calor.debug_nans(), calor.debug_nans(infinities=False):
        assert calor.jit(lambda t: t * 2)(x).shape == shape
        calor.log(calor.zeros(2)).numpy()
    counted = calor.jit(lambda t: t * 3)
    with calor.debug_nans():
        counted(calor.ones(2))
    assert counted.trace_count == 0, "a jitted function is traced within debug_nans"
    counted(calor.ones(2))
    assert counted.trace_count == 1, "jit is off after debug_nans"


def found_nans() -> Iterator[Check]:
    """Yield the checks of what is found, and of what is let through."""
    for subject, run in (("named", _named), ("let-through", _let_through)):
        yield Check(
            kind="transforms",
            subject=f"debug-nans-{subject}",
            tier="training",
            contract=CONTRACT,
            run=run,
            text=partial(inspect.getsource, run),
            dtypes=(float32, float64, int32),
            looks=True,
        )
