"""Convolutions of sequences, and angles without jumps."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

from calor import dtypes
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.activation import floating
from calor.functions.arguments import one_axis
from calor.functions.complex_parts import conj
from calor.functions.elementwise import remainder
from calor.functions.joining import concat, pad
from calor.functions.manipulation import expand_dims, flip, moveaxis, reshape
from calor.functions.operands import as_tensor, together
from calor.functions.reductions import cumulative_sum
from calor.functions.reductions import sum as total
from calor.functions.searching import where
from calor.functions.signs import abs as magnitude
from calor.ops.composites import like, wide
from calor.ops.contraction import conv
from calor.tensor.tensor import Operand, Tensor

Part = Literal["full", "same", "valid"]
_PARTS = get_args(Part)
# The size of a triangle that is multiplied as a square with zeros.
_TRIANGLE = 128


def _slid(long: Tensor, short: Tensor, mode: str) -> Tensor:
    """Return the sums of products of a sequence with another one at each place along it.

    An element that is not finite is in the sums that it belongs to and in no other: nothing is
    padded with zeros, whose product with it is NaN.
    """
    over = short.size - 1
    made = _overlaps(long, reshape(short, (1, short.size)))[0]
    if mode == "valid" or not over:
        return made
    if long.dtype.is_inexact:
        long, short = wide(long), wide(short)
    begin = _causal(long[:over], flip(short)[None, :over])[0]
    end = flip(_causal(flip(long)[:over], short[None, :over])[0])
    if mode == "same":
        begin, end = begin[over // 2 :], end[: over // 2]
    return concat((like(begin, made), made, like(end, made)))


def _overlaps(long: Tensor, short: Tensor) -> Tensor:
    """Return the sums where the rows of ``short`` (rows, M) overlap ``long`` (N,) completely."""
    rows, size = short.shape
    made: Tensor = conv(
        reshape(long, (1, 1, long.size)),
        reshape(short, (rows, 1, size)),
        stride=(1,),
        padding=((0, 0),),
        dilation=(1,),
        groups=1,
    )
    return reshape(made, (rows, long.size - size + 1))


def _causal(x: Tensor, rows: Tensor) -> Tensor:
    """Return Σ x[i − k] · rows[:, k] over k ≤ i, for vectors x (n,) and rows (count, n).

    It is a product with a triangle. A half of a long one is two triangles of half the size, which
    are equal, and a square, which is a convolution without ends.
    """
    count, n = rows.shape
    if n <= _TRIANGLE:
        distance = np.arange(n)[:, None] - np.arange(n)
        inside = as_tensor(distance >= 0, x)
        moved = where(inside, x[as_tensor(np.maximum(distance, 0), x)], 0)
        terms = where(inside, expand_dims(rows, 1), 0) * moved
        return total(terms, axis=-1, dtype=x.dtype)
    half = -(-n // 2)
    # What fills an odd half comes behind all that is returned.
    low, high = rows[:, :half], pad(rows[:, half:], ((0, 0), (0, 2 * half - n)))
    both = _causal(x[:half], concat((low, high)))
    square = _overlaps(x[1:], flip(low, axis=1))
    return concat((both[:count], both[count:, : n - half] + square), axis=1)


def _vectors(x1: Operand, x2: Operand, mode: str, what: str) -> tuple[Tensor, Tensor]:
    a, b = together((x1, x2), what)
    if mode not in _PARTS:
        raise ArgumentError(f"{what}: mode {mode!r} is none of {', '.join(_PARTS)}")
    if a.ndim != 1 or b.ndim != 1 or not a.size or not b.size:
        raise ShapeError(f"{what}: shapes {a.shape} and {b.shape}; give two vectors with elements")
    if a.dtype is dtypes.bool_:
        raise DTypeError(f"{what}: bool has no products; cast it first")
    return a, b


def convolve(x1: Operand, x2: Operand, /, mode: Part = "full") -> Tensor:
    """Return the convolution of two sequences.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        A vector with N elements, at least 1.
    x2 : Tensor, ndarray or number
        A vector with M elements, at least 1.
    mode : {"full", "same", "valid"}, optional
        Which part is returned: all N + M − 1 elements (the default), the middle max(N, M), or those
        for which both sequences overlap completely.

    Returns
    -------
    Tensor
        A vector of the common dtype.

    Raises
    ------
    ArgumentError
        If ``mode`` is another name.
    ShapeError
        If an operand is no vector with elements.
    DTypeError
        If the dtypes have no common one, or it is bool or float8.

    Examples
    --------
    >>> import calor
    >>> calor.convolve(calor.asarray([1, 2, 3]), calor.asarray([0, 1])).tolist()
    [0, 1, 2, 3]
    """
    a, b = _vectors(x1, x2, mode, "convolve")
    long, short = (a, b) if a.size >= b.size else (b, a)
    return _slid(long, flip(short), mode)


def correlate(x1: Operand, x2: Operand, /, mode: Part = "valid") -> Tensor:
    """Return the correlation of two sequences.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        A vector with N elements, at least 1.
    x2 : Tensor, ndarray or number
        A vector with M elements, at least 1, of which the conjugate is taken.
    mode : {"full", "same", "valid"}, optional
        Which part is returned, as by `convolve`. By default "valid".

    Returns
    -------
    Tensor
        A vector of the common dtype.

    Raises
    ------
    ArgumentError
        If ``mode`` is another name.
    ShapeError
        If an operand is no vector with elements.
    DTypeError
        If the dtypes have no common one, or it is bool or float8.

    Examples
    --------
    >>> import calor
    >>> calor.correlate(calor.asarray([1, 2, 3]), calor.asarray([0, 1])).tolist()
    [2, 3]
    """
    a, b = _vectors(x1, x2, mode, "correlate")
    # The products are the same for the longer one behind, in the opposite order of places.
    return _slid(a, conj(b), mode) if a.size >= b.size else flip(_slid(conj(b), a, mode))


def unwrap(
    x: Operand, /, *, discont: float | None = None, axis: int = -1, period: float = 2 * math.pi
) -> Tensor:
    """Return angles of which neighbours differ by no more than half a period.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Angles, real; at least one axis.
    discont : float, optional
        The least difference that counts as a jump. By default half a period.
    axis : int, optional
        The axis to go along. By default the last.
    period : float, optional
        What is added or taken a whole number of times. By default 2π.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, or of integers with a whole period.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.unwrap(calor.asarray([0.0, 3.0, 1.0]), period=4).tolist()
    [0.0, -1.0, -3.0]
    """
    x = as_tensor(x)
    if not (x.dtype.is_integer and isinstance(period, int)):
        x = floating(x, "unwrap")
    along = one_axis(axis, x.shape, "unwrap")
    line = moveaxis(x, along, -1)
    steps = line[..., 1:] - line[..., :-1]
    odd = not x.dtype.is_inexact and period % 2
    half = period / 2 if x.dtype.is_inexact else period // 2
    near = remainder(steps + half, period) - half
    if not odd:
        near = where((near == -half) & (steps > 0), half, near)
    least = period / 2 if discont is None else max(discont, period / 2)
    corrected = where(magnitude(steps) < least, 0.0, near - steps)
    added = line[..., 1:] + cumulative_sum(corrected, axis=-1, dtype=line.dtype)
    return moveaxis(concat((line[..., :1], added), axis=-1), -1, along)
