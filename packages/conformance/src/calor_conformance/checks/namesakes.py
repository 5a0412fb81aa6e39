"""Functions that NumPy has by the same name, called as NumPy calls them, at drawn arguments.

Functions made of several ops fail where these are right: an axis counted from the wrong end, an end
that is left out, a default that was changed. Each way to call a function draws its arguments, so a
name is all that a new function needs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, int32, int64

from ..rows.judging import numpy_of, put
from .base import Array, Check, Place

CONTRACT: Final = "a function has NumPy's meaning at every argument that both take"
_TURNS, _NEAR = 8, 2e-5
Rng = np.random.Generator
Numbers = Callable[[Rng, tuple[int, ...]], Array]
Arguments = tuple[list[Any], dict[str, Any]]


def _shape(rng: Rng, least: int = 0, most: int = 3) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.choice((1, 2, 3, 5), rng.integers(least, most + 1)))


def _floats(rng: Rng, shape: tuple[int, ...]) -> Array:
    """Return numbers of which some are equal and some are whole."""
    whole = rng.integers(-3, 4, shape)
    made = np.where(rng.random(shape) < 0.3, whole, rng.normal(size=shape) * 3)
    return np.asarray(made, np.float32)


def _whole(rng: Rng, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.integers(-9, 10, shape), np.int32)


def _counts(rng: Rng, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.integers(0, 7, shape), np.int32)


def _numbers(rng: Rng, shape: tuple[int, ...]) -> Array:
    return (_floats if rng.random() < 0.7 else _whole)(rng, shape)


def _different(rng: Rng, shape: tuple[int, ...]) -> Array:
    size = int(np.prod(shape))
    return np.asarray(rng.permutation(size).reshape(shape) - size // 2, np.float32)


def _axis(rng: Rng, rank: int) -> int:
    return int(rng.integers(-rank, rank))


def _coin(rng: Rng) -> bool:
    return bool(rng.random() < 0.5)


def _fitting(rng: Rng, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape that broadcasts to another."""
    kept = tuple(n if rng.random() < 0.7 else 1 for n in shape)
    return kept[int(rng.integers(0, len(kept) + 1)) if rng.random() < 0.3 else 0 :]


def _of_one(numbers: Numbers, least: int = 0) -> Callable[[Rng], Arguments]:
    return lambda rng: ([numbers(rng, _shape(rng, least))], {})


def _of_two(numbers: Numbers) -> Callable[[Rng], Arguments]:
    def draw(rng: Rng) -> Arguments:
        shape = _shape(rng)
        given = [numbers(rng, shape), numbers(rng, _fitting(rng, shape))]
        return given if _coin(rng) else given[::-1], {}

    return draw


def _along(numbers: Numbers, *, every: bool = True) -> Callable[[Rng], Arguments]:
    """Return what draws a tensor and an axis, or none if ``every`` allows that."""

    def draw(rng: Rng) -> Arguments:
        shape = _shape(rng, 1)
        axis = None if every and rng.random() < 0.25 else _axis(rng, len(shape))
        return [numbers(rng, shape)], {"axis": axis}

    return draw


def _reducing(rng: Rng) -> Arguments:
    given, options = _along(_floats)(rng)
    rank = given[0].ndim
    if rank > 1 and rng.random() < 0.3:
        options["axis"] = tuple(int(a) for a in rng.permutation(rank)[:2] - rank)
    return given, {**options, "keepdims": _coin(rng)}


def _quantile(rng: Rng) -> Arguments:
    given, options = _along(_floats)(rng)
    levels = np.round(rng.random(int(rng.integers(1, 4))), 2)
    return [*given, levels.astype(np.float32) if _coin(rng) else float(levels[0])], options


def _two_axes(rng: Rng) -> Arguments:
    shape = _shape(rng, 2)
    return [_numbers(rng, shape), _axis(rng, len(shape)), _axis(rng, len(shape))], {}


def _orders(count: int) -> Callable[[Rng], Arguments]:
    """Return what draws a tensor, and so many orders of some of its axes."""

    def draw(rng: Rng) -> Arguments:
        shape = _shape(rng, 3)
        taken = len(shape) if count == 1 else int(rng.integers(1, len(shape) + 1))
        orders = [tuple(rng.permutation(len(shape))[:taken].tolist()) for _ in range(count)]
        return [_numbers(rng, shape), *orders], {}

    return draw


