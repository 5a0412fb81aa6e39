"""Calls that differ in one option, one after the other: each has its own meaning.

Shapes, results of rules, plans and programs are kept by keys. A key that lacks an option gives the
second of two such calls what was kept of the first one, and rows that draw all their arguments anew
rarely make two calls alike but for one. Of each row some calls are drawn; in the one with the most
options each of them in turn takes a value that another call gave it, is left out, or is turned
over. The plain call is made first or last.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final
from zlib import crc32

import numpy as np

from calor.dtypes import bool_, float32, int32, int64
from calor.errors import CalorError

from ..rows.functions import ways
from ..rows.functions.comparing import (
    NEAR,
    Call,
    compare,
    parts,
    quiet,
    results,
    slack,
    tensors,
    widened,
)
from ..rows.functions.drawing import Arguments, Rng, source
from ..rows.functions.layers import installed
from .base import Array, Check, Place

CONTRACT: Final = "a call has its meaning after another one that differs in one option"
_PACKAGES: Final = ("calor", "calor_linalg", "calor_nn.functional", "calor_numerics",
                    "calor_numerics.signal", "calor_numerics.signal.windows",
                    "calor_special")  # fmt: skip
_DRAWN: Final = 5
# What NumPy's functions and definitions raise of options that do not fit the operands.
_REFUSED: Final = (ValueError, IndexError, TypeError, ZeroDivisionError, KeyError, AttributeError,
                   AssertionError)  # fmt: skip
# Options by which operands have another meaning, so that drawn ones do not fit another value.
_BOUND: Final = {
    "kl_div": ("log_target",), "max_unpool": (2,), "embedding_bag": ("include_last_offset",),
    "poisson_nll_loss": ("log_input",), "fractional_max_pool2d": ("return_indices",),
    "fractional_max_pool3d": ("return_indices",), "stft": ("win_length",), "ctc_loss": ("blank",),
    "diagonal_scatter": ("offset", "axis1", "axis2"), "histogram": (1,),
    "scatter_along_axis": ("axis", "update", "include_self"),
}  # fmt: skip
# What windows do not cover has no inverse.
_NO_INVERSE: Final = ("istft",)
_ABSENT: Final = object()


@dataclass(frozen=True)
class _Row:
    """A function, how its arguments are drawn, and what it means in NumPy."""

    name: str
    label: str
    draw: Callable[[Rng], Arguments]
    call: Callable[..., Any]
    meaning: Callable[..., Any]
    near: float = NEAR


def _rows(package: str) -> Iterator[_Row]:
    if package == "calor":
        for way in ways():
            yield _Row(way.name, way.label, way.draw, way.call, way.meaning)
        return
    module = import_module(package)
    for row in installed()[package]:
        if row.name not in _NO_INVERSE:
            call = getattr(module, row.name) if row.call is None else partial(row.call, module)
            yield _Row(row.name, row.label, row.draw, call, row.meaning, row.near)


def _one_of_each(package: str, seed: int) -> Iterator[_Row]:
    """Yield a row of each function; with another seed another one, if it has several."""
    named: dict[str, list[_Row]] = {}
    for row in _rows(package):
        named.setdefault(row.name, []).append(row)
    yield from (rows[seed % len(rows)] for rows in named.values())


def _plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_plain, value))
    return not isinstance(value, np.ndarray)


def _options(row: _Row, given: Arguments) -> dict[int | str, Any]:
    """Return the options of a call by place or name: what is no array."""
    named: list[tuple[int | str, Any]] = [*enumerate(given[0]), *given[1].items()]
    bound = _BOUND.get(row.name, ())
    return {key: value for key, value in named if _plain(value) and key not in bound}


def _others(key: int | str, value: Any, drawn: Sequence[dict[int | str, Any]]) -> list[Any]:
    """Return other values of an option: those of other calls, and its contrary."""
    found = [one.get(key, _ABSENT) for one in drawn]
    if isinstance(value, bool):
        found.append(not value)
    told = {repr(value): value}
    for one in found:
        if one is not _ABSENT or isinstance(key, str):
            told.setdefault(repr(one), one)
    return list(told.values())[1:]


def _with(given: Arguments, key: int | str, value: Any) -> Arguments:
    arguments, options = list(given[0]), dict(given[1])
    if isinstance(key, int):
        arguments[key] = value
    else:
        options[key] = value
    return arguments, {name: one for name, one in options.items() if one is not _ABSENT}


def _meant(row: _Row, given: Arguments) -> list[Array] | None:
    """Return what a call means in NumPy, None where it means nothing."""
    try:
        with quiet():
            more = {name: widened(one) for name, one in given[1].items()}
            return parts(row.meaning(*widened(list(given[0])), **more))
    except _REFUSED:
        return None


def _apart(row: _Row, rng: Rng) -> list[Arguments]:
    """Return a call, and those that differ from it in one option; either end first."""
    drawn = [row.draw(rng) for _ in range(_DRAWN)]
    options = [_options(row, given) for given in drawn]
    keys = sorted({key for one in options for key in one}, key=str)
    most = max(range(_DRAWN), key=lambda n: len(options[n]))
    base, own = drawn[most], options[most]
    made = []
    for key in keys:
        value = own.get(key, _ABSENT)
        if isinstance(key, int) and value is _ABSENT:
            continue  # It is an array there, or not given.
        others = _others(key, value, options)
        if others:
            made.append(_with(base, key, others[int(rng.integers(len(others)))]))
    if not made:
        return []
    return [base, *made] if rng.random() < 0.6 else [*made, base]


def _compared(row: _Row, given: Arguments, wants: list[Array]) -> None:
    arguments, options = given
    what = Call(row.label, arguments, options, ", after a call that differs in one option")
    try:
        more = {name: tensors(one) for name, one in options.items()}
        got = results(row.call(*map(tensors, arguments), **more))
    except CalorError:
        return  # Another check asks what is refused.
    assert len(got) == len(wants), f"{what}: {len(got)} results, not {len(wants)}"
    try:
        for a, b in zip(got, wants, strict=True):
            compare(a, b, what, row.near)
    except AssertionError:
        # What cancels is as far off as it moves when operands move by their rounding.
        with quiet():
            slacks = slack(row.meaning, list(arguments), options, wants)
        for a, b, more_off in zip(got, wants, slacks, strict=True):
            compare(a, b, what, row.near, more_off)


def _run(package: str, place: Place) -> None:
    for number, row in enumerate(_one_of_each(package, place.seed)):
        if not place.tries(number, 12):
            continue
        rng = source([place.seed, 195, crc32(f"{package}.{row.label}".encode())])
        for given in _apart(row, rng):
            wants = _meant(row, given)
            if wants is not None:
                _compared(row, given, wants)


def one_option_apart() -> Iterator[Check]:
    """Yield a check of the functions of each package."""
    for package in _PACKAGES:
        if package != "calor" and package not in installed():
            continue
        yield Check(
            kind="functions",
            subject=f"one-option-apart-{package}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, package),
            text=partial(inspect.getsource, _apart),
            op="sort",
            dtypes=(float32, int32, int64, bool_),
            looks=True,
        )
