"""Values that are pickled, copied, saved, exported and imported: the same bits, and their own.

Every dtype, and shapes that have no axis, no element, or other strides than their memory, are
drawn, with any bits that the dtype has.
"""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import ALL, DType, bool_

from .base import Array, Check, Place

CONTRACT: Final = "what is kept and read again has its bits, dtype, shape and marks, and is apart"
_TURNS: Final = 10
_SHAPES: Final = ((), (1,), (0,), (3,), (2, 5), (3, 0, 2), (4, 1, 3), (257,))
Rng = np.random.Generator


def _saved(x: Any) -> Any:
    stream = io.BytesIO()
    calor.save({"x": x, "again": [x, 3]}, stream)
    stream.seek(0)
    found = calor.load(stream)
    assert found["again"][0] is found["x"], "a tensor that was saved twice is two"
    assert found["again"][1] == 3, f"a number beside it is {found['again'][1]!r}"
    return found["x"]


def _pickled(x: Any, protocol: int) -> Any:
    found, again, number = pickle.loads(pickle.dumps((x, x, 2.5), protocol))
    assert found is again, "a tensor that was pickled twice is two"
    assert number == 2.5, f"a number beside it is {number!r}"
    return found


_WAYS: Final[dict[str, Callable[[Any], Any]]] = {
    "pickled": lambda x: _pickled(x, pickle.HIGHEST_PROTOCOL),
    "pickled-as-of-old": lambda x: _pickled(x, 2), "copied": copy.copy,
    "copied-deep": lambda x: copy.deepcopy({"x": [x]})["x"][0], "saved": _saved,
    "method": lambda x: x.copy(),
}  # fmt: skip
# Ways through arrays, which carry no marks.
_BESIDE: Final[dict[str, Callable[[Any], Any]]] = {
    "array": lambda x: calor.asarray(x.numpy()), "asarray": lambda x: calor.asarray(np.asarray(x)),
    "array-copied": lambda x: calor.asarray(np.array(x, copy=True)),
}  # fmt: skip


def _bits(rng: Rng, dtype: DType, shape: tuple[int, ...], whole: bool) -> Array:
    """Return numbers of any bits, NaN in all its forms too, unless a kernel moves them."""
    count = int(np.prod(shape))
    if dtype is bool_:
        return rng.random(shape) < 0.5
    if not whole:
        return np.asarray(rng.integers(0, 8, shape) - 4 * (dtype.kind != "uint")).astype(
            dtype.numpy
        )
    raw = rng.integers(0, 256, count * dtype.itemsize, np.uint8)
    if dtype.is_inexact:
        # One in five is a NaN, whose other bits are as drawn.
        parts = raw.reshape(-1, dtype.itemsize // (2 if dtype.is_complex else 1))
        chosen = rng.random(len(parts)) < 0.2
        parts[chosen, -1] |= 0x7F
        parts[chosen, -2:-1] |= 0xF0
    return np.asarray(raw.view(dtype.numpy).reshape(shape))


def _seen(x: Any, rng: Rng) -> tuple[Any, Any]:
    """Return a tensor or an array as another view of its elements."""
    form = int(rng.integers(4)) if len(x.shape) else 0
    if form == 1:
        return x[::-1], "from the end"
    if form == 2:
        return (x.permute_dims if hasattr(x, "permute_dims") else x.transpose)(
            tuple(range(len(x.shape)))[::-1]
        ), "turned"
    if form == 3:
        return x[::2], "every second"
    return x, "whole"


def _run(dtype: DType, name: str, marks: bool, place: Place) -> None:
    way = {**_WAYS, **_BESIDE}[name]
    for turn in range(_TURNS):
        rng = np.random.default_rng([place.seed, turn])
        shape = _SHAPES[int(rng.integers(len(_SHAPES)))]
        seed = int(rng.integers(99))
        marked = marks and dtype.is_inexact and turn % 2 == 0 and dtype.itemsize > 1
        how = _seen(np.zeros(shape), np.random.default_rng(seed))[1]
        moved = how != "whole" or marked or name in ("copied", "copied-deep", "method")
        array = _bits(rng, dtype, shape, not moved)
        tensor = _seen(calor.asarray(array), np.random.default_rng(seed))[0]
        want = np.ascontiguousarray(_seen(array, np.random.default_rng(seed))[0])
        want = want.reshape(tensor.shape)
        if marked:
            tensor = tensor.copy()
            tensor.requires_grad = True
        what = f"{dtype.name}{list(shape)}, {how}"
        found = way(tensor)
        assert found.dtype is dtype, f"{what}: {found.dtype}"
        assert found.shape == want.shape, f"{what}: shape {found.shape}"
        assert found.device is tensor.device, f"{what}: on {found.device}"
        got = np.ascontiguousarray(found.detach().numpy())
        assert got.tobytes() == want.tobytes(), f"{what}: other bits, {got} and not {want}"
        if marks:
            assert found.requires_grad == marked, f"{what}: requires_grad {found.requires_grad}"
        if not want.size or marked:
            continue
        # What is written to one is not written to the other.
        found[...] = np.zeros(want.shape, want.dtype)
        kept = np.ascontiguousarray(tensor.numpy())
        assert kept.tobytes() == want.tobytes(), f"{what}: changed when its copy was"


def kept_values() -> Iterator[Check]:
    """Yield a check of each way to keep a tensor in each dtype."""
    for marks, ways in ((True, _WAYS), (False, _BESIDE)):
        for name in ways:
            for dtype in ALL:
                yield Check(
                    kind="transfers",
                    subject=f"kept-{name}",
                    tier="full",
                    contract=CONTRACT,
                    run=partial(_run, dtype, name, marks),
                    text=partial(inspect.getsource, _run),
                    dtype=dtype,
                    dtypes=(dtype,),
                    looks=True,
                )