def _with_count(low: int, high: int) -> Callable[[Rng], Arguments]:
    """Return what draws a tensor, a count and an axis."""

    def draw(rng: Rng) -> Arguments:
        given, options = _along(_numbers)(rng)
        return [*given, int(rng.integers(low, high))], options

    return draw


def _tiled(rng: Rng) -> Arguments:
    return [_numbers(rng, _shape(rng)), tuple(rng.integers(1, 4, rng.integers(1, 4)).tolist())], {}


def _with_ones(rng: Rng) -> Arguments:
    shape = (*_shape(rng, 0, 2), 1, *_shape(rng, 0, 1))
    place = int(rng.choice([a for a, n in enumerate(shape) if n == 1]))
    return [_numbers(rng, shape)], {"axis": place - (len(shape) if _coin(rng) else 0)}


def _without(rng: Rng) -> Arguments:
    shape = _shape(rng)
    return [_numbers(rng, shape)], {"axis": _axis(rng, len(shape) + 1)}


def _triangle(rng: Rng) -> Arguments:
    return [_numbers(rng, _shape(rng, 2))], {"k": int(rng.integers(-3, 4))}


def _joined(rng: Rng) -> Arguments:
    shape = _shape(rng, 1)
    parts = [_numbers(rng, shape) for _ in range(int(rng.integers(1, 4)))]
    return [parts], {"axis": _axis(rng, len(shape))}


def _lines(rng: Rng) -> Arguments:
    return [_numbers(rng, (int(n),)) for n in rng.integers(1, 5, rng.integers(1, 4))], {
        "indexing": str(rng.choice(("xy", "ij")))
    }


def _some_shapes(rng: Rng) -> Arguments:
    shape = _shape(rng)
    return [_numbers(rng, _fitting(rng, shape)) for _ in range(2)] + [_numbers(rng, shape)], {}


def _range(rng: Rng) -> Arguments:
    """Return ends of which steps reach or miss the second."""
    start, sign = int(rng.integers(-4, 5)), int(rng.choice((-1, 1)))
    if _coin(rng):
        return [start, start + int(rng.integers(-7, 8)), sign * int(rng.integers(1, 4))], {}
    step = sign * float(rng.choice((0.25, 0.75, 1.5)))
    return [float(start), start + step * float(rng.choice((0.5, 3.0, 3.5, 4.0))), step], {}


def _spaced(rng: Rng) -> Arguments:
    ends = [float(n) for n in rng.integers(-4, 5, 2)]
    return ends, {"num": int(rng.integers(1, 8)), "endpoint": _coin(rng)}


def _grid(rng: Rng) -> Arguments:
    return [int(n) for n in rng.integers(1, 6, 2)], {"k": int(rng.integers(-3, 4))}


def _sorted_places(rng: Rng) -> Arguments:
    line = np.sort(_floats(rng, (int(rng.integers(1, 9)),)))
    asked = np.concatenate([line[:2], _floats(rng, (3,))])
    return [line, asked], {"side": str(rng.choice(("left", "right")))}


def _members(rng: Rng) -> Arguments:
    return [_counts(rng, _shape(rng)), _counts(rng, _shape(rng, 1))], {"invert": _coin(rng)}


def _taken(rng: Rng) -> Arguments:
    given, options = _along(_numbers, every=False)(rng)
    n = given[0].shape[options["axis"]]
    return [*given, np.asarray(rng.integers(-n, n, _shape(rng, 1, 1)))], options


def _taken_along(rng: Rng) -> Arguments:
    given, options = _along(_numbers, every=False)(rng)
    wanted, n = list(given[0].shape), given[0].shape[options["axis"]]
    wanted[options["axis"]] = int(rng.integers(1, 4))
    return [*given, np.asarray(rng.integers(-n, n, wanted))], options


def _clipped(rng: Rng) -> Arguments:
    shape = _shape(rng)
    low = _floats(rng, _fitting(rng, shape))
    return [_floats(rng, shape), low, low + np.float32(1.5)], {}


def _chosen(rng: Rng) -> Arguments:
    given, _ = _of_two(_floats)(rng)
    return [_floats(rng, _fitting(rng, given[0].shape)) > 0, *given], {}


def _vectors(rng: Rng) -> Arguments:
    """Return tensors of one length along an axis, of which one may have fewer axes."""
    shape = _shape(rng, 1)
    n = shape[-1]
    return [_floats(rng, shape), _floats(rng, (*_fitting(rng, shape[:-1]), n))], {}


