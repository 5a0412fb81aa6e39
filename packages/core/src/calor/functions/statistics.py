"""Means, variances, quantiles, and logarithms of sums.

Requirements: half types are averaged in float32, so that a sum above their range does no harm;
variances subtract the mean first (two passes), so that a large mean costs no digits.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from calor import dtypes
from calor.dtypes import DType
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.activation import inexact
from calor.functions.arguments import many_axes
from calor.functions.complex_parts import conj, real
from calor.functions.creation import asarray
from calor.functions.joining import split
from calor.functions.manipulation import permute_dims, reshape
from calor.functions.operands import as_tensor, first_tensor, pair, select, single, stretched
from calor.functions.reductions import kept
from calor.ops import elementwise as e
from calor.ops import indexing as i
from calor.ops import reductions as r
from calor.ops.sources import sized_number
from calor.sizes import is_size
from calor.tensor.tensor import Axis, Operand, Tensor
from calor.tensor.values import Handle

Method = Literal["linear", "lower", "higher", "midpoint", "nearest"]
METHODS = get_args(Method)


def _averaged(x: Any) -> tuple[Tensor, DType, DType]:
    """Return the operand in the dtype that averages are computed in, and the result's dtype."""
    x = as_tensor(x)
    out = dtypes.float_of(x.dtype)
    work = dtypes.float32 if out.itemsize < 4 else out
    return (x if x.dtype is work else e.cast(x, dtype=work)), work, out


def _count(x: Tensor, axes: tuple[int, ...]) -> int:
    return math.prod(x.shape[a] for a in axes)


