"""Thousands of updates of one place in half types, by everything that adds up at indices.

Half types accumulate in float32, and the result is rounded once. A sum in the type itself stops
growing after some hundred terms, and a product drifts; a sum of few terms shows neither. The bound
is that of the accumulation: half a unit of the result's last place, and for each term as much of
float32's roundoff as the terms are large together. NumPy has the sum in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

import numpy as np

import calor
from calor.dtypes import bfloat16, float16, float32

from ..rows.definitions import written
from .base import Array, Check, Place

CONTRACT: Final = "many updates of a place in a half type add up in float32 and are rounded once"
_ROUNDOFF: Final = 2.0**-24
_ROWS: Final = 5
# Even where some go elsewhere, more terms than the largest number of a half type.
_LONG: Final = 80_001
Rng = np.random.Generator


class _Many(NamedTuple):
    """A function of a table (rows, width), updates (n, width) and rows (n,), and what it combines.

    ``kind``: how updates are combined. ``own``: whether the table takes part itself. ``wide``:
    whether tables have a width. ``package``: what it needs.
    """

    function: Callable[[Any, Any, Any], Any]
    kind: str = "add"
    own: bool = False
    wide: bool = True
    package: str = "calor"


def _layers() -> Any:
    return import_module("calor_nn.functional")


def _beside(u: Any, i: Any) -> Any:
    return calor.broadcast_to(calor.expand_dims(i, axis=1), u.shape)


def _slope(read: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Return the gradient of what reads rows, where those that arrive are the updates."""

    def made(x: Any, u: Any, i: Any) -> Any:
        _, pull = calor.vjp(lambda t: read(t, i), x)
        return calor.tree.leaves(pull(calor.reshape(u, read(x, i).shape)))[0]

    return made


def _histogram(x: Any, u: Any, i: Any) -> Any:
    places = calor.astype(i, float32) + 0.5
    return calor.histogram(places, _ROWS, range=(0, _ROWS), weights=u[:, 0])[0]


def _written(kind: Any) -> dict[str, _Many]:
    """Return what updates a table, for one kind."""
    return {
        f"index_update-{kind}": _Many(
            lambda x, u, i: calor.index_update(x, i, u, axis=0, update=kind), kind, own=True),
        f"scatter_along_axis-{kind}": _Many(
            lambda x, u, i: calor.scatter_along_axis(x, _beside(u, i), u, 0, update=kind),
            kind, own=True),
        f"scatter_nd-{kind}": _Many(
            lambda x, u, i: calor.scatter_nd(x, calor.expand_dims(i, axis=1), u, update=kind),
            kind, own=True),
        f"put-{kind}": _Many(
            lambda x, u, i: calor.put(x[:, 0], i, u[:, 0], update=kind), kind, own=True,
            wide=False),
    }  # fmt: skip


_FUNCTIONS: Final[dict[str, _Many]] = {
    **{name: made for kind in ("add", "mul", "max", "min", "mean")
       for name, made in _written(kind).items()},
    "segment_sum": _Many(lambda x, u, i: calor.segment_sum(u, i, _ROWS)),
    "segment_prod": _Many(lambda x, u, i: calor.segment_prod(u, i, _ROWS), "mul"),
    "segment_max": _Many(lambda x, u, i: calor.segment_max(u, i, _ROWS), "max"),
    "segment_min": _Many(lambda x, u, i: calor.segment_min(u, i, _ROWS), "min"),
    "segment_mean": _Many(lambda x, u, i: calor.segment_mean(u, i, _ROWS), "mean"),
    "bincount": _Many(lambda x, u, i: calor.bincount(i, u[:, 0], length=_ROWS), wide=False),
    "histogram": _Many(_histogram, wide=False),
    "take-gradient": _Many(_slope(lambda t, i: calor.take(t, i, axis=0))),
    "item-gradient": _Many(_slope(lambda t, i: t[i])),
    "take_along_axis-gradient": _Many(
        _slope(lambda t, i: calor.take_along_axis(
            t, calor.broadcast_to(calor.expand_dims(i, axis=1), (i.shape[0], t.shape[1])), 0))),
    "gather_nd-gradient": _Many(
        _slope(lambda t, i: calor.gather_nd(t, calor.expand_dims(i, axis=1)))),
    "embedding-gradient": _Many(
        _slope(lambda t, i: _layers().embedding(i, t)), package="calor_nn"),
    "embedding_bag-gradient": _Many(
        _slope(lambda t, i: _layers().embedding_bag(
            calor.expand_dims(i, axis=1), t, mode="sum")), package="calor_nn"),
}  # fmt: skip


def _numbers(rng: Rng, kind: str, shape: tuple[int, ...]) -> Array:
    """Return updates: of one sign or both, or factors about 1 whose product stays near it."""
    if kind == "mul":
        # Factors and their inverses come by turns, of which a half type rounds each.
        made = 1 + rng.uniform(0.001, 0.2, shape)
        made[1::2] = 1 / made[: len(made[1::2]) * 2 : 2]
        return made
    made = rng.uniform(0.05, 1.0, shape)
    return made if rng.random() < 0.7 else made * rng.choice((-1, 1), shape)


