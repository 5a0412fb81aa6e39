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
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, int32, int64

from ..rows.functions import Way, ways
from ..rows.judging import numpy_of, put
from .base import Array, Check, Place

CONTRACT: Final = "a function has its meaning at every argument, and the method of its name too"
_TURNS, _NEAR = 8, 2e-5
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


def _run(way: Way, place: Place) -> None:
    seed = [place.seed, crc32(way.label.encode())]
    for turn in range(_TURNS):
        given, options = way.draw(np.random.default_rng([*seed, turn]))
        what = f"{way.name}({', '.join(map(repr, given))}, {options})"
        tensors, more = list(map(_tensors, given)), {k: _tensors(v) for k, v in options.items()}
        with np.errstate(all="ignore"):
            want = way.meaning(*map(_widened, given), **options)
        made = way.call(*tensors, **more)
        got, wants = _results(made), _parts(want)
        assert len(got) == len(wants), f"{what}: {len(got)} results, not {len(wants)}"
        for a, b in zip(got, wants, strict=True):
            _compare(a, b, what)
        if way.other is None and tensors and isinstance(tensors[0], calor.Tensor):
            method = getattr(tensors[0], way.name, None)
            if method is not None:
                _same(_results(method(*tensors[1:], **more)), got, f"as a method, {what}")


def _results(made: Any) -> list[Array]:
    """Return what a function made as arrays, also what is no tensor."""
    if isinstance(made, bool | int | tuple) and not _has_tensors(made):
        return _parts(made)
    return list(numpy_of(made))


def _has_tensors(made: Any) -> bool:
    if isinstance(made, tuple | list):
        return any(map(_has_tensors, made))
    return isinstance(made, calor.Tensor)


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
