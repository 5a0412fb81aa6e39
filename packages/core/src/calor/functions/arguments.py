"""How the public functions take numbers, dtypes, axes and shapes.

Requirements: axes reach the rows normalised, non-negative and without duplicates, and a wrong one
is reported with the shape that it does not fit.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from calor import dtypes
from calor.dtypes import DType
from calor.errors import ArgumentTypeError, AxisError, DTypeError, ShapeError
from calor.sizes import Size

NUMBERS = (bool, int, float, complex)


def python_number(x: Any) -> Any:
    """Return a Python number for a NumPy scalar or a subclass of one; anything else as it is."""
    if isinstance(x, np.generic):
        number = x.item()
        return number if type(number) in NUMBERS else np.asarray(x)
    if type(x) in NUMBERS or not isinstance(x, NUMBERS):
        return x
    kinds: tuple[Any, ...] = (int, float, complex)
    return next(kind(x) for kind in kinds if isinstance(x, kind))


def common_dtype(types: Sequence[DType], what: str) -> DType:
    """Return the common type of several dtypes; DTypeError names the function."""
    common = types[0]
    try:
        for t in types[1:]:
            common = dtypes.promote(common, t)
    except DTypeError as error:
        raise DTypeError(f"{what}: {error}") from None
    return common


def integer(value: Any, what: str) -> int:
    """Return a whole number given as an int or NumPy integer; else ArgumentTypeError."""
    if isinstance(value, Size):
        return value  # type: ignore[return-value]
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(
            f"{what} must be a whole number, not {type(value).__name__}"
        ) from None


def one_axis(axis: Any, shape: tuple[int, ...], what: str) -> int:
    """Return an axis as a non-negative number; AxisError when the shape does not have it."""
    number = axis if type(axis) is int else integer(axis, f"{what}: axis")
    ndim = len(shape)
    if not -ndim <= number < ndim:
        raise AxisError(
            f"{what}: axis {number} is out of range for shape {shape}, which has {ndim} axes"
        )
    return number % ndim


def many_axes(axis: Any, shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    """Return axes as ascending non-negative numbers; None is all of them."""
    if axis is None:
        return tuple(range(len(shape)))
    if type(axis) is int:
        return (one_axis(axis, shape, what),)
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = sorted(one_axis(a, shape, what) for a in given)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{what}: axis {axis} names an axis of shape {shape} twice")
    return tuple(axes)


def sizes_of(shape: Any, what: str) -> tuple[int, ...]:
    """Return a shape given as an int or a sequence of ints."""
    if isinstance(shape, tuple | list):
        return tuple([integer(n, f"{what}: a size") for n in shape])
    return (integer(shape, f"{what}: a shape"),)