def _combined(
    kind: str, x: Array, u: Array, places: Array, own: bool
) -> tuple[Array, Array, Array]:
    """Return results in float64, the sums of the terms' sizes, and which rows have any terms."""
    count = np.bincount(places, minlength=len(x)).astype(np.float64)[:, None]
    sizes = np.abs(x) if own else np.zeros_like(x)
    np.add.at(sizes, places, np.abs(u))
    if kind in ("add", "mean"):
        made = np.array(x) if own else np.zeros_like(x)
        np.add.at(made, places, u)
        if kind == "mean":
            divisor = np.maximum(count + own, 1)
            made, sizes = made / divisor, sizes / divisor
        return made, sizes, count > 0
    start = {"mul": 1.0, "max": -np.inf, "min": np.inf}[kind]
    made = np.array(x) if own else np.full_like(x, start)
    {"mul": np.multiply, "max": np.maximum, "min": np.minimum}[kind].at(made, places, u)
    return made, np.abs(made), count > 0


def _compare(place: Place, name: str, rng: Rng, dtype: Any, longer: bool = False) -> None:
    many = _FUNCTIONS[name]
    count = _LONG if longer else int(rng.choice((1500, 2047, 3000, 4096, 5000)))
    width = int(rng.choice((1, 3, 16))) if many.wide and not longer else 1
    x = calor.asarray(_numbers(rng, many.kind, (_ROWS, width))).astype(dtype)
    u = calor.asarray(_numbers(rng, many.kind, (count, width))).astype(dtype)
    # Nearly all go to one row, and some to a second one.
    places = np.full(count, int(rng.integers(_ROWS)))
    places[rng.random(count) < rng.choice((0, 0.1))] = int(rng.integers(_ROWS))
    i = calor.asarray(places.astype(np.int32))
    function: Callable[..., Any] = many.function
    mapped = rng.random() < 0.3
    if mapped:
        function = calor.vmap(function, in_axes=(0, 0, None))
        pair = calor.stack([x, x]), calor.stack([u, calor.flip(u, axis=0)])
    x, u = pair if mapped else (x, u)
    jitted = calor.jit(function) if rng.random() < 0.5 else function
    made = place.call(jitted, x, u, i)
    assert made.dtype == dtype, f"{name}: the dtype of the result is {made.dtype}, not {dtype}"
    told = f"{name} of {count} updates of width {width} in {dtype}{', mapped' if mapped else ''}"
    found = _wide(made) if mapped else _wide(made)[None]
    tables, updates = (_wide(t) if mapped else _wide(t)[None] for t in (x, u))
    for got, table, given in zip(found, tables, updates, strict=True):
        want, sizes, there = _combined(many.kind, table, given, places, many.own)
        _bounded(got, want if many.wide else want[:, 0], sizes if many.wide else sizes[:, 0],
                 there if many.wide else there[:, 0], (many, count, dtype, told))  # fmt: skip


def _wide(made: Any) -> Array:
    wide: Array = made.astype(float32).numpy()
    return wide.astype(np.float64)


def _bounded(got: Array, want: Array, sizes: Array, there: Array, more: tuple[Any, ...]) -> None:
    many, count, dtype, told = more
    info = calor.finfo(dtype)
    exact = many.kind in ("max", "min")
    # Half a unit, a little more as it is that of a number beside, and the sum in float32.
    bound = float(info.eps) / 2 * np.abs(want) * 1.01 + (count + 2) * _ROUNDOFF * sizes
    bound = np.where(exact, 0, bound + float(info.smallest_normal) * float(info.eps))
    rows = there & np.ones_like(want, bool)
    distance = np.abs(got - np.where(rows, want, 0))
    wrong = np.argwhere(rows & ~(distance <= bound))
    if len(wrong):
        first = tuple(int(n) for n in wrong[0])
        raise AssertionError(
            f"{told}: at {first} is {got[first]}, not {want[first]} within {bound[first]}"
        )


def _run(name: str, place: Place) -> None:
    for number, dtype in enumerate((float16, bfloat16)):
        if place.plain.info.dtypes.get(dtype) and place.tries(number, 2):
            key = [place.seed, 641, [*_FUNCTIONS].index(name), number]
            _compare(place, name, np.random.default_rng(key), dtype)
            if _FUNCTIONS[name].kind == "mean":
                _compare(place, name, np.random.default_rng([*key, 1]), dtype, longer=True)


def many_updates() -> Iterator[Check]:
    """Yield a check of each function that adds up at indices, of what is installed."""
    for name, many in _FUNCTIONS.items():
        if find_spec(many.package) is None:
            continue
        yield Check(
            kind="accuracy",
            subject=f"many-updates-{name}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(_text, name),
            op="scatter_nd",
            dtypes=(float32,),
            looks=True,
        )


def _text(name: str) -> str:
    return f"{name}\n{written(_compare)}{written(_combined)}"
