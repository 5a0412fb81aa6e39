"""Bits of integers and truth values."""

from __future__ import annotations

from calor.functions.operands import pair, single
from calor.ops import elementwise as e
from calor.tensor.tensor import Operand, Tensor


def bitwise_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the bits that are set in both operands.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Integers or bool, any shape.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If the common dtype is neither an integer dtype nor bool.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    References
    ----------
    Python array API standard 2024.12, ``bitwise_and``.

    Examples
    --------
    >>> import calor
    >>> calor.bitwise_and(calor.asarray([6]), 3).tolist()
    [2]
    """
    return pair(e.bit_and, x1, x2)


def bitwise_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the bits that are set in at least one operand.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Integers or bool, any shape.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If the common dtype is neither an integer dtype nor bool.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    References
    ----------
    Python array API standard 2024.12, ``bitwise_or``.

    Examples
    --------
    >>> import calor
    >>> calor.bitwise_or(calor.asarray([6]), 3).tolist()
    [7]
    """
    return pair(e.bit_or, x1, x2)


def bitwise_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the bits that are set in exactly one operand.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Integers or bool, any shape.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If the common dtype is neither an integer dtype nor bool.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    References
    ----------
    Python array API standard 2024.12, ``bitwise_xor``.

    Examples
    --------
    >>> import calor
    >>> calor.bitwise_xor(calor.asarray([6]), 3).tolist()
    [5]
    """
    return pair(e.bit_xor, x1, x2)


def bitwise_invert(x: Operand, /) -> Tensor:
    """Return all bits inverted.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Integers or bool, any shape.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    DTypeError
        If ``x`` is neither of integers nor bool, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``bitwise_invert``.

    Examples
    --------
    >>> import calor
    >>> calor.bitwise_invert(calor.asarray([0, 5])).tolist()
    [-1, -6]
    """
    return single(e.bit_not, x)


def bitwise_left_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 with its bits shifted to higher positions.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Integers, any shape.
    x2 : Tensor, ndarray or number
        By how many bits. Broadcast against ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype. 0 where ``x2`` is at least the number of bits.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If an operand is not of integers, or there is no common dtype.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    References
    ----------
    Python array API standard 2024.12, ``bitwise_left_shift``.

    Examples
    --------
    >>> import calor
    >>> calor.bitwise_left_shift(calor.asarray([3]), 2).tolist()
    [12]
    """
    return pair(e.shift_left, x1, x2)


def bitwise_right_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 with its bits shifted to lower positions; the sign is kept.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Integers, any shape.
    x2 : Tensor, ndarray or number
        By how many bits. Broadcast against ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype. Where ``x2`` is at least the number of bits, 0, or −1
        for negative ``x1``.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If an operand is not of integers, or there is no common dtype.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    References
    ----------
    Python array API standard 2024.12, ``bitwise_right_shift``.

    Examples
    --------
    >>> import calor
    >>> calor.bitwise_right_shift(calor.asarray([-8]), 2).tolist()
    [-2]
    """
    return pair(e.shift_right, x1, x2)
