"""Arguments that differ from drawn ones: in dtype, shape, numbers and options, also together."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import float8_e4m3fn

from ..functions.drawing import ASKS, Arguments, Rng, source
from ..language import Array
from .subjects import Subject

_KINDS: Final = (
    "float64", "float16", "int32", "int8", "uint8", "bool", "complex64", "uint32", "int64",
    "complex128", "int16",
)  # fmt: skip
_SPECIAL: Final = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 3e38, 1e5, -1e5,
    16777217.0, 2.0, 3.0, -2.0, 1e-5, 65520.0,
)  # fmt: skip
_WHOLE: Final = (0, 0, 1, -1, 2, 3, 7, -4, 100, 127)
_LONGEST: Final = 3000
# Calls from this number on, and from its multiples, are changed in one way first.
BAND: Final = 1000
_TAKES: Final = re.compile(r"[\"“`']([a-z_\-0-9]{3,20})[\"”`']")


def arguments(subject: Subject, number: int) -> Arguments | None:
    """Return the arguments of a numbered call, or None if none could be drawn.

    Parameters
    ----------
    subject : Subject
        What is called.
    number : int
        The number of the call.
    """
    ask = ("", *ASKS)[number % (len(ASKS) + 1)] if number % 2 else ""
    rng = source([crc32(subject.label.encode()), number], ask)
    try:
        given, options = subject.draw(rng)
    except (ValueError, IndexError, ZeroDivisionError, OverflowError):
        return None
    made = list(given), dict(options)
    if number >= BAND and not subject.pointwise:
        try:
            with np.errstate(all="ignore"):
                made = _BANDS[number // BAND % len(_BANDS)](subject, rng, *made)
        except (ValueError, IndexError, ZeroDivisionError, OverflowError, TypeError):
            return None
        if number // BAND == 1:
            return made
    count = int(rng.choice((0, 1, 2, 3), p=(0.25, 0.35, 0.25, 0.15)))
    for _ in range(min(count, 1) if subject.pointwise else count):
        # Points are of one shape, so that few programs are compiled.
        changes = (_dtype,) if subject.pointwise else _CHANGES
        change = changes[int(rng.integers(len(changes)))]
        try:
            with np.errstate(all="ignore"):
                made = change(subject, rng, *made)
        except (ValueError, IndexError, ZeroDivisionError, OverflowError, TypeError):
            continue
    return made


def every_array(given: Any) -> Iterator[Array]:
    """Yield the arrays among arguments, in lists and options too."""
    if isinstance(given, np.ndarray):
        yield given
    elif isinstance(given, list | tuple):
        for one in given:
            yield from every_array(one)
    elif isinstance(given, dict):
        yield from every_array(list(given.values()))


def _each(given: Any, change: Callable[[Array], Any]) -> Any:
    if isinstance(given, np.ndarray):
        return change(given)
    if isinstance(given, list | tuple):
        return type(given)(_each(one, change) for one in given)
    if isinstance(given, dict):
        return {name: _each(one, change) for name, one in given.items()}
    return given


def _floating(one: Array) -> bool:
    return one.dtype.kind in "fc" or one.dtype == calor.bfloat16.numpy


def _dtype(subject: Subject, rng: Rng, given: Any, options: Any) -> Arguments:
    """Give all floating arrays, or one array, another dtype."""
    kind: Any = str(rng.choice(_KINDS))
    if rng.random() < 0.15:
        kind = calor.bfloat16.numpy if rng.random() < 0.8 else float8_e4m3fn.numpy
    only = int(rng.integers(3)) if rng.random() < 0.35 else None
    place = -1

    def change(one: Array) -> Array:
        nonlocal place
        if not _floating(one) and only is None:
            return one
        place += 1
        if only not in (None, place):
            return one
        if np.dtype(kind).kind in "iu":
            one = np.clip(np.nan_to_num(one.real), -100 if np.dtype(kind).kind == "i" else 0, 100)
        made = (one if np.dtype(kind).kind == "c" else one.real).astype(kind)
        if np.dtype(kind).kind == "c":
            made = made + (1j * np.roll(made.real, 1)).astype(kind)
        return made

    return _each(given, change), _each(options, change)


def _numbers(subject: Subject, rng: Rng, given: Any, options: Any) -> Arguments:
    """Put special numbers into an array, or make its numbers equal, ordered or absolute."""
    place, chosen = -1, int(rng.integers(3))
    how = int(rng.integers(8))

    def change(one: Array) -> Array:
        nonlocal place
        place += 1
        if place != chosen or not one.size:
            return one
        if one.dtype.kind in "iu":
            some = rng.random(one.shape) < 0.4
            return np.where(some, rng.choice(_WHOLE, one.shape), one).astype(one.dtype)
        if not _floating(one):
            return one
        match how:
            case 0 | 1 | 2:
                some = rng.random(one.shape) < 0.3
                made = np.where(some, rng.choice(_SPECIAL, one.shape), one)
            case 3:
                made = np.abs(one)
            case 4:
                made = np.full(one.shape, one.flat[0])
            case 5:
                made = np.sort(one, -1) if one.ndim else one
            case 6:
                made = one * 10.0 ** float(rng.integers(-8, 9))
            case _:
                made = _unlike(one)
        return np.asarray(made, one.dtype)

    return _each(given, change), _each(options, change)


def _unlike(one: Array) -> Array:
    """Return members along the first axis of which one is 0, one equal, one large and one small."""
    made = np.array(one, copy=True)
    for n in range(len(made)) if made.ndim else ():
        match n % 5:
            case 1:
                made[n] = 0
            case 2:
                made[n] = made[n] * 1e4
            case 3:
                made[n] = made[0] * 0.5
            case 4:
                made[n] = np.nan
    return made


def _members(subject: Subject, rng: Rng, given: Any, options: Any) -> Arguments:
    """Stack unlike members of a batch in front of every array."""
    count = int(rng.integers(2, 5))

    def change(one: Array) -> Array:
        if not _floating(one):
            return np.stack([one] * count)
        line = np.stack([one] * count)
        turned = (
            np.swapaxes(one, -1, -2) if one.ndim > 1 and one.shape[-1] == one.shape[-2] else one
        )
        line[1] = turned
        if count > 2:
            line[2] = 0
        if count > 3:
            line[3] = one * one.dtype.type(1e3)
        return line[:: int(rng.choice((1, -1)))]

    if rng.random() < 0.5:
        return [_each(given[0], change), *given[1:]] if given else given, options
    return _each(given, change), options


def _shape(subject: Subject, rng: Rng, given: Any, options: Any) -> Arguments:
    """Make an axis short, empty or long, or add or take one."""
    how = int(rng.integers(7))
    alike, chosen, place = rng.random() < 0.4, int(rng.integers(3)), -1
    where = int(rng.integers(-3, 3))
    times = int(rng.choice((9, 33, 130, 700)))

    def change(one: Array) -> Array:
        nonlocal place
        place += 1
        if not alike and place != chosen:
            return one
        axis = where % one.ndim if one.ndim else 0
        match how:
            case 0:
                return one[(slice(None),) * axis + (slice(0, 1),)] if one.ndim else one
            case 1:
                return one[(slice(None),) * axis + (slice(0, 0),)] if one.ndim else one
            case 2:
                return one[None]
            case 3:
                return one[0]  # type: ignore[no-any-return]
            case 4:
                return one[..., None]
            case 5:
                return np.swapaxes(one, 0, -1)
        if one.size * times > _LONGEST or not one.ndim:
            return one
        return np.concatenate([one] * times, axis)

    return _each(given, change), _each(options, change)


def _other(subject: Subject, rng: Rng, given: Any, options: Any) -> Arguments:
    """Take an option from another draw."""
    others = subject.draw(source([int(rng.integers(1 << 30))]))
    if others[1] and rng.random() < 0.8:
        name = str(rng.choice(sorted(others[1])))
        return given, {**options, name: others[1][name]}
    places = [n for n, one in enumerate(others[0]) if not isinstance(one, np.ndarray)]
    if not places or len(others[0]) != len(given):
        return given, options
    n = int(rng.choice(places))
    return [*given[:n], others[0][n], *given[n + 1 :]], options


def _option(subject: Subject, rng: Rng, given: Any, options: Any) -> Arguments:
    """Change an option that is given, or give one that is not."""
    known = subject.parameters
    free = [p.name for p in list(known.values())[len(given) :] if p.kind is not p.VAR_KEYWORD
            and p.kind is not p.VAR_POSITIONAL and p.kind is not p.POSITIONAL_ONLY]  # fmt: skip
    names = sorted({*options, *free} - {"device", "out", "key", "generator"})
    if not names:
        return given, options
    name = str(rng.choice(names))
    default = known[name].default if name in known else inspect.Parameter.empty
    value = options.get(name, default)
    made = _changed(subject, rng, name, value, given)
    return given, {**options, name: made}


def _changed(subject: Subject, rng: Rng, name: str, value: Any, given: Any) -> Any:
    if name == "dtype":
        return str(rng.choice((*_KINDS, "float32", "bfloat16")))
    if isinstance(value, bool):
        return not value
    if name in ("axis", "dim", "axes"):
        return _axis(rng)
    if isinstance(value, int):
        return int(rng.choice((value + 1, value - 1, 0, 1, 2, 3, -1, 5)))
    if isinstance(value, float):
        return float(rng.choice((0.0, 1.0, -1.0, 0.5, 2.5, value * 2, -value, np.inf, 1e-6)))
    if isinstance(value, str):
        words = _TAKES.findall(inspect.getdoc(subject.function) or "") if subject.function else []
        return str(rng.choice([*sorted(set(words)), "nonsense"]))
    if isinstance(value, np.ndarray):
        return _numbers(subject, rng, [value], {})[0][0]
    if isinstance(value, list | tuple) and value and all(type(v) is int for v in value):
        return type(value)(int(v) + int(rng.choice((0, 0, 1, -1))) for v in value)
    return _of_none(subject, rng, name, given)


def _axis(rng: Rng) -> Any:
    if rng.random() < 0.5:
        return int(rng.integers(-3, 4))
    if rng.random() < 0.2:
        return None
    return tuple(
        int(n) for n in rng.permutation(3)[: int(rng.integers(0, 4))] - int(rng.integers(3))
    )


def _of_none(subject: Subject, rng: Rng, name: str, given: Any) -> Any:
    """Return an argument in the place of none: a number, or an array that fits the first."""
    first = next(every_array(given), None)
    kind = int(rng.integers(6))
    if name in ("where", "mask"):
        kind = 3
    if name in ("weight", "weights", "pos_weight", "bias", "scale"):
        kind = int(rng.choice((2, 4)))
    if kind == 0:
        return int(rng.integers(-2, 6))
    if kind == 1 or first is None:
        return float(rng.choice((0.0, 1.0, 0.5, -2.0, np.nan)))
    shape = first.shape
    if kind == 2:
        shape = shape[-1:] if rng.random() < 0.5 else shape[1:2]
    if kind == 3:
        return rng.random(shape) < 0.6
    if kind == 4 and rng.random() < 0.4:
        shape = tuple(1 if rng.random() < 0.5 else n for n in shape)
    made = rng.normal(size=shape) if rng.random() < 0.5 else rng.random(shape) + 0.1
    return np.asarray(made, np.float32)


def _fewer(subject: Subject, rng: Rng, given: Any, options: Any) -> Arguments:
    """Leave out an option, so its default holds."""
    if not options:
        return given, options
    name = str(rng.choice(sorted(options)))
    return given, {k: v for k, v in options.items() if k != name or k == "key"}


_CHANGES: Final = (_dtype, _dtype, _numbers, _numbers, _members, _shape, _shape, _other, _option,
                   _option, _option, _fewer)  # fmt: skip


def _long(subject: Subject, rng: Rng, given: Any, options: Any) -> Arguments:
    """Repeat all arrays along one axis, so that sums are long, mostly in half types."""
    every = list(every_array([given, options]))
    where = int(rng.choice((0, -1)))
    sizes = [one.shape[where] for one in every if one.ndim]
    times = -(-int(rng.choice((300, 2500))) // max(min(sizes, default=1), 1))
    half = (np.float16, calor.bfloat16.numpy, np.float32, np.float16)[int(rng.integers(4))]

    def change(one: Array) -> Array:
        if one.ndim and one.size * times <= 4 * _LONGEST:
            one = np.concatenate([one] * times, where)
        return one.astype(half) if one.dtype == np.float32 else one

    return _each(given, change), _each(options, change)


_BANDS: Final = (_members, _long, _members, _option, _dtype)
