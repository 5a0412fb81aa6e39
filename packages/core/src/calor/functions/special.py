"""The error function, the gamma function, and functions derived from them."""

from __future__ import annotations

from calor.functions.operands import single
from calor.ops import elementwise as e
from calor.tensor.tensor import Operand, Tensor


def erf(x: Operand, /) -> Tensor:
    """Return the error function 2/√π ∫₀ˣ exp(−t²) dt.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any real dtype. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. Values in [−1, 1].

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8, or no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.erf(calor.asarray([0.0, calor.inf])).tolist()
    [0.0, 1.0]
    """
    return single(e.erf, x)


def erfinv(x: Operand, /) -> Tensor:
    """Return the inverse of the error function.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any real dtype. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. ±inf at ±1, NaN outside
        [−1, 1].

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8, or no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.erfinv(calor.asarray([0.0, 1.0])).tolist()
    [0.0, inf]
    """
    return single(e.erfinv, x)


def lgamma(x: Operand, /) -> Tensor:
    """Return log |Γ(x)|, the logarithm of the gamma function.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any real dtype. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. inf at 0 and at negative
        whole numbers.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8, or no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.lgamma(calor.asarray([0.0, calor.inf])).tolist()
    [inf, inf]
    """
    return single(e.lgamma, x)


def digamma(x: Operand, /) -> Tensor:
    """Return the derivative of log Γ(x).

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any real dtype. Integers and bool are computed in float32.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. NaN at negative whole
        numbers.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8, or no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.digamma(calor.asarray([calor.inf])).tolist()
    [inf]
    """
    return single(e.digamma, x)
