"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

from calor import dtypes
from calor.errors import ArgumentError, ShapeError
from calor.functions.arguments import integer
from calor.functions.creation import full
from calor.functions.joining import concat, pad
from calor.functions.manipulation import reshape
from calor.functions.operands import as_operands, together
from calor.functions.ranges import arange
from calor.tensor.tensor import Operand, Tensor
from calor.transforms.control import scan
from calor_numerics.filters import convolve


def _coefficients(p: Operand, what: str, beside: Operand = 0) -> Tensor:
    made = as_operands(p, beside)[0]
    if made.ndim > 1:
        raise ShapeError(f"{what}: coefficients of shape {made.shape}; give a vector")
    return reshape(made, (made.size,))


def polyval(p: Operand, x: Operand, /) -> Tensor:
    """Return the values of a polynomial.

    Parameters
    ----------
    p : Tensor, ndarray or number
        A vector of coefficients, the highest power first.
    x : Tensor, ndarray or number
        The points, of any shape.

    Returns
    -------
    Tensor
        The shape of ``x``, the common dtype.

    Raises
    ------
    ShapeError
        If ``p`` is no vector.
    DTypeError
        If the dtypes have no common one.

    Notes
    -----
    Horner's rule in a `calor.scan`.

    Examples
    --------
    >>> import calor
    >>> calor.polyval(calor.asarray([1, 0, -2]), calor.asarray([2, 3])).tolist()
    [2, 7]
    """
    coefficients, points = together(
        (_coefficients(p, "polyval", x), as_operands(p, x)[1]), "polyval"
    )
    start = points * 0
    if not coefficients.size:
        return start
    value: Tensor = scan(lambda sum, c: (sum * points + c, None), start, coefficients)[0]
    return value


def polyadd(p1: Operand, p2: Operand, /) -> Tensor:
    """Return the sum of two polynomials.

    Parameters
    ----------
    p1 : Tensor, ndarray or number
        A vector of coefficients, the highest power first.
    p2 : Tensor, ndarray or number
        A vector of coefficients.

    Returns
    -------
    Tensor
        As many coefficients as the longer operand has; the common dtype.

    Raises
    ------
    ShapeError
        If an operand is no vector.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> calor.polyadd(calor.asarray([1, 2, 3]), calor.asarray([10])).tolist()
    [1, 2, 13]
    """
    a, b = _aligned(p1, p2, "polyadd")
    return a + b


def polysub(p1: Operand, p2: Operand, /) -> Tensor:
    """Return the difference of two polynomials.

    Parameters
    ----------
    p1 : Tensor, ndarray or number
        A vector of coefficients, the highest power first.
    p2 : Tensor, ndarray or number
        A vector of coefficients, which are taken away.

    Returns
    -------
    Tensor
        As many coefficients as the longer operand has; the common dtype.

    Raises
    ------
    ShapeError
        If an operand is no vector.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> calor.polysub(calor.asarray([1, 2, 3]), calor.asarray([10])).tolist()
    [1, 2, -7]
    """
    a, b = _aligned(p1, p2, "polysub")
    return a - b


def _aligned(p1: Operand, p2: Operand, what: str) -> tuple[Tensor, Tensor]:
    a, b = together((_coefficients(p1, what, p2), _coefficients(p2, what, p1)), what)
    size = max(a.size, b.size)
    return pad(a, ((size - a.size, 0),)), pad(b, ((size - b.size, 0),))


def polymul(p1: Operand, p2: Operand, /) -> Tensor:
    """Return the product of two polynomials.

    Parameters
    ----------
    p1 : Tensor, ndarray or number
        A vector of coefficients, at least one, the highest power first.
    p2 : Tensor, ndarray or number
        A vector of coefficients, at least one.

    Returns
    -------
    Tensor
        One coefficient less than both have together; the common dtype.

    Raises
    ------
    ShapeError
        If an operand is no vector with elements.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> calor.polymul(calor.asarray([1, 1]), calor.asarray([1, -1])).tolist()
    [1, 0, -1]
    """
    return convolve(_coefficients(p1, "polymul", p2), _coefficients(p2, "polymul", p1))


def _order(m: int, what: str) -> int:
    times = integer(m, f"{what}: m")
    if times < 0:
        raise ArgumentError(f"{what}: m is {times}; give at least 0")
    return times


def polyder(p: Operand, m: int = 1, /) -> Tensor:
    """Return the m-th derivative of a polynomial.

    Parameters
    ----------
    p : Tensor, ndarray or number
        A vector of coefficients, the highest power first.
    m : int, optional
        How often it is differentiated, at least 0. By default once.

    Returns
    -------
    Tensor
        ``m`` coefficients less, at least none; the dtype of ``p``.

    Raises
    ------
    ArgumentError
        If ``m`` is negative.
    ShapeError
        If ``p`` is no vector.
    DTypeError
        If ``p`` is no tensor, array or number.
    TypeError
        If ``m`` is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.polyder(calor.asarray([1, 2, 3])).tolist()
    [2, 2]
    """
    made = _coefficients(p, "polyder")
    for _ in range(_order(m, "polyder")):
        size = max(made.size - 1, 0)
        powers = arange(size, 0, -1, dtype="int64", device=made.device)
        made = made[:size] * powers.astype(made.dtype)
    return made


def polyint(p: Operand, m: int = 1, /, k: float = 0) -> Tensor:
    """Return the m-th antiderivative of a polynomial.

    Parameters
    ----------
    p : Tensor, ndarray or number
        A vector of coefficients, the highest power first.
    m : int, optional
        How often it is integrated, at least 0. By default once.
    k : float, optional
        The constant of each integral. By default 0.

    Returns
    -------
    Tensor
        ``m`` coefficients more; a floating dtype.

    Raises
    ------
    ArgumentError
        If ``m`` is negative.
    ShapeError
        If ``p`` is no vector.
    DTypeError
        If ``p`` is no tensor, array or number.
    TypeError
        If ``m`` is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.polyint(calor.asarray([2.0, 2.0]), k=3).tolist()
    [1.0, 2.0, 3.0]
    """
    made = _coefficients(p, "polyint")
    made = made if made.dtype.is_inexact else made.astype(dtypes.default_float())
    for _ in range(_order(m, "polyint")):
        powers = arange(made.size, 0, -1, dtype="int64", device=made.device)
        constant = full((1,), k, dtype=made.dtype, device=made.device)
        made = concat((made / powers.astype(made.dtype), constant))
    return made
