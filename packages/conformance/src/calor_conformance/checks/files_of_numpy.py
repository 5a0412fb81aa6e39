"""Tensors as arrays of NumPy's files: written by NumPy as they are, read back, and copied over.

NumPy's functions that write files take tensors of every dtype, among others, by place and by name,
and the file is that of the array. ``numpy.copyto`` fills an array from a tensor.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bool_, complex64, float32, float64, int8, int32, int64

from .base import Array, Check, Place

CONTRACT: Final = "NumPy writes a tensor to a file as the array of its elements"
_TURNS: Final = 6
_DTYPES: Final = (float32, int32, int64, int8, bool_, float64, complex64)
Rng = np.random.Generator


def _array(rng: Rng, place: Place, rank: int | None = None) -> Array:
    known = [d for d in _DTYPES if place.plain.info.dtypes.get(d)]
    shape = tuple(
        int(n) for n in rng.integers(0, 4, int(rng.integers(3)) if rank is None else rank)
    )
    dtype = known[int(rng.integers(len(known)))]
    return np.asarray(rng.integers(0, 5, shape)).astype(dtype.numpy)


def _tensors(arrays: Any) -> Any:
    return calor.tree.map(calor.asarray, arrays)


def _one(rng: Rng, place: Place) -> None:
    """``numpy.save``: the bytes of the file are the same, in any order of the elements."""
    array = _array(rng, place)
    files = io.BytesIO(), io.BytesIO()
    x = calor.asarray(array)
    np.save(files[0], x.T if array.ndim == 2 else x)
    np.save(files[1], np.ascontiguousarray(array.T) if array.ndim == 2 else array)
    assert files[0].getvalue() == files[1].getvalue(), f"numpy.save of {array!r}"


def _several(rng: Rng, place: Place) -> None:
    """``numpy.savez``: tensors and arrays, by place and by name."""
    for write in (np.savez, np.savez_compressed):
        placed = [_array(rng, place) for _ in range(int(rng.integers(3)))]
        named = {n: _array(rng, place) for n in ("w", "b") if rng.random() < 0.7}
        file = io.BytesIO()
        write(file, *_tensors(placed), **_tensors(named), plain=np.arange(3))
        file.seek(0)
        want = {**{f"arr_{n}": a for n, a in enumerate(placed)}, **named, "plain": np.arange(3)}
        with np.load(file) as found:
            assert {*found.files} == {*want}, f"{found.files}, not {[*want]}"
            for name, array in want.items():
                made = found[name]
                told = f"{write.__name__} of {array!r} as {name}: {made!r}"
                assert made.dtype == array.dtype, told
                assert np.array_equal(made, array), told


def _text(rng: Rng, place: Place) -> None:
    """``numpy.savetxt``, with a format and a delimiter."""
    array = _array(rng, place, int(rng.integers(1, 3)))
    array = np.asarray(array.real, np.float32)
    options: dict[str, Any] = (
        {} if rng.random() < 0.4 else {"fmt": "%.3f", "delimiter": ",", "header": "of a tensor"}
    )
    texts = io.StringIO(), io.StringIO()
    np.savetxt(texts[0], calor.asarray(array), **options)
    np.savetxt(texts[1], array, **options)
    assert texts[0].getvalue() == texts[1].getvalue(), f"numpy.savetxt of {array!r} with {options}"


def _over(rng: Rng, place: Place) -> None:
    """``numpy.copyto``: all of an array, and a part of one, with broadcasting."""
    array = _array(rng, place, 2)
    for shape in (array.shape, (2, *array.shape)):
        made, want = np.zeros(shape, array.dtype), np.zeros(shape, array.dtype)
        np.copyto(made, calor.asarray(array))
        np.copyto(want, array)
        assert np.array_equal(made, want), f"numpy.copyto of {array!r}: {made!r}"


_FORMS: Final[dict[str, Callable[[Rng, Place], None]]] = {
    "one": _one, "several": _several, "text": _text, "copied-over": _over,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    for turn in range(_TURNS):
        number = list(_FORMS).index(name)
        _FORMS[name](np.random.default_rng([place.seed, 577, number, turn]), place)


def files_of_numpy() -> Iterator[Check]:
    """Yield a check of each function."""
    for name, form in _FORMS.items():
        yield Check(
            kind="transfers",
            subject=f"numpys-files-{name}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, form),
            dtypes=(float32, int64),
            looks=True,
        )