def _differences(rng: Rng) -> Arguments:
    given, options = _along(_numbers, every=False)(rng)
    return given, {**options, "n": int(rng.integers(0, 3))}


def _padded(rng: Rng) -> Arguments:
    shape = _shape(rng, 1)
    return [
        _numbers(rng, shape),
        [tuple(p) for p in rng.integers(0, 3, (len(shape), 2)).tolist()],
    ], {}


_INTEGERS: Final = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
)  # fmt: skip
_INEXACT: Final = ("bool", "float16", "float32", "float64", "complex64", "complex128")
_NUMBERS: Final = (True, 3, 2.5, 1j)
_KINDS: Final = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def _promotion(place: Place) -> None:
    """Every pair of dtypes, and every dtype beside a Python number of its kind or a lower one."""
    for names in (_INTEGERS, _INEXACT):
        # The size of an integer beside a floating number counts for NumPy alone.
        for a, b in product(names, repeat=2):
            one, other, want = np.dtype(a), np.dtype(b), np.result_type(a, b)
            if want.kind == "f" and one.kind in "iu":
                continue  # uint64 and a signed integer have no common integer.
            made = calor.result_type(calor.dtypes.as_dtype(one), calor.dtypes.as_dtype(other))
            assert made.numpy == want, f"{a} and {b}: {made.name}, not {want}"
    for name, number in product((*_INTEGERS, *_INEXACT), _NUMBERS):
        if _KINDS[np.dtype(name).kind] < _KINDS[np.asarray(number).dtype.kind]:
            continue  # It brings the default dtype of its kind.
        made = calor.result_type(calor.dtypes.as_dtype(np.dtype(name)), number)
        assert made.name == name, f"{name} and {number!r}: {made.name}"


def _key(rng: Rng, shape: tuple[int, ...]) -> Any:
    """Return an index of some axes: numbers, slices, new axes, an ellipsis, places or a mask."""
    if shape and rng.random() < 0.15:
        return rng.random(shape[: int(rng.integers(1, len(shape) + 1))]) < 0.5
    items: list[Any] = []
    places = _coin(rng)
    lines = _shape(rng, 1, 2)
    for n in shape[: int(rng.integers(0, len(shape) + 1))]:
        kind = rng.random()
        if places and kind < 0.6:
            items.append(np.asarray(rng.integers(-n, n, _fitting(rng, lines))))
        elif kind < 0.3:
            items.append(_axis(rng, n))
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
    shape = _shape(rng, 1)
    return [_numbers(rng, shape), _key(rng, shape)], {}


def _scattered(rng: Rng) -> Arguments:
    given, options = _taken_along(rng)
    update = str(rng.choice(("assign", "add", "mul", "max", "min", "mean")))
    if update == "assign":
        # Of two numbers for one place, either may be left.
        axis, rank = options["axis"], given[0].ndim
        chosen = rng.permutation(given[0].shape[axis])[: given[1].shape[axis]]
        line = chosen.reshape([-1 if a == axis % rank else 1 for a in range(rank)])
        given[1] = line + np.zeros_like(np.take(given[0], chosen, axis), np.int64)
    values = _floats(rng, given[1].shape)
    every = {**options, "update": update, "include_self": update == "assign" or _coin(rng)}
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
_WAYS: Final[tuple[tuple[str, Callable[[Rng], Arguments]], ...]] = (
    ("abs ceil expm1 floor isfinite isinf isnan logical_not nan_to_num", _of_one(_floats)),
    ("negative positive round sign signbit sinc sqrt square trunc", _of_one(_floats)),
    ("ones_like zeros_like", _of_one(_floats)),
    ("exp cos tanh bitwise_invert", _of_one(_whole)),
    ("add copysign equal fmod greater heaviside hypot isclose less", _of_two(_floats)),
    ("logaddexp logaddexp2 logical_and logical_or logical_xor", _of_two(_floats)),
    ("maximum minimum multiply not_equal subtract", _of_two(_floats)),
    ("bitwise_and bitwise_or bitwise_xor divide floor_divide remainder", _of_two(_whole)),
    ("all any count_nonzero max mean median min prod std sum var", _reducing),
    ("argmax argmin", _along(_floats)), ("flip", _along(_numbers)),
    ("sort cumulative_sum cumulative_prod unstack", _along(_floats, every=False)),
    ("argsort", _along(_different, every=False)),
    ("quantile", _quantile),
    ("swapaxes", _two_axes), ("moveaxis", _orders(2)), ("permute_dims", _orders(1)),
    ("matrix_transpose", _of_one(_numbers, 2)),
    ("roll", _with_count(-7, 8)), ("repeat", _with_count(0, 4)), ("tile", _tiled),
    ("squeeze", _with_ones), ("expand_dims", _without), ("tril triu", _triangle),
    ("concat stack", _joined), ("meshgrid", _lines), ("broadcast_arrays", _some_shapes),
    ("arange", _range), ("linspace", _spaced), ("eye", _grid),
    ("nonzero argwhere", _of_one(_counts, 1)),
    ("unique_counts unique_inverse unique_all", _of_one(_counts)),
    ("searchsorted", _sorted_places), ("isin", _members),
    ("bincount", lambda rng: ([_counts(rng, _shape(rng, 1, 1))], {"minlength": 5})),
    ("take", _taken), ("take_along_axis", _taken_along), ("clip", _clipped), ("where", _chosen),
    ("vecdot", _vectors), ("diff", _differences), ("pad", _padded),
    ("reading writing", _indexed), ("scatter_along_axis", _scattered),
)  # fmt: skip
# What calor and NumPy do by other means than a function of the name.
_OURS: Final = {"reading": _reading, "writing": _writing}
_THEIRS: Final = {**_OURS, "scatter_along_axis": _scatter}


