"""Assignments through a mask that stands before, between or behind other axes.

What is assigned may have a number of its own for each element that the mask selects, for each place
along the axes around it, for both, or for none; a layout of one of them is right for the others
where the counts agree. So every place and rank of the mask meets every form of the value; NumPy
says what is written, and which part of the value has which gradient.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bool_, float32, int64

from .base import Array, Check, Place

CONTRACT: Final = "a mask beside other axes writes the element of each place, as in NumPy"
_RANKS: Final = (1, 2, 3, 4)
Rng = np.random.Generator
Shape = tuple[int, ...]


def _forms(shape: Shape, mask: int, rng: Rng) -> dict[str, Shape]:
    """Return the shapes of values for a part of a shape, whose axis ``mask`` is the selected."""
    ones = [1] * len(shape)

    def only(axes: list[int]) -> Shape:
        return tuple(n if k in axes else 1 for k, n in enumerate(shape))

    rest = [k for k in range(len(shape)) if k != mask]
    forms = {
        "each": shape, "selected": only([mask]), "around": only(rest), "one": tuple(ones),
        "before": only([k for k in rest if k < mask]), "to the mask": only(list(range(mask + 1))),
        "behind": shape[mask + 1 :], "from the mask": shape[mask:], "more": (1, *shape),
    }  # fmt: skip
    some = [k for k in range(len(shape)) if rng.random() < 0.5]
    return forms | {"some": only(some)}


def _cases(rng: Rng) -> Iterator[tuple[str, Array, Any, Array]]:
    """Yield words, an array, a key with a mask, and a value."""
    for rank in _RANKS:
        for first, width in product(range(rank), (1, 2)):
            if first + width > rank:
                continue
            shape = tuple(int(n) for n in rng.integers(2, 4, rank))
            array: Array = rng.integers(-99, 100, shape).astype(np.float32)
            mask = rng.random(shape[first : first + width]) < 0.6
            cuts = [_cut(rng, n) for n in shape]
            key: Any = (*cuts[:first], mask, *cuts[first + width :])
            if rng.random() < 0.4:
                key = (*cuts[:first], mask, Ellipsis) if rng.random() < 0.5 else (
                    *key[: first + 1], None, *key[first + 1 :])  # fmt: skip
            part = array[key].shape
            for name, form in _forms(part, first, rng).items():
                if len(key) == 1 and len(form) > 1:
                    continue  # NumPy refuses it for a mask alone.
                value = rng.integers(-999, 1000, form).astype(np.float32)
                yield f"{name} of {part}", array, key, value


def _cut(rng: Rng, n: int) -> slice:
    cuts = (slice(None), slice(None), slice(1, None), slice(None, None, -1), slice(0, n, 2))
    return cuts[int(rng.integers(len(cuts)))]


def _given(key: Any) -> Any:
    return tuple(calor.asarray(k) if isinstance(k, np.ndarray) else k for k in key)


def _run(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 504])
    for number, (name, array, key, value) in enumerate(_cases(rng)):
        if not place.tries(number, 25):
            continue
        told = f"x[{key}] of {array.shape} = {name}, {value.tolist()}"
        wanted, added = array.copy(), array.copy()
        wanted[key] = value
        added[key] += value.reshape(value.shape[max(value.ndim - array[key].ndim, 0) :])
        for how, keys in (("", _given(key)), ("with a host mask, ", key)):
            made = calor.asarray(array)
            made[keys] = calor.asarray(value)
            _same(made, wanted, how + told)
        more = calor.asarray(array)
        if value.ndim <= array[key].ndim:
            more[_given(key)] += calor.asarray(value)
            _same(more, added, told.replace("] of", "] += of"))
        if number % 3 == 0:
            _gradient(array, key, value, rng, told)


def _gradient(array: Array, key: Any, value: Array, rng: Rng, told: str) -> None:
    weights = np.asarray(rng.integers(-9, 10, array.shape), np.float32)
    given = _given(key)

    def loss(x: Any, v: Any) -> Any:
        x = x * 1
        x[given] = v
        return calor.sum(x * calor.asarray(weights))

    found = calor.grad(loss, argnums=(0, 1))(calor.asarray(array), calor.asarray(value))
    kept = weights.copy()
    kept[key] = 0
    part = weights[key]
    whole = np.broadcast_to(part, np.broadcast_shapes(part.shape, value.shape))
    summed = tuple(range(whole.ndim - value.ndim))
    ones = tuple(k for k, n in enumerate(value.shape) if n == 1)
    back = whole.sum(summed).sum(ones, keepdims=True).reshape(value.shape)
    _same(found[0], kept, f"the gradient of x after {told}")
    _same(found[1], back, f"the gradient of the value of {told}")


def _same(made: Any, want: Array, told: str) -> None:
    got = made.numpy()
    assert got.shape == want.shape, f"{told}: shape {got.shape}, not {want.shape}"
    assert (got == want).all(), f"{told}: {got.tolist()}, not {want.tolist()}"


def masks_beside_axes() -> Iterator[Check]:
    """Yield the check of masks beside other axes."""
    yield Check(
        kind="functions",
        subject="masks-beside-axes",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _cases),
        op="scatter_nd",
        dtypes=(float32, int64, bool_),
        looks=True,
    )
