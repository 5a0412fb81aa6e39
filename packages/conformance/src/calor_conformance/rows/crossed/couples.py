"""Two ops after each other, of every kind after every kind, which a compiler may make one of.

Numbers are few and exact: zeros of both signs, infinities, NaN, ties and halves, so that each op
has one right result in every dtype, and a wrong one is not hidden by rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, as_dtype, float16, float32, int32
from calor.ops import elementwise as e
from calor.ops import movement as m

from ..language import Array
from ..oracle_casts import cast
from .language import Problem, Subject
from .pairwise import Scenario

Rng = np.random.Generator
# What calor does, and what it means.
Pair = tuple[Callable[[Any], Any], Callable[[Array], Array]]
_SHAPES: Final = ((6,), (3, 5), (4, 1, 3), (2, 3, 4), (2, 2, 2, 3), (37,))
_MOST: Final = 3000
_FLOATS: Final = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    0.5,
    1.5,
    -2.5,
    3.0,
    2049.0,
    np.inf,
    -np.inf,
    np.nan,
)
_INTEGERS: Final = (0, 1, -1, 2, 3, -7, 127, -128, 300)


def _constant(rng: Rng, dtype: DType) -> float:
    """Return a number for which an op may change nothing, or everything."""
    if dtype.kind == "float":
        return float(rng.choice((0.0, -0.0, 1.0, -1.0, 2.0, np.inf, np.nan)))
    return int(rng.choice((0, 1, 2) if dtype.kind == "uint" else (0, 1, -1, 2)))


def _axes(rng: Rng, rank: int) -> tuple[int, ...]:
    return tuple(sorted(int(a) for a in rng.permutation(rank)[: int(rng.integers(1, rank + 1))]))


def _permuted(rng: Rng, x: Array, to: DType) -> Pair:
    order = tuple(int(a) for a in rng.permutation(x.ndim))
    return (lambda t: m.permute(t, axes=order)), (lambda a: a.transpose(order))


def _flipped(rng: Rng, x: Array, to: DType) -> Pair:
    axes = _axes(rng, x.ndim)
    return (lambda t: m.flip(t, axes=axes)), (lambda a: np.flip(a, axes))


def _cut(rng: Rng, x: Array, to: DType) -> Pair:
    """A slice with steps of either sign that leaves an element at least."""
    cuts = []
    for n in x.shape:
        step, first = int(rng.choice((1, 1, 2, 3, -1, -2))), int(rng.integers(n))
        cuts.append(slice(first, None, step) if rng.random() < 0.7 else slice(None))
    taken = tuple(cuts)
    return (lambda t: t[taken]), (lambda a: a[taken])


def _reshaped(rng: Rng, x: Array, to: DType) -> Pair:
    sizes = list(x.shape)
    if len(sizes) > 1 and rng.random() < 0.5:
        k = int(rng.integers(len(sizes) - 1))
        sizes[k : k + 2] = [sizes[k] * sizes[k + 1]]
    else:
        k = int(rng.integers(len(sizes)))
        part = next((p for p in (2, 3, 5) if sizes[k] % p == 0), 1)
        sizes[k : k + 1] = (
            [part, sizes[k] // part] if rng.random() < 0.5 else [sizes[k] // part, part]
        )
    shape = tuple(sizes)
    return (lambda t: calor.reshape(t, shape)), (lambda a: a.reshape(shape))


def _expanded(rng: Rng, x: Array, to: DType) -> Pair:
    k, n = int(rng.integers(x.ndim + 1)), int(rng.integers(1, 4))
    shape = (*x.shape[:k], n, *x.shape[k:])
    return (
        lambda t: m.expand(calor.expand_dims(t, axis=k), shape=shape),
        lambda a: np.broadcast_to(np.expand_dims(a, k), shape),
    )


def _padded(rng: Rng, x: Array, to: DType) -> Pair:
    wide = [(int(a), int(b)) for a, b in rng.integers(0, 3, (x.ndim, 2))]
    value = _constant(rng, as_dtype(x.dtype))
    return (
        lambda t: calor.pad(t, wide, value=value),
        lambda a: np.pad(a, wide, constant_values=a.dtype.type(value)),
    )


def _rolled(rng: Rng, x: Array, to: DType) -> Pair:
    by, axis = int(rng.integers(-4, 5)), int(rng.integers(x.ndim))
    return (lambda t: calor.roll(t, by, axis=axis)), (lambda a: np.roll(a, by, axis))


def _joined(rng: Rng, x: Array, to: DType) -> Pair:
    """A join with a constant, before or behind it, or with itself."""
    axis, before, value = (
        int(rng.integers(x.ndim)),
        bool(rng.random() < 0.5),
        _constant(rng, as_dtype(x.dtype)),
    )
    itself = bool(rng.random() < 0.3)

    def apply(lib: Any, a: Any, other: Any) -> Any:
        return lib.concat([other, a] if before else [a, other], axis=axis)

    return (
        lambda t: apply(calor, t, t if itself else calor.full(t.shape, value, dtype=t.dtype)),
        lambda a: apply(np, a, a if itself else np.full(a.shape, value, a.dtype)),
    )


def _taken(rng: Rng, x: Array, to: DType) -> Pair:
    axis = int(rng.integers(x.ndim))
    n = x.shape[axis]
    places = rng.integers(-n, n, int(rng.integers(1, 6))).astype(np.int32)
    return (
        lambda t: calor.take(t, calor.asarray(places), axis=axis),
        lambda a: np.take(a, places, axis=axis),
    )


def _updated(rng: Rng, x: Array, to: DType) -> Pair:
    """An update of a part by a constant; a start beyond the end moves to where it fits."""
    sizes = tuple(int(rng.integers(1, n + 1)) for n in x.shape)
    starts = [int(rng.integers(-2, n + 2)) for n in x.shape]
    value = _constant(rng, as_dtype(x.dtype))

    def theirs(a: Array) -> Array:
        made = a.copy()
        at = [max(0, min(s, n - k)) for s, n, k in zip(starts, a.shape, sizes, strict=True)]
        made[tuple(slice(s, s + k) for s, k in zip(at, sizes, strict=True))] = value
        return made

    return (
        lambda t: calor.dynamic_update_slice(t, calor.full(sizes, value, dtype=t.dtype), starts),
        theirs,
    )


def _cast(rng: Rng, x: Array, to: DType) -> Pair:
    return (lambda t: e.cast(t, dtype=to)), (lambda a: cast(a, dtype=to))


def _added(rng: Rng, x: Array, to: DType) -> Pair:
    c, first = _constant(rng, as_dtype(x.dtype)), bool(rng.random() < 0.5)
    return _with(c, (lambda t, k: e.add(k, t) if first else e.add(t, k)), np.add)


def _subtracted(rng: Rng, x: Array, to: DType) -> Pair:
    c = _constant(rng, as_dtype(x.dtype))
    if rng.random() < 0.5:
        return _with(c, (lambda t, k: e.sub(k, t)), lambda a, k: np.subtract(k, a))
    return _with(c, e.sub, np.subtract)


def _scaled(rng: Rng, x: Array, to: DType) -> Pair:
    return _with(_constant(rng, as_dtype(x.dtype)), e.mul, np.multiply)


def _with(c: float, ours: Callable[[Any, Any], Any], theirs: Callable[[Array, Any], Array]) -> Pair:
    """Return an op with a constant of the operand's dtype."""
    return (
        lambda t: ours(t, calor.full(t.shape, c, dtype=t.dtype)),
        lambda a: np.asarray(theirs(a, a.dtype.type(c)), a.dtype),
    )