def _tensors(given: Any) -> Any:
    """Return arguments with arrays, also those of a list or an index, made tensors."""
    if isinstance(given, list | tuple):
        return type(given)(_tensors(one) for one in given)
    return put([given])[0] if isinstance(given, np.ndarray) else given


def _widened(given: Any) -> Any:
    if isinstance(given, list):
        return [_widened(one) for one in given]
    narrow = isinstance(given, np.ndarray) and given.dtype == np.float32
    return given.astype(np.float64) if narrow else given


def _parts(made: Any) -> list[Array]:
    """Return the arrays of NumPy's result in their order."""
    if isinstance(made, tuple | list):
        return [part for one in made for part in _parts(one)]
    return [np.asarray(made)]


def _compare(got: Array, want: Array, what: str) -> None:
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    kind, wanted = ("i" if t.dtype.kind == "u" else t.dtype.kind for t in (got, want))
    assert kind == wanted, f"{what}: dtype {got.dtype}, not {want.dtype}"
    near: Any = False
    with np.errstate(all="ignore"):
        if kind in "fc":
            near = np.abs(got - want) <= _NEAR * np.maximum(np.abs(want), 1)
    wrong = ~(near | (got == want) | ((got != got) & (want != want)))
    if wrong.any():
        at = np.unravel_index(np.argmax(wrong), want.shape)
        raise AssertionError(f"{what}: {got[at]!r} at {tuple(map(int, at))}, not {want[at]!r}")


def _run(name: str, draw: Callable[[Rng], Arguments], place: Place) -> None:
    ours: Any = _OURS.get(name) or getattr(calor, name)
    theirs: Any = _THEIRS.get(name) or getattr(np, name)
    for turn in range(_TURNS):
        given, options = draw(np.random.default_rng([place.seed, crc32(name.encode()), turn]))
        what = f"{name}({', '.join(map(repr, given))}, {options})"
        with np.errstate(all="ignore"):
            want = theirs(*map(_widened, given), **options)
        made = ours(*map(_tensors, given), **options)
        got, wants = numpy_of(made), _parts(want)
        assert len(got) == len(wants), f"{what}: {len(got)} results, not {len(wants)}"
        for a, b in zip(got, wants, strict=True):
            _compare(a, b, what)


def namesakes() -> Iterator[Check]:
    """Yield a check of each function that NumPy has by the same name, and of promotion."""
    yield Check(
        kind="functions",
        subject="result_type",
        tier="full",
        contract="the common dtype of two dtypes, and of a dtype and a number, is NumPy's",
        run=_promotion,
        text=partial(inspect.getsource, _promotion),
    )
    for names, draw in _WAYS:
        for name in names.split():
            yield Check(
                kind="functions",
                subject=name,
                tier="full",
                contract=CONTRACT,
                run=partial(_run, name, draw),
                text=partial(inspect.getsource, draw),
                dtypes=(float32, int32, int64, bool_),
                looks=True,
            )
