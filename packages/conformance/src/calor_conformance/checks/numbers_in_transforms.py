"""Numbers of Python and NumPy under pairs of transforms: jitted calls are the plain ones.

A trace holds a Python number as a value that has no dtype of its own, where plain Python has the
number. Both become tensors at the same places, of the same dtype: what a transform differentiates,
carries or returns, and what a function makes of numbers. So every transform around every other one,
jitted inside, outside or not at all, gives the same structure, dtypes and values for each kind of
number, alone and in containers; and each public function gives for numbers beside tensors what it
gives without a trace.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import complex64, float32, int64
from calor.errors import CalorError
from calor.tensor.values import is_weak

from .base import Check, Place

CONTRACT: Final = "a traced number becomes a tensor where and as a plain one does"
Function = Callable[[Any], Any]
_NUMBERS: Final = (
    True, 3, 3.0, 3 + 1j, np.float32(3), np.int32(3), np.bool_(True), np.complex64(3 + 1j),
    np.array(3.0, np.float32), np.array(3, np.int32), np.array(True),
    [3.0, 2.0], {"a": 3.0, "b": 2}, {"a": [1.0, 2], "b": (2.0,)}, [3, {"c": 2j}], [True, 2.0],
)  # fmt: skip
# How many kinds of numbers a pair of transforms is asked about, and where programs are compiled.
_MANY, _SOME = 6, 1


def _cubes(x: Any) -> Any:
    total: Any = 0.0
    for leaf in calor.tree.leaves(x):
        total = total + leaf * leaf * leaf
    return total


def _directions(x: Any) -> Any:
    """Return a direction for each number that moves: the number itself."""
    return calor.tree.map(lambda leaf: leaf if calor.asarray(leaf).dtype.is_inexact else None, x)


def _pulled(inner: Function, x: Any) -> Any:
    value, pull = calor.vjp(inner, x)
    seeds = calor.tree.map(lambda y: calor.asarray(y) * 0 + 1, value)
    return value, pull(seeds)


def _with_gradient(inner: Function) -> Function:
    made = calor.custom_vjp(lambda x: inner(x))
    made.defvjp(lambda x: (inner(x), x), lambda x, g: (calor.tree.map(lambda leaf: leaf * 2, x),))
    return made


def _with_derivative(inner: Function) -> Function:
    made = calor.custom_jvp(lambda x: inner(x))
    made.defjvp(lambda primals, tangents: (inner(*primals), inner(*primals)))
    return made


_WAYS: Final[dict[str, Callable[[Function], Function]]] = {
    "plain": lambda f: f,
    "grad": calor.grad,
    "value_and_grad": calor.value_and_grad,
    "vmap": lambda f: calor.vmap(f, in_axes=None, axis_size=2),
    "jvp": lambda f: lambda x: calor.jvp(f, (x,), (_directions(x),)),
    "linearize": lambda f: lambda x: calor.linearize(f, x)[1](_directions(x)),
    "vjp": lambda f: partial(_pulled, f),
    "jacrev": calor.jacrev,
    "jacfwd": calor.jacfwd,
    "hessian": calor.hessian,
    "checkpoint": calor.checkpoint,
    "custom_vjp": _with_gradient,
    "custom_jvp": _with_derivative,
    "scan": lambda f: lambda x: calor.scan(lambda c, _: (c, f(c)), x, length=2),
    "fori_loop": lambda f: lambda x: calor.fori_loop(0, 2, lambda i, c: (c[0], f(c[0])), (x, f(x))),
    "while_loop": lambda f: (
        lambda x: calor.while_loop(lambda c: c[1] < 2, lambda c: (c[0], c[1] + 1), (f(x), 0))
    ),
    "cond": lambda f: lambda x: calor.cond(calor.asarray(True), f, f, x),
    "cond-of-python": lambda f: lambda x: calor.cond(True, f, f, x),
}


def _settled(inner: Function) -> Function:
    """Return a function whose results are tensors, as those of a jitted function."""
    return lambda x: calor.tree.map(_tensor, inner(x))


def _tensor(leaf: Any) -> Any:
    numbers = (bool, int, float, complex, np.ndarray, np.generic)
    return calor.asarray(leaf) if isinstance(leaf, numbers) else leaf


def _told(call: Callable[..., Any], *given: Any) -> tuple[str, list[Any]]:
    """Return the structure and dtypes of a result, or the type of an error, and the values."""
    try:
        flat, structure = calor.tree.flatten(call(*given))
    except CalorError as error:
        return type(error).__name__, []
    leaves = [_tensor(leaf) for leaf in flat]
    told = [
        f"{t.dtype.name}{t.shape}{' weak' * is_weak(t)}" if isinstance(t, calor.Tensor) else repr(t)
        for t in leaves
    ]
    values = [t.numpy() for t in leaves if isinstance(t, calor.Tensor)]
    return f"{structure} {told}", values


def _same(got: tuple[str, list[Any]], want: tuple[str, list[Any]]) -> bool:
    return got[0] == want[0] and all(map(np.array_equal, got[1], want[1]))


def _pairs(outer: str, place: Place) -> None:
    rng = np.random.default_rng(place.number(list(_WAYS).index(outer)))
    around = _WAYS[outer]
    for number, (inner, way) in enumerate(_WAYS.items()):
        if not place.tries(number, 6):
            continue
        count = _MANY if place.interpreted else _SOME
        for k in rng.permutation(len(_NUMBERS))[:count]:
            given = _NUMBERS[int(k)]
            # A host array among the arguments of a jitted function is a tensor.
            plain = calor.asarray(given) if isinstance(given, np.ndarray) else given
            want = _told(around(way(_cubes)), plain)
            got = _told(calor.jit(around(way(_cubes))), given)
            told = f"{outer} of {inner} of {given!r}"
            assert _same(got, want), f"jitted {told}: {got}, not {want}"
            got = _told(around(calor.jit(way(_cubes))), given)
            if not _same(got, want):
                want = _told(around(_settled(way(_cubes))), given)
                assert _same(got, want), f"{told}, jitted inside: {got}, not {want}"


# A letter stands for a small tensor: of float16, int8, float32 and bool.
_FORMS: Final[tuple[tuple[Any, ...], ...]] = (
    (3.0,), (2,), (2j,), (0.5, 0.25), (3, 2), (3, 2.0), ("h", 2.0), ("h", 2), ("i", 2), ("i", 2.0),
    (2.0, "h"), (2, "i"), ("f", 0.25), ("h", 2j), ("h", "h", 0.5), ("h", 0.5, "h"), (0.5, "h", 2.0),
    ("h", 0.5, 2.0), ([0.5, "h"],), ([0.5, 2.0],), ("b", "h", 2.0), ("b", 2.0, "h"),
    ("b", 2.0, 3.0), ("b", 2, 3.0),
)  # fmt: skip


def _made(part: Any) -> Any:
    if isinstance(part, list):
        return [_made(p) for p in part]
    if not isinstance(part, str):
        return part
    dtype = {"h": np.float16, "i": np.int8, "f": np.float32, "b": np.bool_}[part]
    return calor.asarray(np.array([1, 0.25]).astype(dtype))


def _functions() -> dict[str, Callable[..., Any]]:
    """Return the public functions of numbers and tensors by name."""
    return {
        name: getattr(calor, name)
        for name in sorted(dir(calor))
        if getattr(getattr(calor, name, None), "__module__", "").startswith("calor.functions.")
    }


def _of_functions(place: Place) -> None:
    asked = 0
    for number, (name, function) in enumerate(_functions().items()):
        for form in _FORMS:
            if not place.tries(number, 20):
                continue
            given = [_made(part) for part in form]
            try:
                want = _told(function, *given)
            except (TypeError, ValueError, IndexError, OverflowError):
                continue
            if not want[1]:
                continue
            try:
                got = _told(calor.jit(lambda *xs, f=function: f(*xs)), *given)
            except TypeError:
                continue  # A size or an axis cannot be traced.
            asked += bool(got[1])
            # What reads the number itself says so.
            refused = got[0] in ("TraceError", "ElementIndexError")
            assert refused or got[0] == want[0], f"{name}{form}: {got[0]}, not {want[0]}"
    assert asked, "no function was asked"


def numbers_in_transforms() -> Iterator[Check]:
    """Yield a check of each transform around all others, and one of functions."""
    runs: list[tuple[str, Callable[[Place], None]]] = [
        (f"numbers-in-{name}", partial(_pairs, name)) for name in _WAYS
    ]
    for subject, run in [*runs, ("numbers-of-functions", _of_functions)]:
        yield Check(
            kind="transforms",
            subject=subject,
            tier="training",
            contract=CONTRACT,
            run=run,
            text=partial(inspect.getsource, sys.modules[__name__]),
            dtypes=(float32, int64, complex64),
            features=("control_flow",),
            looks=True,
        )