def _negated(rng: Rng, x: Array, to: DType) -> Pair:
    return e.neg, np.negative


def _absolute(rng: Rng, x: Array, to: DType) -> Pair:
    return e.abs, np.abs


def _chosen(rng: Rng, x: Array, to: DType) -> Pair:
    """The positive elements, and a constant elsewhere."""
    c = _constant(rng, as_dtype(x.dtype))
    return _with(c, (lambda t, k: e.where(t > 0, t, k)), lambda a, k: np.where(a > 0, a, k))


def _order(rng: Rng, x: Array, to: DType) -> Pair:
    axis = int(rng.integers(x.ndim))

    def theirs(a: Array) -> Array:
        # NumPy knows no order of NaN in the types of others. Zeros of both signs are equal.
        known = a.astype(np.float32) if as_dtype(a.dtype).is_inexact else a
        return np.sort(known, axis=axis, kind="stable").astype(a.dtype)

    return (lambda t: calor.sort(t, axis=axis, stable=True)), theirs


_KINDS: Final[dict[str, Callable[[Rng, Array, DType], Pair]]] = {
    "permute": _permuted, "flip": _flipped, "cut": _cut, "reshape": _reshaped,
    "expand": _expanded, "pad": _padded, "roll": _rolled, "join": _joined, "take": _taken,
    "update": _updated, "cast": _cast, "add": _added, "subtract": _subtracted, "scale": _scaled,
    "negate": _negated, "absolute": _absolute, "choose": _chosen, "sort": _order,
}  # fmt: skip


def _couple(scenario: Scenario, rng: Rng, dtype: DType) -> Problem | None:
    """One op after another."""
    shape = _SHAPES[int(rng.integers(len(_SHAPES)))]
    values = np.array(_FLOATS if dtype.kind == "float" else _INTEGERS).astype(dtype.numpy)
    x = rng.permutation(np.resize(values, int(np.prod(shape)))).reshape(shape)
    made, steps = x, []
    with np.errstate(all="ignore"):
        for name, to in (("first", "through"), ("second", "back")):
            ours, theirs = _KINDS[scenario[name]](rng, made, scenario[to])
            made = np.asarray(theirs(made))
            steps.append(ours)
    if not 0 < made.size <= _MOST:
        return None
    first, second = steps
    return Problem([x], lambda t: second(first(t)), lambda: [made], [as_dtype(made.dtype)])


_DTYPES: Final = (
    calor.bfloat16, calor.float32, calor.int32, calor.int8, calor.float16, calor.uint8,
    calor.int64,
)  # fmt: skip

_FACTORS: Final[dict[str, tuple[Any, ...]]] = {
    "first": tuple(_KINDS),
    "second": tuple(_KINDS),
    "through": _DTYPES,
    "back": _DTYPES,
    "mode": ("jit", "again"),
}

SUBJECTS: list[Subject] = [
    Subject("", _couple, (float32,), _FACTORS, name="chain-of-two", whole=True),
    Subject("", _couple, (int32, float16), _FACTORS, name="chain-of-two-others", each="first"),
]
