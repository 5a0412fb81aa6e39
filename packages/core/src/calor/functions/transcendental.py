"""Square roots, exponentials and logarithms.

Integers and booleans are computed in the default floating dtype.
"""

from __future__ import annotations

import math

from calor.errors import DTypeError
from calor.functions.operands import (
    any_complex,
    as_operands,
    as_tensor,
    pair,
    select,
    single,
    together,
)
from calor.ops import elementwise as e
from calor.tensor.tensor import Operand, Tensor


def sqrt(x: Operand, /) -> Tensor:
    """Return the square root.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating or complex, else float32. NaN for negative
        real numbers.

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``sqrt``.

    Examples
    --------
    >>> import calor
    >>> calor.sqrt(calor.asarray([4.0, 9.0])).tolist()
    [2.0, 3.0]
    """
    return single(e.sqrt, x)


def exp(x: Operand, /) -> Tensor:
    """Return e to the power of x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating or complex, else float32.

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``exp``.

    Examples
    --------
    >>> import calor
    >>> calor.exp(calor.asarray([0.0])).tolist()
    [1.0]
    """
    return single(e.exp, x)


def exp2(x: Operand, /) -> Tensor:
    """Return 2 to the power of x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any dtype except float8. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating or complex, else float32.

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.exp2(calor.asarray([3.0, -1.0])).tolist()
    [8.0, 0.5]
    """
    try:
        return single(e.exp2, x)
    except DTypeError:
        if not any_complex(x):
            raise
    return single(e.exp, pair(e.mul, as_tensor(x), math.log(2)))


def expm1(x: Operand, /) -> Tensor:
    """Return exp(x) − 1, accurate near 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating or complex, else float32.

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``expm1``.

    Examples
    --------
    >>> import calor
    >>> calor.expm1(calor.asarray([0.0])).tolist()
    [0.0]
    """
    return single(e.expm1, x)


def log(x: Operand, /) -> Tensor:
    """Return the natural logarithm.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating or complex, else float32. −inf at 0, NaN
        for negative real numbers.

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``log``.

    Examples
    --------
    >>> import calor
    >>> calor.log(calor.asarray([1.0, 0.0])).tolist()
    [0.0, -inf]
    """
    return single(e.log, x)


def log2(x: Operand, /) -> Tensor:
    """Return the logarithm to base 2.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating or complex, else float32. −inf at 0, NaN
        for negative real numbers.

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``log2``.

    Examples
    --------
    >>> import calor
    >>> calor.log2(calor.asarray([8.0])).tolist()
    [3.0]
    """
    return single(e.log2, x)


def log10(x: Operand, /) -> Tensor:
    """Return the logarithm to base 10.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating or complex, else float32. −inf at 0, NaN
        for negative real numbers.

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``log10``.

    Examples
    --------
    >>> import calor
    >>> calor.log10(calor.asarray([1000.0], dtype="float64")).tolist()
    [3.0]
    """
    return single(e.log10, x)


def log1p(x: Operand, /) -> Tensor:
    """Return log(1 + x), accurate near 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating or complex, else float32. −inf at −1, NaN
        for real numbers below.

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``log1p``.

    Examples
    --------
    >>> import calor
    >>> calor.log1p(calor.asarray([0.0, -1.0])).tolist()
    [0.0, -inf]
    """
    return single(e.log1p, x)


def logaddexp(x1: Operand, x2: Operand, /) -> Tensor:
    """Return log(exp(x1) + exp(x2)) without overflow.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape, any dtype except float8. Integers and bool are computed in float32.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape; the common dtype if it is floating, else float32.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If there is no common dtype, or it is float8.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    References
    ----------
    Python array API standard 2024.12, ``logaddexp``.

    Examples
    --------
    >>> import calor
    >>> calor.logaddexp(calor.asarray([0.0]), -calor.inf).tolist()
    [0.0]
    """
    try:
        return pair(e.logaddexp, x1, x2)
    except DTypeError:
        if not any_complex(x1, x2):
            raise
    return _complex_logaddexp(*together(as_operands(x1, x2, floating=True), "logaddexp"))


def _complex_logaddexp(x1: Tensor, x2: Tensor) -> Tensor:
    """Return log(exp(x1) + exp(x2)), both divided by the larger magnitude first."""
    top = pair(e.maximum, single(e.real, x1), single(e.real, x2))
    top = select(single(e.isfinite, top), top, 0)
    total = pair(e.add, *(single(e.exp, pair(e.sub, x, top)) for x in (x1, x2)))
    return pair(e.add, single(e.log, total), top)
