"""Comparison, logic, and tests of single elements."""

from __future__ import annotations

from calor.functions.operands import pair, placed, single, truth
from calor.ops import elementwise as e
from calor.tensor.tensor import Operand, Tensor


def equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Tell for each pair of elements whether they are equal.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape; any dtype except float8.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        Dtype bool, the broadcast shape. NaN equals nothing.

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
    Python array API standard 2024.12, ``equal``.

    Examples
    --------
    >>> import calor
    >>> calor.equal(calor.asarray([1, 2]), 2).tolist()
    [False, True]
    """
    return pair(e.equal, x1, x2)


def not_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Tell for each pair of elements whether they differ.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape; any dtype except float8.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        Dtype bool, the broadcast shape. NaN differs from itself.

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
    Python array API standard 2024.12, ``not_equal``.

    Examples
    --------
    >>> import calor
    >>> calor.not_equal(calor.asarray([1, 2]), 2).tolist()
    [True, False]
    """
    return pair(e.not_equal, x1, x2)


def less(x1: Operand, x2: Operand, /) -> Tensor:
    """Tell for each pair of elements whether x1 < x2.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape, any real dtype.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        Dtype bool, the broadcast shape. False where an element is NaN.

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
    Python array API standard 2024.12, ``less``.

    Examples
    --------
    >>> import calor
    >>> calor.less(calor.asarray([1, 2]), 2).tolist()
    [True, False]
    """
    return pair(e.less, x1, x2)


def less_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Tell for each pair of elements whether x1 ≤ x2.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape, any real dtype.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        Dtype bool, the broadcast shape. False where an element is NaN.

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
    Python array API standard 2024.12, ``less_equal``.

    Examples
    --------
    >>> import calor
    >>> calor.less_equal(calor.asarray([1, 3]), 2).tolist()
    [True, False]
    """
    return pair(e.less_equal, x1, x2)


def greater(x1: Operand, x2: Operand, /) -> Tensor:
    """Tell for each pair of elements whether x1 > x2.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape, any real dtype.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        Dtype bool, the broadcast shape. False where an element is NaN.

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
    Python array API standard 2024.12, ``greater``.

    Examples
    --------
    >>> import calor
    >>> calor.greater(calor.asarray([1, 3]), 2).tolist()
    [False, True]
    """
    return pair(e.greater, x1, x2)


def greater_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Tell for each pair of elements whether x1 ≥ x2.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape, any real dtype.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        Dtype bool, the broadcast shape. False where an element is NaN.

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
    Python array API standard 2024.12, ``greater_equal``.

    Examples
    --------
    >>> import calor
    >>> calor.greater_equal(calor.asarray([1, 2]), 2).tolist()
    [False, True]
    """
    return pair(e.greater_equal, x1, x2)


def logical_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Tell for each pair of elements whether both are true.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape and dtype. Elements are true if they are not 0.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        Dtype bool, the broadcast shape.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If an operand is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``logical_and``.

    Examples
    --------
    >>> import calor
    >>> calor.logical_and(calor.asarray([True, False]), True).tolist()
    [True, False]
    """
    x1, x2 = placed(x1, x2)
    return pair(e.bit_and, truth(x1), truth(x2))


def logical_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Tell for each pair of elements whether at least one is true.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape and dtype. Elements are true if they are not 0.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        Dtype bool, the broadcast shape.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If an operand is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``logical_or``.

    Examples
    --------
    >>> import calor
    >>> calor.logical_or(calor.asarray([True, False]), False).tolist()
    [True, False]
    """
    x1, x2 = placed(x1, x2)
    return pair(e.bit_or, truth(x1), truth(x2))


def logical_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Tell for each pair of elements whether exactly one is true.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape and dtype. Elements are true if they are not 0.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        Dtype bool, the broadcast shape.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If an operand is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``logical_xor``.

    Examples
    --------
    >>> import calor
    >>> calor.logical_xor(calor.asarray([True, False]), True).tolist()
    [False, True]
    """
    x1, x2 = placed(x1, x2)
    return pair(e.bit_xor, truth(x1), truth(x2))


def logical_not(x: Operand, /) -> Tensor:
    """Tell for each element whether it is false, that is, 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.

    Returns
    -------
    Tensor
        Dtype bool, the shape of ``x``.

    Raises
    ------
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``logical_not``.

    Examples
    --------
    >>> import calor
    >>> calor.logical_not(calor.asarray([0, 3])).tolist()
    [True, False]
    """
    return single(e.bit_not, truth(x))


def isnan(x: Operand, /) -> Tensor:
    """Tell for each element whether it is NaN.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. A complex element is NaN if one of its parts is.

    Returns
    -------
    Tensor
        Dtype bool, the shape of ``x``.

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``isnan``.

    Examples
    --------
    >>> import calor
    >>> calor.isnan(calor.asarray([1.0, calor.nan])).tolist()
    [False, True]
    """
    return single(e.isnan, x)


def isinf(x: Operand, /) -> Tensor:
    """Tell for each element whether it is infinite.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. A complex element is infinite if one of its parts is.

    Returns
    -------
    Tensor
        Dtype bool, the shape of ``x``.

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``isinf``.

    Examples
    --------
    >>> import calor
    >>> calor.isinf(calor.asarray([1.0, -calor.inf])).tolist()
    [False, True]
    """
    return single(e.isinf, x)


def isfinite(x: Operand, /) -> Tensor:
    """Tell for each element whether it is neither NaN nor infinite.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. A complex element is finite if both parts are.

    Returns
    -------
    Tensor
        Dtype bool, the shape of ``x``.

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``isfinite``.

    Examples
    --------
    >>> import calor
    >>> calor.isfinite(calor.asarray([1.0, calor.inf])).tolist()
    [True, False]
    """
    return single(e.isfinite, x)


def signbit(x: Operand, /) -> Tensor:
    """Tell for each element whether its sign bit is set.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any real dtype. The bit of −0 is set.

    Returns
    -------
    Tensor
        Dtype bool, the shape of ``x``.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``signbit``.

    Examples
    --------
    >>> import calor
    >>> calor.signbit(calor.asarray([-0.0, 0.0])).tolist()
    [True, False]
    """
    return single(e.signbit, x)
