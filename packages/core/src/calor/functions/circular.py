"""Circular and hyperbolic functions and their inverses; angles are in radians."""

from __future__ import annotations

from calor.functions.operands import pair, single
from calor.ops import elementwise as e
from calor.tensor.tensor import Operand, Tensor


def sin(x: Operand, /) -> Tensor:
    """Return the sine.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Angles in radians, of any shape; any dtype except float8. Integers and bool are computed in
        float32.

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
    Python array API standard 2024.12, ``sin``.

    Examples
    --------
    >>> import calor
    >>> calor.sin(calor.asarray([0.0])).tolist()
    [0.0]
    """
    return single(e.sin, x)


def cos(x: Operand, /) -> Tensor:
    """Return the cosine.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Angles in radians, of any shape; any dtype except float8. Integers and bool are computed in
        float32.

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
    Python array API standard 2024.12, ``cos``.

    Examples
    --------
    >>> import calor
    >>> calor.cos(calor.asarray([0.0])).tolist()
    [1.0]
    """
    return single(e.cos, x)


def tan(x: Operand, /) -> Tensor:
    """Return the tangent.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Angles in radians, of any shape; any dtype except float8. Integers and bool are computed in
        float32.

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
    Python array API standard 2024.12, ``tan``.

    Examples
    --------
    >>> import calor
    >>> calor.tan(calor.asarray([0.0])).tolist()
    [0.0]
    """
    return single(e.tan, x)


def asin(x: Operand, /) -> Tensor:
    """Return the inverse sine: the angle in [−π/2, π/2] whose sine is x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        Angles in radians. The shape of ``x``; its dtype if that is floating or complex, else
        float32. NaN for real numbers outside [−1, 1].

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``asin``.

    Examples
    --------
    >>> import calor
    >>> calor.asin(calor.asarray([0.0])).tolist()
    [0.0]
    """
    return single(e.asin, x)


def acos(x: Operand, /) -> Tensor:
    """Return the inverse cosine: the angle in [0, π] whose cosine is x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        Angles in radians. The shape of ``x``; its dtype if that is floating or complex, else
        float32. NaN for real numbers outside [−1, 1].

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``acos``.

    Examples
    --------
    >>> import calor
    >>> calor.acos(calor.asarray([1.0])).tolist()
    [0.0]
    """
    return single(e.acos, x)


def atan(x: Operand, /) -> Tensor:
    """Return the inverse tangent: the angle in [−π/2, π/2] whose tangent is x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        Angles in radians. The shape of ``x``; its dtype if that is floating or complex, else
        float32.

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``atan``.

    Examples
    --------
    >>> import calor
    >>> calor.atan(calor.asarray([0.0])).tolist()
    [0.0]
    """
    return single(e.atan, x)


def atan2(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the angle of the point (x2, x1) from the positive x axis.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        The second coordinates; any real dtype.
    x2 : Tensor, ndarray or number
        The first coordinates. Broadcast against ``x1``.

    Returns
    -------
    Tensor
        Angles in [−π, π], in radians. The broadcast shape; the common dtype if it is floating, else
        float32.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If there is no common dtype, or it is complex or float8.
    OverflowError
        If a Python integer does not fit the integer dtype of the other operand.

    Notes
    -----
    The signs of both coordinates choose the quadrant.

    References
    ----------
    Python array API standard 2024.12, ``atan2``.

    Examples
    --------
    >>> import calor
    >>> calor.atan2(calor.asarray([0.0]), 1.0).tolist()
    [0.0]
    """
    return pair(e.atan2, x1, x2)


def sinh(x: Operand, /) -> Tensor:
    """Return the hyperbolic sine.

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
    Python array API standard 2024.12, ``sinh``.

    Examples
    --------
    >>> import calor
    >>> calor.sinh(calor.asarray([0.0])).tolist()
    [0.0]
    """
    return single(e.sinh, x)


def cosh(x: Operand, /) -> Tensor:
    """Return the hyperbolic cosine.

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
    Python array API standard 2024.12, ``cosh``.

    Examples
    --------
    >>> import calor
    >>> calor.cosh(calor.asarray([0.0])).tolist()
    [1.0]
    """
    return single(e.cosh, x)


def tanh(x: Operand, /) -> Tensor:
    """Return the hyperbolic tangent.

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
    Python array API standard 2024.12, ``tanh``.

    Examples
    --------
    >>> import calor
    >>> calor.tanh(calor.asarray([0.0, calor.inf])).tolist()
    [0.0, 1.0]
    """
    return single(e.tanh, x)


def asinh(x: Operand, /) -> Tensor:
    """Return the inverse hyperbolic sine.

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
    Python array API standard 2024.12, ``asinh``.

    Examples
    --------
    >>> import calor
    >>> calor.asinh(calor.asarray([0.0])).tolist()
    [0.0]
    """
    return single(e.asinh, x)


def acosh(x: Operand, /) -> Tensor:
    """Return the inverse hyperbolic cosine.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating or complex, else float32. NaN for real
        numbers below 1.

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``acosh``.

    Examples
    --------
    >>> import calor
    >>> calor.acosh(calor.asarray([1.0])).tolist()
    [0.0]
    """
    return single(e.acosh, x)


def atanh(x: Operand, /) -> Tensor:
    """Return the inverse hyperbolic tangent.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating or complex, else float32. NaN for real
        numbers outside [−1, 1].

    Raises
    ------
    DTypeError
        If ``x`` is float8, or no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``atanh``.

    Examples
    --------
    >>> import calor
    >>> calor.atanh(calor.asarray([0.0, 1.0])).tolist()
    [0.0, inf]
    """
    return single(e.atanh, x)