def _mean(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    total = kept(r.sum(x, axes=axes, dtype=x.dtype), x, axes, keepdims)
    count = _count(x, axes)
    if is_size(count):
        return pair(e.div, total, sized_number(count, total.dtype))
    return pair(e.div, total, float(count))


def mean(x: Operand, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Return the arithmetic mean over axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Half types are averaged in float32.
    axis : int or tuple of int, optional
        The axes to reduce, negative ones counted from the last. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        The dtype of ``x`` if it is floating or complex, else float32. NaN where there is nothing to
        average.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If an axis is named twice.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``mean``.

    Examples
    --------
    >>> import calor
    >>> calor.mean(calor.asarray([[1.0, 3.0], [5.0, 7.0]]), axis=0).tolist()
    [3.0, 5.0]
    """
    x, work, out = _averaged(x)
    result = _mean(x, many_axes(axis, x.shape, "mean"), keepdims)
    return result if out is work else e.cast(result, dtype=out)


def _variance(x: Tensor, axes: tuple[int, ...], correction: float, keepdims: bool) -> Tensor:
    deviation = pair(e.sub, x, _mean(x, axes, True))
    if x.dtype.is_complex:
        square = real(pair(e.mul, deviation, conj(deviation)))
    else:
        square = pair(e.mul, deviation, deviation)
    total = kept(r.sum(square, axes=axes, dtype=square.dtype), x, axes, keepdims)
    return pair(e.div, total, float(max(_count(x, axes) - correction, 0)))


def var(
    x: Operand, /, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """Return the variance over axes: the sum of squared deviations divided by n − correction.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Half types are computed in float32.
    axis : int or tuple of int, optional
        The axes to reduce, negative ones counted from the last. All of them by default.
    correction : float, optional
        What is subtracted from the number n of elements. By default 0; 1 gives the unbiased
        estimate.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        Real: the dtype of ``x`` if it is floating, that of its parts if it is complex, else
        float32. NaN or inf where n is not above the correction.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If an axis is named twice.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``var``.

    Examples
    --------
    >>> import calor
    >>> calor.var(calor.asarray([1.0, 3.0])).item()
    1.0
    """
    x, work, out = _averaged(x)
    axes = many_axes(axis, x.shape, "var")
    result = _variance(x, axes, correction, keepdims)
    return result if out is work else e.cast(result, dtype=dtypes.real_of(out))


def std(
    x: Operand, /, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """Return the standard deviation over axes, the square root of `var`.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Half types are computed in float32.
    axis : int or tuple of int, optional
        The axes to reduce, negative ones counted from the last. All of them by default.
    correction : float, optional
        What is subtracted from the number n of elements. By default 0; 1 divides by n − 1.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        Real: the dtype of ``x`` if it is floating, that of its parts if it is complex, else
        float32.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If an axis is named twice.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``std``.

    Examples
    --------
    >>> import calor
    >>> calor.std(calor.asarray([1.0, 5.0])).item()
    2.0
    """
    x, work, out = _averaged(x)
    axes = many_axes(axis, x.shape, "std")
    result = single(e.sqrt, _variance(x, axes, correction, keepdims))
    return result if out is work else e.cast(result, dtype=dtypes.real_of(out))


def logsumexp(x: Operand, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Return log(Σ exp(x)) over axes without overflow.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; a real dtype.
    axis : int or tuple of int, optional
        The axes to reduce, negative ones counted from the last. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        The dtype of ``x`` if it is floating, else float32. −inf where there is nothing to sum.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If an axis is named twice.
    DTypeError
        If ``x`` is float8.

    Examples
    --------
    >>> import calor
    >>> calor.logsumexp(calor.asarray([1000.0, -calor.inf])).item()
    1000.0
    """
    x = inexact(x, "logsumexp")
    axes = many_axes(axis, x.shape, "logsumexp")
    if not _count(x, axes):
        total = kept(r.sum(x, axes=axes, dtype=x.dtype), x, axes, keepdims)
        return single(e.log, total)
    # The largest element only keeps exp in range: the result does not depend on it, so no gradient
    # goes through it. Where it is infinite it would give inf − inf, so it is left out there.
    parts = real(x) if x.dtype.is_complex else x
    top = kept(r.max(parts.detach(), axes=axes), x, axes, True)
    top = select(single(e.isfinite, top), top, 0)
    powers = single(e.exp, pair(e.sub, x, top))
    total = single(e.log, kept(r.sum(powers, axes=axes, dtype=x.dtype), x, axes, True))
    result = pair(e.add, total, top)
    shape = tuple(n for a, n in enumerate(result.shape) if keepdims or a not in axes)
    return reshape(result, shape)


def _in_order(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return the elements over the axes as one last axis, sorted."""
    rest = tuple(a for a in range(x.ndim) if a not in axes)
    moved = permute_dims(x, rest + axes)
    flat = reshape(moved, (*(x.shape[a] for a in rest), _count(x, axes)))
    ordered: Tensor = i.sort(flat, axis=flat.ndim - 1, descending=False)[0]
    return ordered


def quantile(
    x: Operand,
    q: float | Tensor,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    method: Method = "linear",
) -> Tensor:
    """Return quantiles over axes, interpolated linearly between the two nearest elements.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape with elements along the axes; a real dtype.
    q : float or Tensor
        Levels between 0 and 1.
    axis : int or tuple of int, optional
        The axes to reduce, negative ones counted from the last. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.
    method : {"linear", "lower", "higher", "midpoint", "nearest"}, optional
        What is returned between two elements: a number in proportion (the default), the smaller,
        the larger, their mean, or the nearer one (at the same distance that of even rank).

    Returns
    -------
    Tensor
        The axes of ``q``, then those of ``x`` that are left; the dtype of ``x`` if it is floating,
        else float32. NaN where an element is NaN.

    Raises
    ------
    ArgumentError
        If the number ``q`` is outside [0, 1], or ``method`` is another name.
    ShapeError
        If an axis is empty, or named twice.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is complex or float8.
    ElementIndexError
        When the result is computed, if a level in a tensor is above 1.

    Examples
    --------
    >>> import calor
    >>> calor.quantile(calor.asarray([1.0, 2.0, 3.0, 4.0]), 0.5).item()
    2.5
    """
    return quantile_of(x, q, axis, keepdims, method, False, "quantile")


def quantile_of(
    x: Operand,
    q: float | Tensor,
    axis: Axis,
    keepdims: bool,
    method: str,
    without_nan: bool,
    what: str,
) -> Tensor:
    """Return quantiles, of all elements or of those that are not NaN."""
    x, work, out = _averaged(as_tensor(x, first_tensor(x, q)))
    if work.is_complex:
        raise DTypeError(f"{what}: complex numbers have no order")
    if method not in METHODS:
        raise ArgumentError(f"{what}: method {method!r} is none of {', '.join(METHODS)}")
    axes = many_axes(axis, x.shape, what)
    size = _count(x, axes)
    if not size:
        raise ShapeError(f"{what}: shape {x.shape} is empty over axes {axes}")
    if isinstance(q, int | float) and not 0 <= q <= 1:
        raise ArgumentError(f"{what}: q is {q}; it must be between 0 and 1")
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape) if keepdims or a not in axes)
    ordered = _in_order(x, axes)
    # A number is taken in the dtype that places are computed in: float32 has 0.1 less exactly.
    level = as_tensor(q, x) if isinstance(q, Handle) else asarray(q, dtype=work, device=x.device)
    levels = e.cast(reshape(level, (level.size,)), dtype=work)
    last = ordered.ndim - 1
    rows = ordered.shape[:last]
    steps: Any = float(size - 1)
    if without_nan:
        known = e.cast(single(e.bit_not, single(e.isnan, ordered)), dtype=dtypes.int64)
        counts = r.sum(known, axes=(last,), dtype=dtypes.int64)
        steps = pair(e.maximum, pair(e.sub, e.cast(counts, dtype=work), 1.0), 0.0)
        steps = reshape(steps, (*rows, 1))
    result = _between(ordered, pair(e.mul, levels, steps), method)
    if not without_nan:
        largest = split(ordered, (size - 1, 1), axis=last)[1]
        result = select(single(e.isnan, largest), largest, result)
    order = (last, *range(last))
    result = reshape(permute_dims(result, order), level.shape + shape)
    return result if out is work else e.cast(result, dtype=out)


def _between(ordered: Tensor, place: Tensor, method: str) -> Tensor:
    """Return what stands at places of the sorted last axis, which may lie between elements."""
    last = ordered.ndim - 1
    shape = (*ordered.shape[:last], place.shape[-1])

    def at(where: Tensor) -> Tensor:
        number = e.cast(where, dtype=dtypes.int64)
        if number.ndim == 1:
            found: Tensor = i.gather(ordered, number, axis=last)
            return found
        made: Tensor = i.take_along(ordered, stretched(number, shape), axis=last)
        return made

    if method == "nearest":
        return at(single(e.round, place))
    below, above = single(e.floor, place), single(e.ceil, place)
    if method in ("lower", "higher"):
        return at(below if method == "lower" else above)
    share = pair(e.sub, place, below)
    if method == "midpoint":
        share = select(pair(e.greater, share, 0.0), 0.5, share)
    first, second = at(below), at(above)
    # Equal neighbours are not subtracted: infinities would give NaN.
    step = select(pair(e.equal, first, second), 0, pair(e.sub, second, first))
    moved = pair(e.add, first, pair(e.mul, step, share))
    # Nor are one infinite neighbour and another, or those whose difference overflows.
    parts = pair(e.mul, first, pair(e.sub, 1.0, share)), pair(e.mul, second, share)
    return select(single(e.isfinite, step), moved, pair(e.add, *parts))


def median(
    x: Operand, /, axis: Axis = None, *, keepdims: bool = False
) -> Tensor:  # numpydoc ignore=RS01
    """Return the median over axes; of an even number of elements the mean of the middle two.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape with elements along the axes; a real dtype.
    axis : int or tuple of int, optional
        The axes to reduce, negative ones counted from the last. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        The dtype of ``x`` if it is floating, else float32. NaN where an element is NaN.

    Raises
    ------
    ShapeError
        If an axis is empty, or named twice.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.median(calor.asarray([3.0, 1.0, 2.0, 10.0])).item()
    2.5
    """
    return quantile(x, 0.5, axis=axis, keepdims=keepdims)
