"""Orders of operands: views of larger or turned arrays, which a device gets inside a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calor.ops import movement as m

from ..language import Array

Function = Callable[[Any], Any]
ORDERS = ("plain", "flipped", "permuted", "turned", "stepped", "cut", "reshaped")
# Larger operands are cut out of no still larger ones.
_MOST = 1 << 19
# Bytes of noise that differ; an odd number of them, so that neighbouring rows do.
_PERIOD = 4093


def placed(x: Array, order: str, rng: np.random.Generator) -> tuple[Array, Function]:
    """Return an array to upload, and the function that makes the operand of it on the device.

    Parameters
    ----------
    x : array
        The operand.
    order : str
        One of ORDERS.
    rng : numpy.random.Generator
        Chooses axes, steps and margins.

    Returns
    -------
    tuple
        The array and the function.
    """
    if order == "plain" or not x.ndim or (order in ("stepped", "cut") and x.size > _MOST):
        return x, lambda t: t
    return _MAKERS[order](x, rng)


def _flipped(x: Array, rng: np.random.Generator) -> tuple[Array, Function]:
    some = [a for a in range(x.ndim) if rng.random() < 0.6] or [int(rng.integers(x.ndim))]
    axes = tuple(some)
    return np.flip(x, axes).copy(), lambda t: m.flip(t, axes=axes)


def _permuted(x: Array, rng: np.random.Generator) -> tuple[Array, Function]:
    axes = tuple(int(a) for a in rng.permutation(x.ndim))
    if axes == tuple(range(x.ndim)):
        axes = (*axes[1:], axes[0])
    back = np.argsort(axes)
    return x.transpose(back).copy(), lambda t: m.permute(t, axes=axes)


def _turned(x: Array, rng: np.random.Generator) -> tuple[Array, Function]:
    """Flips between two permutations, which no simple rule can join."""
    first, one = _permuted(x, rng)
    second, two = _flipped(first, rng)
    third, three = _permuted(second, rng)
    return third, lambda t: one(two(three(t)))


def _stepped(x: Array, rng: np.random.Generator) -> tuple[Array, Function]:
    """Return elements of a larger array at steps of 2 or 3, in either direction."""
    starts, stops, steps, sizes, places = [], [], [], [], []
    # Steps on two axes at most, or the larger array is hundreds of times larger.
    some = set(rng.permutation(x.ndim)[:2].tolist())
    for axis, n in enumerate(x.shape):
        step = int(rng.choice((1, 2, 3))) if axis in some else 1
        low, high = (int(k) for k in rng.integers(0, 3, 2)) if axis in some else (0, 0)
        span = (n - 1) * step + 1 if n else 0
        sizes.append(low + span + high)
        if rng.random() < 0.5:
            starts.append(low)
            stops.append(low + span)
            steps.append(step)
        else:
            starts.append(low + max(span - 1, 0))
            stops.append(low - 1 if n else starts[-1])
            steps.append(-step)
        places.append(slice(low, low + span, step) if n else slice(0, 0))
    larger = _noise(tuple(sizes), x.dtype, rng)
    back = tuple(a for a, s in enumerate(steps) if s < 0)
    larger[tuple(places)] = np.flip(x, back)
    a, b, s = tuple(starts), tuple(stops), tuple(steps)
    return larger, lambda t: m.slice_(t, starts=a, stops=b, steps=s)


def _cut(x: Array, rng: np.random.Generator) -> tuple[Array, Function]:
    """Return a box inside a larger array, which begins at any element."""
    some = set(rng.permutation(x.ndim)[:2].tolist())
    low = [int(rng.integers(0, 4)) if a in some else 0 for a in range(x.ndim)]
    stops = [a + n for a, n in zip(low, x.shape, strict=True)]
    larger = _noise(
        tuple(b + (int(rng.integers(0, 3)) if a in some else 0) for a, b in enumerate(stops)),
        x.dtype,
        rng,
    )
    larger[tuple(slice(a, b) for a, b in zip(low, stops, strict=True))] = x
    return larger, lambda t: m.slice_(
        t, starts=tuple(low), stops=tuple(stops), steps=(1,) * len(low)
    )


def _reshaped(x: Array, rng: np.random.Generator) -> tuple[Array, Function]:
    shape = x.shape
    return x.reshape(-1), lambda t: m.reshape(t, shape=shape)


def _noise(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> Array:
    """Return bytes that no result may show; they are numbers of every dtype."""
    count = int(np.prod(shape)) * dtype.itemsize
    top = 2 if dtype == np.bool_ else 120
    drawn = rng.integers(1 if top > 2 else 0, top, min(count, _PERIOD), dtype=np.uint8)
    made = np.resize(drawn, count)
    return np.ndarray(shape, dtype, made.tobytes()).copy()


_MAKERS: dict[str, Callable[[Array, np.random.Generator], tuple[Array, Function]]] = {
    "flipped": _flipped,
    "permuted": _permuted,
    "turned": _turned,
    "stepped": _stepped,
    "cut": _cut,
    "reshaped": _reshaped,
}
