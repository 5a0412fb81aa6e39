"""Calls that differ from a right one in a single argument, from far below what it may be to above.

Each argument of a function has a ladder of others: whole numbers about 0, 1 and the sizes of the
operands, numbers about the ends of what shares and scales may be, other ranks, empty axes, dtypes,
names that do not exist, sequences that are too short or too long. What a call gives is told as
text: the kinds and shapes of its results, or the error with all that it says.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.errors import CalorError, UnsupportedError

from ..functions.comparing import quiet, tensors
from ..functions.drawing import Arguments, Rng, source
from ..functions.printed import GIVEN
from ..language import Array
from .subjects import Subject, subjects

Key = int | str
_WHOLE: Final = (-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 99)
_REAL: Final = (-1.5, -0.01, 0.0, 0.01, 0.5, 0.99, 1.0, 1.01, 2.5, float("inf"), float("nan"))
_TAKEN: Final = frozenset(("device", "out", "key", "generator", "dtype", "self", "init"))
# Draws among which the best right call is chosen, and all while there is none.
_DRAWS: Final = 8
_MOST: Final = 64
_ADDRESS: Final = re.compile(r"0x[0-9a-f]{6,}")
_LONGEST: Final = 240
# The user's line, which an error of a computed result tells.
_PLACE: Final = re.compile(r"( of \w+\(\))?; recorded at .*$")


def _drawn_of_class(kind: Any, rng: Rng) -> Arguments:
    """Return what a constructor needs, by the names of its parameters."""
    every = inspect.signature(kind).parameters
    needed = [p for p in every.values() if p.default is p.empty
              and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]  # fmt: skip
    if not all(p.name in GIVEN or p.name == "params" for p in needed):
        raise ValueError(f"{kind} needs what is not known here")
    if needed and needed[0].name == "params":
        return [[np.ones((2, 3), np.float32)]], {}
    return [], {p.name: GIVEN[p.name] for p in needed}


def _classes(package: str) -> Iterator[Subject]:
    try:
        module = import_module(package)
    except ModuleNotFoundError:
        return
    for name in sorted(module.__all__):
        kind = getattr(module, name)
        if inspect.isclass(kind) and not issubclass(kind, BaseException):
            draw = partial(_drawn_of_class, kind)
            yield Subject(f"{package}.{name}-as made", draw, kind, kind)


@cache
def spoilable() -> dict[str, Subject]:
    """Return the functions, methods and constructors whose arguments are known, by label."""
    made: dict[str, Subject] = {}
    for label, one in subjects().items():
        # Methods call functions, and a function that is called in several ways is one.
        own = one.function is not None and not one.pointwise and "calor.Tensor." not in label
        if own and all(one.function is not other.function for other in made.values()):
            made[label] = one
    for package in ("calor_nn", "calor_train", "calor_train.optimizers"):
        made |= {one.label: one for one in _classes(package)}
    module: Any = None
    for label, one in subjects().items():
        if label.startswith("calor_distributions."):
            module = module or import_module("calor_distributions")
            kind = getattr(module, label.split(".", 1)[1].partition("-")[0])
            made[label] = Subject(label, one.draw, kind, kind)
    return made


@cache
def base(label: str) -> Arguments | None:
    """Return the arguments of a right call of a function: with operands that have elements."""
    subject = spoilable()[label]
    found = None
    for number in range(_MOST):
        if found is not None and number >= _DRAWS:
            break
        rng = source([crc32(label.encode()), number, 7])
        try:
            given = subject.draw(rng)
        except (ValueError, IndexError, ZeroDivisionError, OverflowError):
            continue
        arrays = [a for a in given[0] if isinstance(a, np.ndarray)]
        if not all(a.size > 1 for a in arrays[:1]) or not told(subject, given).startswith("="):
            continue
        found = found or given
        if all(a.ndim > 1 for a in arrays[:1]):
            return given
    return found


def told(subject: Subject, given: Arguments) -> str:
    """Return what a call gives, as text that begins with "=", or the error that it raises.

    Raises
    ------
    UnsupportedError
        If the device has not the dtypes or operations.
    """
    positional = [tensors(one) for one in given[0]]
    options = {name: tensors(one) for name, one in given[1].items()}
    calor.random.seed(5)
    try:
        with quiet():
            made = subject.call(*positional, **options)
            heads = ", ".join(_heads(made))
            # An error of work on which no result depends comes only here.
            calor.synchronize()
            return f"= {heads}"
    except UnsupportedError:
        raise
    except (CalorError, TypeError, ValueError, IndexError, NotImplementedError, OverflowError,
            ZeroDivisionError, AttributeError, KeyError, AssertionError) as error:  # fmt: skip
        first = _PLACE.sub("", str(error).partition("\n")[0])
        return f"{type(error).__name__}: {_ADDRESS.sub('0x', first)[:_LONGEST]}"


def _heads(made: Any) -> Iterator[str]:
    for one in calor.tree.leaves(made):
        if isinstance(one, calor.Tensor):
            one.numpy()
            yield f"{one.dtype.name}{one.shape}"
        else:
            yield repr(one) if isinstance(one, bool | int | str) else type(one).__name__


@cache
def ladders(label: str) -> dict[Key, list[tuple[str, Any]]]:
    """Return other values of each argument, in order, with what tells them apart."""
    given = base(label)
    assert given is not None, f"{label} has no right call"
    subject = spoilable()[label]
    sizes = {n for a in _arrays(given) for n in a.shape if n < 60}
    named: dict[Key, Any] = dict(enumerate(given[0]))
    named.update(given[1])
    for place, p in enumerate(subject.parameters.values()):
        late = p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) and place >= len(given[0])
        if late and p.name not in named and p.name not in _TAKEN and p.default is not p.empty:
            named[p.name] = p.default
    made = {key: list(_others(value, sizes)) for key, value in named.items()
            if not (isinstance(key, str) and key in _TAKEN)}  # fmt: skip
    return {key: steps for key, steps in made.items() if steps}


def _arrays(given: Any) -> Iterator[Array]:
    for one in (*given[0], *given[1].values()):
        if isinstance(one, np.ndarray):
            yield one


def _others(value: Any, sizes: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield other values of an argument."""
    if isinstance(value, np.ndarray):
        yield from _other_arrays(value)
    elif isinstance(value, bool):
        yield f"{not value}", not value
    elif isinstance(value, int):
        near = {n + d for n in sizes for d in (-1, 0, 1)} | {-n - d for n in sizes for d in (0, 1)}
        for one in sorted({*_WHOLE, *near, value - 1, value + 1}):
            yield f"{one}", one
        yield "1.5", 1.5
    elif isinstance(value, float):
        for real in _REAL:
            yield f"{real}", real
    elif isinstance(value, str):
        yield "'nonsense'", "nonsense"
        yield "3", 3
    elif isinstance(value, tuple | list) and value and all(type(v) is int for v in value):
        yield from _other_sequences(value, type(value))
    elif value is None:
        for whole in (-3, -1, 0, 1, 2, 3, 99):
            yield f"{whole}", whole
        yield "0.5", 0.5
        yield "(0, 0)", (0, 0)
        yield "'nonsense'", "nonsense"
        yield "3 numbers", np.array([0.5, 0.25, 0.125], np.float32)


