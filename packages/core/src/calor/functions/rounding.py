"""Rounding, bounds, and replacing what is not finite."""

from __future__ import annotations

import builtins

from calor.functions.complex_parts import imag, real
from calor.functions.data_types import finfo
from calor.functions.operands import as_operands, as_tensor, pair, select, single
from calor.ops import elementwise as e
from calor.tensor.tensor import Operand, Tensor


def floor(x: Operand, /) -> Tensor:
    """Return the largest whole number that is not above x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; a real dtype other than bool.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``; integers as they are.

    Raises
    ------
    DTypeError
        If ``x`` is bool, complex or float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``floor``.

    Examples
    --------
    >>> import calor
    >>> calor.floor(calor.asarray([1.7, -1.2])).tolist()
    [1.0, -2.0]
    """
    return single(e.floor, x)


def ceil(x: Operand, /) -> Tensor:
    """Return the smallest whole number that is not below x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; a real dtype other than bool.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``; integers as they are.

    Raises
    ------
    DTypeError
        If ``x`` is bool, complex or float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``ceil``.

    Examples
    --------
    >>> import calor
    >>> calor.ceil(calor.asarray([1.2, -1.7])).tolist()
    [2.0, -1.0]
    """
    return single(e.ceil, x)


def trunc(x: Operand, /) -> Tensor:
    """Return x without its fraction: rounded toward 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; a real dtype other than bool.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``; integers as they are.

    Raises
    ------
    DTypeError
        If ``x`` is bool, complex or float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``trunc``.

    Examples
    --------
    >>> import calor
    >>> calor.trunc(calor.asarray([1.7, -1.7])).tolist()
    [1.0, -1.0]
    """
    return single(e.trunc, x)


def round(x: Operand, /, *, decimals: int = 0) -> Tensor:
    """Return x rounded to a number of decimal places, halves to the even neighbour.

    Parameters
    ----------
    x : Tensor, ndarray or number
        A numeric dtype other than float8, any shape.
    decimals : int, optional
        The places after the decimal point. By default 0; −1 rounds to tens.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``. The parts of complex elements are rounded separately.

    Raises
    ------
    DTypeError
        If ``x`` is bool or float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``round``.

    Examples
    --------
    >>> import calor
    >>> calor.round(calor.asarray([0.5, 1.5, 2.25])).tolist()
    [0.0, 2.0, 2.0]
    >>> calor.round(calor.asarray([1.2345]), decimals=1).tolist() == [calor.asarray(1.2).item()]
    True
    """
    x = as_tensor(x)
    if not decimals or (decimals > 0 and not x.dtype.is_inexact):
        return single(e.round, x)
    if not x.dtype.is_inexact:
        unit = 10**-decimals
        low = pair(e.mul, pair(e.floor_divide, x, unit), unit)
        above = pair(e.mul, pair(e.sub, x, low), 2)
        odd = pair(e.equal, pair(e.remainder, pair(e.floor_divide, x, unit), 2), 1)
        tie = pair(e.bit_and, pair(e.equal, above, unit), odd)
        up = pair(e.bit_or, pair(e.greater, above, unit), tie)
        return pair(e.add, low, pair(e.mul, e.cast(up, dtype=x.dtype), unit))
    scale = 10.0 ** builtins.abs(decimals)
    if decimals > 0:
        return pair(e.div, single(e.round, pair(e.mul, x, scale)), scale)
    return pair(e.mul, single(e.round, pair(e.div, x, scale)), scale)


def clip(x: Operand, /, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Return x limited to a range.

    Parameters
    ----------
    x : Tensor, ndarray or number
        A real dtype, any shape.
    min : Tensor, ndarray or number, optional
        The lower bound; it broadcasts against ``x``. By default there is none.
    max : Tensor, ndarray or number, optional
        The upper bound; it broadcasts against ``x``. By default there is none. Where it is below
        ``min`` it wins.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype. NaN where ``x`` or a bound is NaN.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If there is no common dtype, or it is complex or float8.
    OverflowError
        If a bound is a Python integer that does not fit the dtype of ``x``.

    References
    ----------
    Python array API standard 2024.12, ``clip``.

    Examples
    --------
    >>> import calor
    >>> calor.clip(calor.asarray([-2, 0, 7]), 0, 5).tolist()
    [0, 0, 5]
    """
    result = as_operands(x, *(bound for bound in (min, max) if bound is not None))[0]
    if min is not None:
        result = pair(e.maximum, result, min)
    if max is not None:
        result = pair(e.minimum, result, max)
    return result.copy() if result is x else result


def nan_to_num(
    x: Operand, /, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Return x with NaN and infinities replaced by finite numbers.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype; integers and bool are returned as they are.
    nan : float, optional
        Replaces NaN. By default 0.
    posinf : float, optional
        Replaces inf. By default the largest finite number of the dtype.
    neginf : float, optional
        Replaces −inf. By default the smallest finite number of the dtype.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``. The parts of complex elements are replaced separately.

    Raises
    ------
    DTypeError
        If ``x`` is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.nan_to_num(calor.asarray([calor.nan, calor.inf]), posinf=9.0).tolist()
    [0.0, 9.0]
    """
    x = as_tensor(x)
    if x.dtype.is_complex:
        parts = [
            nan_to_num(part, nan=nan, posinf=posinf, neginf=neginf) for part in (real(x), imag(x))
        ]
        return pair(e.join, *parts)
    if not x.dtype.is_inexact:
        return x.copy()
    limits = finfo(x.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    infinite = single(e.isinf, x)
    replaced = select(pair(e.bit_and, infinite, pair(e.greater, x, 0)), high, x)
    replaced = select(pair(e.bit_and, infinite, pair(e.less, x, 0)), low, replaced)
    return select(single(e.isnan, x), nan, replaced)
