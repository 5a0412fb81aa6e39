"""Logarithms of several arguments and of odds: 0 · log 0 is 0, and nothing overflows in between."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calor.functions.rows import elementwise
from calor.ops import elementwise as e
from calor.ops import rules
from calor.ops.base import Check
from calor.ops.elementwise.arithmetic import apart
from calor.ops.movement import fill
from calor.reference import elementwise as reference
from calor.tensor.tensor import Operand, Tensor

__all__ = ["logaddexp2", "logit", "xlog1py", "xlogy"]

_EDGES = "the derivative by x1 reads x1 where the logarithm is no number"


def _no_product(a: Any, b: Any) -> Any:
    """Return where a · log(b) is 0 because a is, whatever number b is."""
    return e.bit_and(e.equal(a, fill(a, 0)), e.equal(b, b))


def _times_log(logarithm: Callable[[Any], Any], one: float) -> Callable[[Any, Any], Any]:
    """Return a · logarithm(b) with 0 where a is 0; the logarithm of ``one`` is 0."""

    def product(a: Any, b: Any) -> Any:
        nothing = _no_product(a, b)
        return e.where(nothing, fill(a, 0), a * logarithm(e.where(nothing, fill(b, one), b)))

    return product


def _slopes(
    logarithm: Callable[[Any], Any], one: float
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the derivatives of a · logarithm(b); by a it is 0 where no other a has a number."""

    def edge_of(a: Any, b: Any) -> Any:
        return e.bit_and(e.equal(a, fill(a, 0)), b <= one - 1)

    def by_a(y: Any, a: Any, b: Any) -> Any:
        edge = edge_of(a, b)
        return e.where(edge, fill(a, 0), logarithm(e.where(edge, fill(b, one), b)))

    def by_b(y: Any, a: Any, b: Any) -> Any:
        # Elsewhere a zero is a number like others, in which this derivative has one too.
        edge = edge_of(a, b)
        return e.where(edge, fill(a, 0), a / e.where(edge, fill(b, 1), b + (1 - one)))

    return by_a, by_b


@elementwise(
    rules.real_floats,
    _times_log(e.log, 1),
    reference=reference.xlogy,
    derivatives=_slopes(e.log, 1),
    saves=("01", "01"),
    checks=(Check(((-3, 3), (0.25, 4)), 6, at_edges=_EDGES),),
    method=True,
)
def xlogy(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 · log(x2), and 0 where x1 is 0.

    Parameters
    ----------
    x1, x2 : Tensor, ndarray or number
        Shapes that broadcast; any real dtype. Integers are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The broadcast shape and common dtype; float32 for integers. NaN where x2 is NaN. At
        x1 = 0 the gradients are those of the constant 0 where x2 ≤ 0.

    Raises
    ------
    DTypeError
        If an operand is complex or float8.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.xlogy(calor.asarray([0.0, 2.0]), calor.asarray([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """


@elementwise(
    rules.real_floats,
    _times_log(e.log1p, 0),
    reference=reference.xlog1py,
    derivatives=_slopes(e.log1p, 0),
    saves=("01", "01"),
    checks=(Check(((-3, 3), (-0.7, 4)), 6, at_edges=_EDGES),),
)
def xlog1py(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 · log(1 + x2), accurate for small x2, and 0 where x1 is 0.

    Parameters
    ----------
    x1, x2 : Tensor, ndarray or number
        Shapes that broadcast; any real dtype. Integers are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The broadcast shape and common dtype; float32 for integers. NaN where x2 is NaN. At
        x1 = 0 the gradients are those of the constant 0 where x2 ≤ −1.

    Raises
    ------
    DTypeError
        If an operand is complex or float8.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.xlog1py(calor.asarray([0.0, 2.0]), calor.asarray([-1.0, 0.0])).tolist()
    [0.0, 0.0]
    """


def _logit(x: Any) -> Any:
    # Close to the zero at 1/2 the quotient is close to 1, and its difference from 1 is exact.
    near = e.abs(x - 0.5) < 0.25
    half = fill(x, 0.5)
    inside = e.where(near, x, half)
    outside = e.where(near, half, x)
    middle = e.log1p((inside - 0.5) * 2 / (1 - inside))
    return e.where(near, middle, e.log(outside / (1 - outside)))


@elementwise(
    rules.real_floats,
    _logit,
    reference=reference.logit,
    derivatives=(lambda y, x: 1 / (x * (1 - x)),),
    saves=("0",),
    checks=(Check(((0.05, 0.95),)),),
    method=True,
)
def logit(x: Operand, /) -> Tensor:
    """Return log(x / (1 − x)), the logarithm of odds and the inverse of ``sigmoid``.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Probabilities in [0, 1], any shape; any real dtype. Integers and booleans are computed in
        the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. −inf at 0, inf at 1, NaN
        outside.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.logit(calor.asarray([0.0, 0.5, 1.0])).tolist()
    [-inf, 0.0, inf]
    """


def _share(a: Any, b: Any) -> Any:
    """Return 1 / (1 + 2**(b − a)), of which equal infinities have a half each."""
    distance = apart(b, a)
    return e.exp2(-logaddexp2(distance, fill(distance, 0)))


def _logaddexp2(a: Any, b: Any) -> Any:
    return e.maximum(a, b) + e.log1p(e.exp2(-e.abs(apart(a, b)))) * math.log2(math.e)


@elementwise(
    rules.real_floats,
    _logaddexp2,
    reference=reference.logaddexp2,
    derivatives=(lambda y, a, b: _share(a, b), lambda y, a, b: _share(b, a)),
    saves=("01", "01"),
    checks=(Check(((-5, 5), (-5, 5)), scale=lambda a, b: np.maximum(np.abs(a), np.abs(b))),),
    method=True,
)
def logaddexp2(x1: Operand, x2: Operand, /) -> Tensor:
    """Return log2(2**x1 + 2**x2) without overflow in between.

    Parameters
    ----------
    x1, x2 : Tensor, ndarray or number
        Shapes that broadcast; any real dtype. Integers are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The broadcast shape and common dtype; float32 for integers.

    Raises
    ------
    DTypeError
        If an operand is complex or float8.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.logaddexp2(calor.asarray([1000.0]), 1000.0).tolist()
    [1001.0]
    """