def _other_sequences(value: Any, kind: Callable[[Any], Any]) -> Iterator[tuple[str, Any]]:
    yield "one more", kind([*value, value[-1]])
    yield "one less", kind(value[:-1])
    for place in {0, len(value) - 1}:
        for one in (-1, 0, 1, 99, 1.5):
            changed = list(value)
            changed[place] = one
            yield f"{one} at {place}", kind(changed)
    yield "one number", value[0]
    yield "a text", "nonsense"


def _other_arrays(value: Array) -> Iterator[tuple[str, Any]]:
    yield "one more axis", value[None]
    yield "a number", value.reshape(-1)[:1].reshape(()) if value.size else value.sum()
    for axis in sorted({0, value.ndim - 1}) if value.ndim else ():
        yield f"one axis less, {axis}", np.take(value, 0, axis) if value.shape[axis] else value
        yield f"empty along {axis}", np.take(value, [], axis)
        yield f"shorter along {axis}", np.take(value, range(value.shape[axis] - 1), axis)
        yield f"longer along {axis}", np.concatenate([value, value], axis)
        yield f"one long along {axis}", np.take(value, [0], axis) if value.shape[axis] else value
    with np.errstate(all="ignore"):
        for kind in ("complex64", "int32", "bool", "float64", "float16"):
            yield kind, value.astype(kind)
        yield "negative", -value if value.dtype.kind in "if" else value
        yield "large", value + 99 if value.dtype.kind in "if" else value
    yield "a text", "nonsense"


def call(label: str, key: Key, name: str) -> Arguments:
    """Return the arguments of a call whose argument `key` has the value of a name."""
    given = base(label)
    assert given is not None
    value = dict(ladders(label)[key])[name]
    positional, options = list(given[0]), dict(given[1])
    if isinstance(key, int):
        positional[key] = value
    else:
        options[key] = value
    return positional, options
