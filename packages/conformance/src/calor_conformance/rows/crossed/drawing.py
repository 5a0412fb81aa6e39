"""Operands of crossed rows: numbers with specials at chosen positions."""

from __future__ import annotations

from bisect import bisect
from typing import Any

import numpy as np

from calor.dtypes import DType, bool_

from ..domains import normal
from ..language import Array, limits_of

# Where specials stand along an axis: nowhere, at its ends, in the last lanes of a vector, where a
# chunk ends, everywhere, or at random.
POSITIONS = ("none", "last", "first", "tail", "middle", "boundary", "random", "everywhere")


# How often rows have them there, as sums.
_OFTEN = np.cumsum((0.1, 0.2, 0.1, 0.25, 0.05, 0.1, 0.1, 0.1))
_UP_TO: list[float] = (_OFTEN / _OFTEN[-1]).tolist()
# Rows that get special values; others are as drawn.
_ROWS = 48


def numbers(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return ordinary numbers of a dtype.

    Parameters
    ----------
    rng : numpy.random.Generator
        The generator.
    dtype : DType
        The dtype.
    shape : tuple of int
        The shape.

    Returns
    -------
    array
        The numbers, integers of either sign where the dtype has them.
    """
    if dtype.is_integer:
        low = 0 if dtype.kind == "uint" else -60
        return rng.integers(low, 60, shape).astype(dtype.numpy)
    return np.asarray(normal().draw(rng, dtype, shape))


def whole(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], most: int = 4) -> Array:
    """Return small whole numbers, whose sums and products are exact in any order.

    Parameters
    ----------
    rng : numpy.random.Generator
        The generator.
    dtype : DType
        The dtype.
    shape : tuple of int
        The shape.
    most : int, default 4
        The largest magnitude.

    Returns
    -------
    array
        The numbers.
    """
    if dtype is bool_:
        return rng.random(shape) < 0.5
    made = rng.integers(0 if dtype.kind == "uint" else -most, most + 1, shape)
    if dtype.is_complex:
        made = made + 1j * rng.integers(-most, most + 1, shape)
    return np.asarray(made.astype(dtype.numpy))


def places(position: str, n: int, rng: np.random.Generator) -> list[int]:
    """Return the indices of a position along an axis of n elements.

    Parameters
    ----------
    position : str
        One of POSITIONS.
    n : int
        The length of the axis.
    rng : numpy.random.Generator
        Chooses random ones.

    Returns
    -------
    list of int
        The indices.
    """
    if not n or position == "none":
        return []
    if position == "everywhere":
        return list(range(n))
    if position == "tail":
        # One lane of what vectors leave, whatever their width.
        return [n - 1 - int(rng.integers(min(int(rng.choice((4, 16, 64))), n)))]
    chosen = {
        "first": [0],
        "last": [n - 1],
        "middle": [n // 2],
        "boundary": [k for p in range(3, 21) for k in ((1 << p) - 1, 1 << p) if k < n],
        "random": [int(k) for k in rng.integers(0, n, 3)],
    }[position]
    return sorted(set(chosen))


def with_specials(
    x: Array, axis: int, at: list[int], values: Any, rng: np.random.Generator
) -> Array:
    """Return an array in which some places of an axis have special values in a row or in all.

    Parameters
    ----------
    x : array
        The array.
    axis : int
        The axis.
    at : list of int
        The indices along the axis.
    values : sequence
        The values, of which each place has one.
    rng : numpy.random.Generator
        Chooses values and rows.

    Returns
    -------
    array
        A copy with the values.
    """
    made = x.copy()
    if not at or not x.size:
        return made
    values = np.asarray(values, x.dtype)
    moved = np.moveaxis(made, axis, 0)
    rows = rng.random(moved.shape[1:]) < 0.6
    if not rows.any():
        rows = np.ones_like(rows)
    for place in at:
        drawn = values[rng.integers(0, len(values), moved.shape[1:])]
        moved[place] = np.where(rows, drawn, moved[place])
    return made


def rows_of_specials(x: Array, axis: int, dtype: DType, rng: np.random.Generator) -> Array:
    """Return an array in which each row along an axis has special values of a kind at a position.

    Parameters
    ----------
    x : array
        The array.
    axis : int
        The axis.
    dtype : DType
        Its dtype.
    rng : numpy.random.Generator
        Chooses kinds and positions, so that one array has many pairs of both.

    Returns
    -------
    array
        A copy with the values; some rows are as they were.
    """
    made = np.moveaxis(x, axis, 0)
    shape, n = made.shape, x.shape[axis]
    flat = made.reshape(n, -1).copy()
    if dtype.is_complex or not x.size:
        return x
    kinds = [np.asarray(values, x.dtype) for values in extremes_of(dtype).values()]
    for row in range(min(flat.shape[1], _ROWS)):
        at = places(POSITIONS[bisect(_UP_TO, rng.random())], n, rng)
        if at:
            # The first kind is NaN where there is one, the only one that every op must keep.
            values = kinds[0 if rng.random() < 0.3 else int(rng.integers(len(kinds)))]
            flat[at, row] = values[rng.integers(0, len(values), len(at))]
    return np.ascontiguousarray(np.moveaxis(flat.reshape(shape), 0, axis))


def extremes_of(dtype: DType) -> dict[str, list[Any]]:
    """Return special values of a dtype by their kind.

    Parameters
    ----------
    dtype : DType
        The dtype.

    Returns
    -------
    dict
        Lists of values: "nan", "infinite", "negative-infinite", "zeros" and "largest", as far as
        the dtype has them.
    """
    if dtype is bool_:
        return {"true": [True], "false": [False]}
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        return {
            "largest": [limits.max, limits.max - 1],
            "least": [limits.min, limits.min + 1],
            "zeros": [0],
        }
    most = float(limits_of(dtype.numpy).max)
    return {
        "nan": [np.nan],
        "infinite": [np.inf],
        "negative-infinite": [-np.inf],
        "both-infinite": [np.inf, -np.inf],
        "zeros": [0.0, -0.0],
        "largest": [most, -most],
        "mixed": [np.nan, np.inf, -np.inf, -0.0],
    }


KINDS = (
    "nan", "infinite", "negative-infinite", "zeros", "largest", "least", "mixed", "both-infinite",
    "true", "false",
)  # fmt: skip


def special_values(kind: str, dtype: DType) -> list[Any]:
    """Return the values of a kind; of another kind where the dtype has none of this one.

    Parameters
    ----------
    kind : str
        One of KINDS.
    dtype : DType
        The dtype.

    Returns
    -------
    list
        The values.
    """
    there = extremes_of(dtype)
    return there.get(kind) or list(there.values())[KINDS.index(kind) % len(there)]
