"""Functions at drawn arguments, called as NumPy calls them, and as methods.

Functions made of several ops fail where these are right: an axis counted from the wrong end, an end
that is left out, a default that was changed. Each way to call a function draws its arguments, so a
name is all that a new function needs.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, int32, int64
from calor.errors import ShapeError

from ..rows.functions import Way, ways
from ..rows.functions.comparing import (
    Call,
    compare,
    nothing,
    parts,
    quiet,
    results,
    slack,
    tensors,
    widened,
)
from ..rows.functions.drawing import ASKS, source
from .base import Array, Check, Place

CONTRACT: Final = "a function has its meaning at every argument, and the method of its name too"
_TURNS = 2
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


def _run(way: Way, place: Place) -> None:
    """Call with common numbers, then with all that is asked of functions."""
    for turn, ask in enumerate([*[""] * _TURNS, *(a for a in ASKS if a not in way.without)]):
        _turn(way, [place.seed, crc32(way.label.encode()), turn], ask)


def _turn(way: Way, seed: list[int], ask: str) -> None:
    try:
        given, options = way.draw(source(seed, ask))
        with quiet():
            wants = parts(way.meaning(*map(widened, given), **options))
            slacks = slack(way.meaning, given, options, wants) if ask == "large" else None
    except (ValueError, IndexError):
        if ask == "short":
            return  # NumPy, too, has no result of none.
        raise
    what = Call(way.name, given, options)
    arguments, more = list(map(tensors, given)), {k: tensors(v) for k, v in options.items()}
    try:
        made = way.call(*arguments, **more)
    except ShapeError:
        if ask == "short" and nothing(wants):
            return
        raise
    got = results(made)
    assert len(got) == len(wants), f"{what}: {len(got)} results, not {len(wants)}"
    for n, (a, b) in enumerate(zip(got, wants, strict=True)):
        compare(a, b, what, slack=slacks[n] if slacks else 0.0)
    if way.other is None and arguments and isinstance(arguments[0], calor.Tensor):
        method = getattr(arguments[0], way.name, None)
        if method is not None:
            _same(results(method(*arguments[1:], **more)), got, f"as a method, {what}")


def _same(got: list[Array], want: list[Array], what: str) -> None:
    assert len(got) == len(want), f"{what}: {len(got)} results, not {len(want)}"
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype, f"{what}: {a.dtype}, and {b.dtype} as a function"
        assert a.shape == b.shape, f"{what}: {a.shape}, and {b.shape} as a function"
        assert a.tobytes() == b.tobytes(), f"{what}: {a}, and {b} as a function"


def namesakes() -> Iterator[Check]:
    """Yield a check of each way to call a function, and of promotion."""
    yield Check(
        kind="functions",
        subject="result_type",
        tier="full",
        contract="the common dtype of two dtypes, and of a dtype and a number, is NumPy's",
        run=_promotion,
        text=partial(inspect.getsource, _promotion),
    )
    for way in ways():
        yield Check(
            kind="functions",
            subject=way.label,
            tier="full",
            contract=CONTRACT,
            run=partial(_run, way),
            text=partial(inspect.getsource, way.draw),
            dtypes=(float32, int32, int64, bool_),
            looks=True,
        )
