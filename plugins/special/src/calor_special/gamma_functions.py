"""Logarithms of the beta function and of the multivariate gamma function.

Requirements: relative accuracy of log B where log Γ of a large operand and of the sum cancel
(A. R. Didonato and A. H. Morris, "Significant digit computation of the incomplete beta function
ratios", ACM Transactions on Mathematical Software 18, 1992).
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import math
from typing import Any

from calor.errors import ArgumentError
from calor.functions.arguments import integer
from calor.functions.operands import as_tensor
from calor.functions.rows import elementwise
from calor.ops import elementwise as e
from calor.ops import rules
from calor.ops.movement import fill
from calor.tensor.tensor import Operand, Tensor
from calor_special.tools import floating, stirling

__all__ = ["betaln", "multigammaln"]

_LARGE = 10.0
_HALF_LOG_TWO_PI = 0.9189385332046727


def _betaln(a: Any, b: Any) -> Any:
    given, small, large = a + b, e.minimum(a, b), e.maximum(a, b)
    # At a negative whole number two poles cancel, or B is infinite: B(−m, n) is ± B(m + 1 − n, n).
    one = fill(a, 1)
    pole = e.bit_and(small < 0, e.equal(small, e.floor(small)))
    other = one - small - large
    whole = e.bit_and(large > 0, e.equal(large, e.floor(large)))
    cancels = e.bit_and(pole, e.bit_and(whole, other > 0))
    # The other operand may be the one with the pole, below 0 too.
    pole = e.bit_or(pole, e.bit_and(large < 0, e.equal(large, e.floor(large))))
    a = e.where(cancels, other, e.where(pole, one, small))
    b = e.where(e.bit_and(pole, e.bit_not(cancels)), one, large)
    made = e.where(e.bit_and(pole, e.bit_not(cancels)), fill(a, math.inf), _log_beta(a, b))
    return e.where(e.isnan(given), given, made)


def _log_beta(a: Any, b: Any) -> Any:
    """Return log |B| away from negative whole numbers."""
    small, large = e.minimum(a, b), e.maximum(a, b)
    direct = e.lgamma(small) + (e.lgamma(large) - e.lgamma(small + large))
    low, high = e.maximum(small, fill(a, _LARGE)), e.maximum(large, fill(a, _LARGE))
    ratio = small / (small + high)
    part = stirling(high) - stirling(small + high)
    one = e.lgamma(small) + part + small - small * e.log(small + high)
    one = one + (high - 0.5) * e.log1p(-ratio)
    share = low / (low + high)
    both = stirling(low) + stirling(high) - stirling(low + high) + _HALF_LOG_TWO_PI
    both = both - e.log(high) * 0.5 + (low - 0.5) * e.log(share) + high * e.log1p(-share)
    made = e.where(small >= _LARGE, both, e.where(large >= _LARGE, one, direct))
    made = e.where(e.equal(large, fill(a, math.inf)), fill(a, -math.inf), made)
    return e.where(e.equal(small, fill(a, 0)), fill(a, math.inf), made)


@elementwise(
    rules.real_floats,
    _betaln,
    derivatives=(
        lambda y, a, b: e.digamma(a) - e.digamma(a + b),
        lambda y, a, b: e.digamma(b) - e.digamma(a + b),
    ),
    saves=("01", "01"),
    package="special",
)
def betaln(x1: Operand, x2: Operand, /) -> Tensor:
    """Return log |B(a, b)|, the logarithm of the beta function Γ(a) Γ(b) / Γ(a + b).

    Parameters
    ----------
    x1, x2 : Tensor, ndarray or number
        Shapes that broadcast; any real dtype. Integers are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The broadcast shape and common dtype; float32 for integers. inf where an operand is 0, and
        where one is a negative whole number −m unless the other is one of 1, …, m.

    Raises
    ------
    DTypeError
        If an operand is complex or float8.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.special.betaln(1.0, calor.asarray([1.0, 0.0])).tolist()
    [0.0, inf]
    """


def multigammaln(x: Operand, d: int, /) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension d.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype; above (d − 1) / 2. Integers are computed in the default floating
        dtype.
    d : int
        The dimension, at least 1.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32.

    Raises
    ------
    ArgumentError
        If ``d`` is below 1.
    TypeError
        If ``d`` is no integer.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.special.multigammaln(3.0, 1).item() == calor.lgamma(3.0).item()
    True
    """
    count = integer(d, "multigammaln: d")
    if count < 1:
        raise ArgumentError(f"multigammaln: d is {count}; pass a dimension of at least 1")
    a = floating(as_tensor(x))
    total: Any = sum((e.lgamma(a - 0.5 * j) for j in range(1, count)), e.lgamma(a))
    constant = count * (count - 1) / 4 * math.log(math.pi)
    return total + constant if constant else total  # type: ignore[no-any-return]
