"""Arithmetic, element by element.

Tensors broadcast and promote. A Python number, or a NumPy scalar, takes the dtype of the tensor if
its kind allows; it is an input of the plan, so another number needs no other plan.
"""

from __future__ import annotations

from calor.functions.operands import as_tensor, pair
from calor.ops import elementwise as e
from calor.tensor.tensor import Operand, Tensor


def add(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 + x2.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        A numeric dtype other than float8, any shape.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``. A Python number takes the dtype of ``x1`` if its kind allows.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype. Integers wrap around.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If there is no common dtype, or it is bool or float8.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    References
    ----------
    Python array API standard 2024.12, ``add``.

    Examples
    --------
    >>> import calor
    >>> calor.add(calor.asarray([1, 2]), 10).tolist()
    [11, 12]
    """
    return pair(e.add, x1, x2)


def subtract(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 − x2.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        A numeric dtype other than float8, any shape.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype. Integers wrap around.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If there is no common dtype, or it is bool or float8.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    References
    ----------
    Python array API standard 2024.12, ``subtract``.

    Examples
    --------
    >>> import calor
    >>> calor.subtract(calor.asarray([1, 2]), 10).tolist()
    [-9, -8]
    """
    return pair(e.sub, x1, x2)


def multiply(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 · x2.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        A numeric dtype other than float8, any shape.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype. Integers wrap around.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If there is no common dtype, or it is bool or float8.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    References
    ----------
    Python array API standard 2024.12, ``multiply``.

    Examples
    --------
    >>> import calor
    >>> calor.multiply(calor.asarray([1, 2]), 10).tolist()
    [10, 20]
    """
    return pair(e.mul, x1, x2)


def divide(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 / x2.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        The dividend; any dtype except float8.
    x2 : Tensor, ndarray or number
        The divisor. Broadcast against ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape; the common dtype if it is floating or complex, else float32. Division
        by 0 gives inf or NaN.

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
    Python array API standard 2024.12, ``divide``.

    Examples
    --------
    >>> import calor
    >>> calor.divide(calor.asarray([1, 2]), 4).tolist()
    [0.25, 0.5]
    """
    return pair(e.div, x1, x2)


def floor_divide(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 / x2 rounded toward −∞.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        The dividend; a real dtype other than bool.
    x2 : Tensor, ndarray or number
        The divisor. Broadcast against ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype. An integer divided by 0 gives 0.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If there is no common dtype, or it is bool, complex or float8.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    References
    ----------
    Python array API standard 2024.12, ``floor_divide``.

    Examples
    --------
    >>> import calor
    >>> calor.floor_divide(calor.asarray([7, -7]), 2).tolist()
    [3, -4]
    """
    return pair(e.floor_divide, x1, x2)


def remainder(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 − x2 · floor(x1 / x2), which has the sign of x2.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        The dividend; a real dtype other than bool.
    x2 : Tensor, ndarray or number
        The divisor. Broadcast against ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype. An integer divided by 0 gives 0.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If there is no common dtype, or it is bool, complex or float8.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    References
    ----------
    Python array API standard 2024.12, ``remainder``.

    Examples
    --------
    >>> import calor
    >>> calor.remainder(calor.asarray([7, -7]), 4).tolist()
    [3, 1]
    """
    return pair(e.remainder, x1, x2)


def pow(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 to the power of x2.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        The base; a numeric dtype other than float8, any shape.
    x2 : Tensor, ndarray or number
        The exponent. Broadcast against ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype. Integers wrap around; negative powers of integers are
        rounded toward 0.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If there is no common dtype, or it is bool or float8.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    References
    ----------
    Python array API standard 2024.12, ``pow``.

    Examples
    --------
    >>> import calor
    >>> calor.pow(calor.asarray([2, 3]), 3).tolist()
    [8, 27]
    """
    return pair(e.power, x1, x2)


def maximum(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the larger of two elements.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        A real dtype, any shape.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype. NaN where an element is NaN.

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
    Python array API standard 2024.12, ``maximum``.

    Examples
    --------
    >>> import calor
    >>> calor.maximum(calor.asarray([1, 5]), 3).tolist()
    [3, 5]
    """
    return pair(e.maximum, x1, x2)


def minimum(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the smaller of two elements.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        A real dtype, any shape.
    x2 : Tensor, ndarray or number
        Broadcast against ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype. NaN where an element is NaN.

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
    Python array API standard 2024.12, ``minimum``.

    Examples
    --------
    >>> import calor
    >>> calor.minimum(calor.asarray([1, 5]), 3).tolist()
    [1, 3]
    """
    return pair(e.minimum, x1, x2)


def hypot(x1: Operand, x2: Operand, /) -> Tensor:
    """Return √(x1² + x2²) without overflow of the squares.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        A real dtype, any shape.
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
        If there is no common dtype, or it is complex or float8.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    References
    ----------
    Python array API standard 2024.12, ``hypot``.

    Examples
    --------
    >>> import calor
    >>> calor.hypot(calor.asarray([3.0]), 4.0).tolist()
    [5.0]
    """
    return pair(e.hypot, x1, x2)


def nextafter(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the next representable number after x1 in the direction of x2.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        A real dtype, any shape.
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
        If there is no common dtype, or it is complex or float8.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    References
    ----------
    Python array API standard 2024.12, ``nextafter``.

    Examples
    --------
    >>> import calor
    >>> calor.nextafter(calor.asarray([1.0], dtype=calor.float64), 2.0).tolist()
    [1.0000000000000002]
    """
    return pair(e.nextafter, x1, x2)


def square(x: Operand, /) -> Tensor:
    """Return x · x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        A numeric dtype other than float8, any shape.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``. Integers wrap around.

    Raises
    ------
    DTypeError
        If ``x`` is bool or float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``square``.

    Examples
    --------
    >>> import calor
    >>> calor.square(calor.asarray([3, -4])).tolist()
    [9, 16]
    """
    return pair(e.mul, x, x)


def reciprocal(x: Operand, /) -> Tensor:
    """Return 1 / x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.

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
    Python array API standard 2024.12, ``reciprocal``.

    Examples
    --------
    >>> import calor
    >>> calor.reciprocal(calor.asarray([2.0, 4.0])).tolist()
    [0.5, 0.25]
    """
    return pair(e.div, 1, as_tensor(x))
