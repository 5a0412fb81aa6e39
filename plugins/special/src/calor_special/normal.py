"""The quantile of the normal distribution, and entropy element by element."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import math
from typing import Any

from calor.functions.rows import elementwise, polynomial
from calor.ops import elementwise as e
from calor.ops import rules
from calor.ops.movement import fill
from calor.reference import special_coefficients as core
from calor.tensor.tensor import Operand, Tensor
from calor_special import tables
from calor_special.tools import fitted

__all__ = ["entr", "ndtri"]

_ROOT_TWO = math.sqrt(2)


def _tail(p: Any) -> Any:
    """Return the quantile of a probability below 0.15, by the root of −log(2 p)."""
    s = e.sqrt(-e.log(p * 2))
    near = polynomial((s - 1.78125) / 0.71875, core.ERFINV_TAIL)
    middle = polynomial((s - 4.3125) / 1.8125, core.ERFINV_END)
    inner = e.where(s < 2.5, near, middle)
    return -(s * e.where(s < 6.125, inner, fitted(s, tables.QUANTILE_FAR, 6.125, 27.5))) * _ROOT_TWO


def _ndtri(p: Any) -> Any:
    least = e.minimum(p, 1 - p)
    low = e.bit_and(least < 0.14, least > 0)
    tail = _tail(e.where(low, least, fill(p, 0.1)))
    middle = e.erfinv(e.where(low, fill(p, 0), p * 2 - 1)) * _ROOT_TWO
    made = e.where(low, e.where(p < 0.5, tail, -tail), middle)
    # 2 p − 1 is −1 for a small negative number.
    return e.where(e.bit_or(p < 0, p > 1), fill(p, math.nan), made)


def _entr(x: Any) -> Any:
    positive = x > 0
    inner = -(x * e.log(e.where(positive, x, fill(x, 1))))
    made = e.where(positive, inner, e.where(x < 0, fill(x, -math.inf), x))
    return e.where(e.equal(x, fill(x, 0)), fill(x, 0), made)


@elementwise(
    rules.real_floats,
    _ndtri,
    derivatives=(lambda y, p: e.exp(y * y * 0.5) * math.sqrt(2 * math.pi),),
    saves=("y",),
    package="special",
)
def ndtri(x: Operand, /) -> Tensor:
    """Return the number below which a standard normal number is with probability x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. ±inf at 0 and 1,
        NaN outside [0, 1].

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.special.ndtri(calor.asarray([0.0, 0.5, 1.0])).tolist()
    [-inf, 0.0, inf]
    """


@elementwise(
    rules.real_floats,
    _entr,
    derivatives=(lambda y, x: -e.log(x) - 1,),
    saves=("0",),
    package="special",
)
def entr(x: Operand, /) -> Tensor:
    """Return −x log x, the terms of an entropy.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. 0 at 0, −inf for negative
        numbers.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.special.entr(calor.asarray([0.0, -1.0])).tolist()
    [0.0, -inf]
    """
