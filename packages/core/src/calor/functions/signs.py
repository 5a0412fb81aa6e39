"""Signs and absolute values."""

from __future__ import annotations

from calor.functions.operands import as_tensor, pair, single
from calor.ops import elementwise as e
from calor.tensor.tensor import Operand, Tensor


def negative(x: Operand, /) -> Tensor:
    """Return −x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        A numeric dtype other than float8, any shape.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``. Unsigned integers wrap around.

    Raises
    ------
    DTypeError
        If ``x`` is bool or float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``negative``.

    Examples
    --------
    >>> import calor
    >>> calor.negative(calor.asarray([1, -2])).tolist()
    [-1, 2]
    """
    return single(e.neg, x)


def positive(x: Operand, /) -> Tensor:
    """Return x as a new tensor.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``positive``.

    Examples
    --------
    >>> import calor
    >>> calor.positive(calor.asarray([1, -2])).tolist()
    [1, -2]
    """
    return as_tensor(x).copy()


def abs(x: Operand, /) -> Tensor:
    """Return the absolute value.

    Parameters
    ----------
    x : Tensor, ndarray or number
        A numeric dtype other than float8, any shape.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype, or that of its parts if it is complex. The smallest integer
        of a signed dtype has none and stays as it is.

    Raises
    ------
    DTypeError
        If ``x`` is bool or float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``abs``.

    Examples
    --------
    >>> import calor
    >>> calor.abs(calor.asarray([-3, 4])).tolist()
    [3, 4]
    """
    return single(e.abs, x)


def sign(x: Operand, /) -> Tensor:
    """Return −1, 0 or 1 by the sign.

    Parameters
    ----------
    x : Tensor, ndarray or number
        A numeric dtype other than float8, any shape.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``. Of complex elements x / |x|, and 0 at 0; NaN of NaN.

    Raises
    ------
    DTypeError
        If ``x`` is bool or float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``sign``.

    Examples
    --------
    >>> import calor
    >>> calor.sign(calor.asarray([-3.0, 0.0, 4.0])).tolist()
    [-1.0, 0.0, 1.0]
    """
    return single(e.sign, x)


def copysign(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the absolute value of x1 with the sign of x2.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        A real dtype, any shape.
    x2 : Tensor, ndarray or number
        The signs; −0 is negative. Broadcast against ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape; the common dtype if it is floating, else float32.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If there is no common dtype, or it is complex or float8.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    References
    ----------
    Python array API standard 2024.12, ``copysign``.

    Examples
    --------
    >>> import calor
    >>> calor.copysign(calor.asarray([1.0, -2.0]), -0.0).tolist()
    [-1.0, -2.0]
    """
    return pair(e.copysign, x1, x2)
