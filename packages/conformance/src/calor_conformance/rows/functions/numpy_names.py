"""Functions that NumPy has by the same name: how they are called, at drawn arguments.

A name is all that a further function needs, if another one is called as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..language import Array
from .definitions import quantile
from .drawing import (
    Arguments,
    Rng,
    a_shape,
    along,
    an_axis,
    coin,
    counts,
    different,
    fitting,
    floats,
    numbers,
    of_one,
    of_two,
    whole,
)


def _reducing(rng: Rng) -> Arguments:
    given, options = along(floats)(rng)
    rank = given[0].ndim
    if rank > 1 and rng.random() < 0.3:
        options["axis"] = tuple(int(a) for a in rng.permutation(rank)[:2] - rank)
    return given, {**options, "keepdims": coin(rng)}


def _quantile(rng: Rng) -> Arguments:
    given, options = along(floats)(rng)
    levels = np.round(rng.random(int(rng.integers(1, 4))), 2)
    return [*given, levels.astype(np.float32) if coin(rng) else float(levels[0])], options


def _two_axes(rng: Rng) -> Arguments:
    shape = a_shape(rng, 2)
    return [numbers(rng, shape), an_axis(rng, len(shape)), an_axis(rng, len(shape))], {}


def _orders(count: int) -> Callable[[Rng], Arguments]:
    """Return what draws a tensor, and so many orders of some of its axes."""

    def draw(rng: Rng) -> Arguments:
        shape = a_shape(rng, 3)
        taken = len(shape) if count == 1 else int(rng.integers(1, len(shape) + 1))
        orders = [tuple(rng.permutation(len(shape))[:taken].tolist()) for _ in range(count)]
        return [numbers(rng, shape), *orders], {}

    return draw


def _with_count(low: int, high: int) -> Callable[[Rng], Arguments]:
    """Return what draws a tensor, a count and an axis."""

    def draw(rng: Rng) -> Arguments:
        given, options = along(numbers)(rng)
        return [*given, int(rng.integers(low, high))], options

    return draw


def _tiled(rng: Rng) -> Arguments:
    return [numbers(rng, a_shape(rng)), tuple(rng.integers(1, 4, rng.integers(1, 4)).tolist())], {}


def _with_ones(rng: Rng) -> Arguments:
    shape = (*a_shape(rng, 0, 2), 1, *a_shape(rng, 0, 1))
    place = int(rng.choice([a for a, n in enumerate(shape) if n == 1]))
    return [numbers(rng, shape)], {"axis": place - (len(shape) if coin(rng) else 0)}


def _without(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    return [numbers(rng, shape)], {"axis": an_axis(rng, len(shape) + 1)}


def _triangle(rng: Rng) -> Arguments:
    return [numbers(rng, a_shape(rng, 2))], {"k": int(rng.integers(-3, 4))}


def _joined(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    parts = [numbers(rng, shape) for _ in range(int(rng.integers(1, 4)))]
    return [parts], {"axis": an_axis(rng, len(shape))}


def _lines(rng: Rng) -> Arguments:
    return [numbers(rng, (int(n),)) for n in rng.integers(1, 5, rng.integers(1, 4))], {
        "indexing": str(rng.choice(("xy", "ij")))
    }


def _some_shapes(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    return [numbers(rng, fitting(rng, shape)) for _ in range(2)] + [numbers(rng, shape)], {}


def _range(rng: Rng) -> Arguments:
    """Return ends of which steps reach or miss the second."""
    start, sign = int(rng.integers(-4, 5)), int(rng.choice((-1, 1)))
    if coin(rng):
        return [start, start + int(rng.integers(-7, 8)), sign * int(rng.integers(1, 4))], {}
    step = sign * float(rng.choice((0.25, 0.75, 1.5)))
    return [float(start), start + step * float(rng.choice((0.5, 3.0, 3.5, 4.0))), step], {}


def _spaced(rng: Rng) -> Arguments:
    ends = [float(n) for n in rng.integers(-4, 5, 2)]
    return ends, {"num": int(rng.integers(1, 8)), "endpoint": coin(rng)}


def _grid(rng: Rng) -> Arguments:
    return [int(n) for n in rng.integers(1, 6, 2)], {"k": int(rng.integers(-3, 4))}


def _sorted_places(rng: Rng) -> Arguments:
    line = np.sort(floats(rng, (int(rng.integers(1, 9)),)))
    asked = np.concatenate([line[:2], floats(rng, (3,))])
    return [line, asked], {"side": str(rng.choice(("left", "right")))}


def _members(rng: Rng) -> Arguments:
    return [counts(rng, a_shape(rng)), counts(rng, a_shape(rng, 1))], {"invert": coin(rng)}


def _taken(rng: Rng) -> Arguments:
    given, options = along(numbers, every=False)(rng)
    n = given[0].shape[options["axis"]]
    return [*given, np.asarray(rng.integers(-n, n, a_shape(rng, 1, 1)))], options


def _taken_along(rng: Rng) -> Arguments:
    given, options = along(numbers, every=False)(rng)
    wanted, n = list(given[0].shape), given[0].shape[options["axis"]]
    wanted[options["axis"]] = int(rng.integers(1, 4))
    return [*given, np.asarray(rng.integers(-n, n, wanted))], options


def _clipped(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    low = floats(rng, fitting(rng, shape))
    return [floats(rng, shape), low, low + np.float32(1.5)], {}


def _chosen(rng: Rng) -> Arguments:
    given, _ = of_two(floats)(rng)
    return [floats(rng, fitting(rng, given[0].shape)) > 0, *given], {}


def _vectors(rng: Rng) -> Arguments:
    """Return tensors of one length along an axis, of which one may have fewer axes."""
    shape = a_shape(rng, 1)
    n = shape[-1]
    return [floats(rng, shape), floats(rng, (*fitting(rng, shape[:-1]), n))], {}


def _differences(rng: Rng) -> Arguments:
    given, options = along(numbers, every=False)(rng)
    return given, {**options, "n": int(rng.integers(0, 3))}


def _padded(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    return [
        numbers(rng, shape),
        [tuple(p) for p in rng.integers(0, 3, (len(shape), 2)).tolist()],
    ], {}


def _key(rng: Rng, shape: tuple[int, ...]) -> Any:
    """Return an index of some axes: numbers, slices, new axes, an ellipsis, places or a mask."""
    if shape and rng.random() < 0.15:
        return rng.random(shape[: int(rng.integers(1, len(shape) + 1))]) < 0.5
    items: list[Any] = []
    places = coin(rng)
    lines = a_shape(rng, 1, 2)
    for n in shape[: int(rng.integers(0, len(shape) + 1))]:
        kind = rng.random()
        if places and kind < 0.6:
            items.append(np.asarray(rng.integers(-n, n, fitting(rng, lines))))
        elif kind < 0.3:
            items.append(an_axis(rng, n))
        else:
            ends = rng.integers(-n - 1, n + 2, 2).tolist()
            first, last = (None if rng.random() < 0.3 else k for k in ends)
            items.append(slice(first, last, int(rng.choice((-2, -1, 1, 1, 2)))))
    if rng.random() < 0.3:
        items.insert(int(rng.integers(0, len(items) + 1)), None)
    if rng.random() < 0.3:
        items.append(Ellipsis)
    return tuple(items)


def _indexed(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    return [numbers(rng, shape), _key(rng, shape)], {}


def _scattered(rng: Rng) -> Arguments:
    given, options = _taken_along(rng)
    update = str(rng.choice(("assign", "add", "mul", "max", "min", "mean")))
    if update == "assign":
        # Of two numbers for one place, either may be left.
        axis, rank = options["axis"], given[0].ndim
        chosen = rng.permutation(given[0].shape[axis])[: given[1].shape[axis]]
        line = chosen.reshape([-1 if a == axis % rank else 1 for a in range(rank)])
        given[1] = line + np.zeros_like(np.take(given[0], chosen, axis), np.int64)
    values = floats(rng, given[1].shape)
    every = {**options, "update": update, "include_self": update == "assign" or coin(rng)}
    return [given[0].astype(np.float32), given[1], values], every


def _scatter(
    x: Array, places: Array, values: Array, *, axis: int, update: str, include_self: bool
) -> Array:
    """Return x with values at places along an axis, one after another."""
    lists: dict[tuple[int, ...], list[Any]] = {}
    for at in np.ndindex(places.shape):
        to = list(at)
        to[axis] = int(places[at]) % x.shape[axis]
        lists.setdefault(tuple(to), [x[tuple(to)]] if include_self else []).append(values[at])
    made = x.copy()
    meaning: dict[str, Callable[[Any], Any]] = {
        "assign": lambda found: found[-1], "add": np.sum, "mul": np.prod, "max": np.max,
        "min": np.min, "mean": np.mean,
    }  # fmt: skip
    for place, found in lists.items():
        made[place] = meaning[update](found)
    return made


def _reading(x: Any, key: Any) -> Any:
    return x[key]


def _writing(x: Any, key: Any) -> Any:
    made = x.copy()
    made[key] = 7
    return made


# Ways to call functions, and the names of those that are called so.
WAYS: Final[tuple[tuple[str, Callable[[Rng], Arguments]], ...]] = (
    ("abs ceil expm1 floor isfinite isinf isnan logical_not nan_to_num", of_one(floats)),
    ("negative positive round sign signbit sinc sqrt square trunc", of_one(floats)),
    ("ones_like zeros_like", of_one(floats)),
    ("exp cos tanh bitwise_invert", of_one(whole)),
    ("add copysign equal fmod greater heaviside hypot isclose less", of_two(floats)),
    ("logaddexp logaddexp2 logical_and logical_or logical_xor", of_two(floats)),
    ("maximum minimum multiply not_equal subtract", of_two(floats)),
    ("bitwise_and bitwise_or bitwise_xor divide floor_divide remainder", of_two(whole)),
    ("all any count_nonzero max mean median min prod std sum var", _reducing),
    ("argmax argmin", along(floats)), ("flip", along(numbers)),
    ("sort cumulative_sum cumulative_prod unstack", along(floats, every=False)),
    ("argsort", along(different, every=False)),
    ("quantile", _quantile),
    ("swapaxes", _two_axes), ("moveaxis", _orders(2)), ("permute_dims", _orders(1)),
    ("matrix_transpose", of_one(numbers, 2)),
    ("roll", _with_count(-7, 8)), ("repeat", _with_count(0, 4)), ("tile", _tiled),
    ("squeeze", _with_ones), ("expand_dims", _without), ("tril triu", _triangle),
    ("concat stack", _joined), ("meshgrid", _lines), ("broadcast_arrays", _some_shapes),
    ("arange", _range), ("linspace", _spaced), ("eye", _grid),
    ("nonzero argwhere", of_one(counts, 1)),
    ("unique_counts unique_inverse unique_all", of_one(counts)),
    ("searchsorted", _sorted_places), ("isin", _members),
    ("bincount", lambda rng: ([counts(rng, a_shape(rng, 1, 1))], {"minlength": 5})),
    ("take", _taken), ("take_along_axis", _taken_along), ("clip", _clipped), ("where", _chosen),
    ("vecdot", _vectors), ("diff", _differences), ("pad", _padded),
    ("reading writing", _indexed), ("scatter_along_axis", _scattered),
)  # fmt: skip
# What calor and NumPy do by other means than a function of the name.
OURS: Final[dict[str, Callable[..., Any]]] = {"reading": _reading, "writing": _writing}
THEIRS: Final[dict[str, Callable[..., Any]]] = {
    **OURS, "scatter_along_axis": _scatter, "quantile": quantile,
    "nan_to_num": lambda x: np.nan_to_num(x.astype(np.float32) if x.dtype == float else x),
}  # fmt: skip
