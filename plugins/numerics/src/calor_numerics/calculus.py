"""Integrals, slopes, interpolation and covariances of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor import dtypes
from calor.errors import ArgumentError, ShapeError
from calor.functions.arguments import many_axes, one_axis
from calor.functions.complex_parts import conj, imag, real
from calor.functions.indexing import take
from calor.functions.joining import concat
from calor.functions.linear_algebra import matmul
from calor.functions.logic import isnan
from calor.functions.manipulation import moveaxis, reshape, transpose
from calor.functions.operands import as_operands, as_tensor
from calor.functions.reductions import cumulative_sum
from calor.functions.reductions import sum as total
from calor.functions.rounding import clip
from calor.functions.searching import searchsorted, where
from calor.functions.transcendental import sqrt
from calor.tensor.tensor import Operand, Tensor
from calor_numerics.complex_numbers import complex


def _inexact(x: Any) -> Tensor:
    made = as_tensor(x)
    return made if made.dtype.is_inexact else made.astype(dtypes.default_float())


def _areas(y: Operand, x: Operand | None, dx: Any, axis: int, what: str) -> tuple[Tensor, int]:
    """Return the areas between neighbours, and the axis."""
    y = _inexact(y)
    along = one_axis(axis, y.shape, what)
    last = moveaxis(y, along, -1)
    width: Any = dx
    if x is not None:
        given = as_tensor(x, y)
        if given.ndim == 1:
            if given.shape[0] != y.shape[along]:
                raise ShapeError(f"{what}: {given.shape[0]} points for {y.shape[along]} values")
        else:
            given = moveaxis(given, one_axis(axis, given.shape, what), -1)
        width = given[..., 1:] - given[..., :-1]
    return (last[..., 1:] + last[..., :-1]) * width / 2, along


def trapezoid(
    y: Operand, x: Operand | None = None, /, *, dx: float = 1.0, axis: int = -1
) -> Tensor:
    """Return the integral of samples along an axis by the trapezoidal rule.

    Parameters
    ----------
    y : Tensor, ndarray or number
        The values; at least one axis.
    x : Tensor, ndarray or number, optional
        The points: one for each value along the axis, or in a shape that broadcasts with ``y``. By
        default the values are ``dx`` apart.
    dx : float, optional
        The distance of neighbours without ``x``. By default 1.
    axis : int, optional
        The axis to integrate along. By default the last.

    Returns
    -------
    Tensor
        The shape without the axis; the common floating dtype.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``y``.
    ShapeError
        If ``x`` does not fit.
    DTypeError
        If an operand is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.trapezoid(calor.asarray([1.0, 2.0, 3.0])).item()
    4.0
    """
    areas, _ = _areas(y, x, dx, axis, "trapezoid")
    return total(areas, axis=-1)


def cumulative_trapezoid(
    y: Operand, x: Operand | None = None, /, *, dx: float = 1.0, axis: int = -1
) -> Tensor:
    """Return the integrals of samples up to each but the first, by the trapezoidal rule.

    Parameters
    ----------
    y : Tensor, ndarray or number
        The values; at least one axis.
    x : Tensor, ndarray or number, optional
        The points: one for each value along the axis, or in a shape that broadcasts with ``y``. By
        default the values are ``dx`` apart.
    dx : float, optional
        The distance of neighbours without ``x``. By default 1.
    axis : int, optional
        The axis to integrate along. By default the last.

    Returns
    -------
    Tensor
        One element less along the axis; the common floating dtype.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``y``.
    ShapeError
        If ``x`` does not fit.
    DTypeError
        If an operand is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.cumulative_trapezoid(calor.asarray([1.0, 2.0, 3.0])).tolist()
    [1.5, 4.0]
    """
    areas, along = _areas(y, x, dx, axis, "cumulative_trapezoid")
    return moveaxis(cumulative_sum(areas, axis=-1), -1, along - as_tensor(y).ndim)


def gradient(
    x: Operand,
    /,
    *spacing: float | Operand,
    axis: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> Tensor | tuple[Tensor, ...]:  # numpydoc ignore=RS01
    """Return the slopes of samples along axes, by differences of second order inside.

    Parameters
    ----------
    x : Tensor, ndarray or number
        The values; more than ``edge_order`` along each axis.
    *spacing : float or Tensor
        The distance of neighbours, or the points along the axis; one for all axes or one for each.
        By default 1.
    axis : int or sequence of int, optional
        The axes. By default all of them.
    edge_order : {1, 2}, optional
        The order of the differences at both ends. By default 1.

    Returns
    -------
    Tensor or tuple of Tensor
        In the shape of ``x`` and a floating dtype. A tensor if there is one axis or ``axis`` is a
        number, else a tuple with one for each axis.

    Raises
    ------
    ArgumentError
        If ``edge_order`` is another number, or the number of spacings does not fit.
    ShapeError
        If an axis has too few values, or points do not fit it.
    AxisError
        If ``axis`` does not fit the shape of ``x``.

    Examples
    --------
    >>> import calor
    >>> calor.gradient(calor.asarray([1.0, 2.0, 4.0, 7.0])).tolist()
    [1.0, 1.5, 2.5, 3.0]
    """
    x = _inexact(x)
    if edge_order not in (1, 2):
        raise ArgumentError(f"gradient: edge_order is {edge_order}; it is 1 or 2")
    given = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = [one_axis(a, x.shape, "gradient") for a in given]
    many_axes(tuple(axes), x.shape, "gradient")
    steps: list[Any] = list(spacing) or [1.0]
    if len(steps) == 1 and not getattr(steps[0], "ndim", 0):
        steps = steps * len(axes)
    if len(steps) != len(axes):
        raise ArgumentError(f"gradient: {len(steps)} spacings for {len(axes)} axes")
    if any(isinstance(step, float | int) and not step for step in steps):
        raise ArgumentError("gradient: a spacing is 0; give the distance of neighbours")
    made = tuple(_slope(x, a, step, edge_order) for a, step in zip(axes, steps, strict=True))
    return made[0] if len(made) == 1 and (axis is None or isinstance(axis, int)) else made


def _slope(x: Tensor, axis: int, spacing: Any, edge_order: int) -> Tensor:
    size = x.shape[axis]
    if size < edge_order + 1:
        raise ShapeError(
            f"gradient: axis {axis} of shape {x.shape} has {size} values; edge_order "
            f"{edge_order} needs {edge_order + 1}"
        )
    y = moveaxis(x, axis, -1)
    points = getattr(spacing, "ndim", 0)
    if points:
        line = as_tensor(spacing, x)
        if line.shape != (size,):
            raise ShapeError(f"gradient: points of shape {line.shape} for {size} values")
        h = line[1:] - line[:-1]
        before, after = h[:-1], h[1:]
        inner = (
            before * before * y[..., 2:]
            + (after - before) * (after + before) * y[..., 1:-1]
            - after * after * y[..., :-2]
        ) / (before * after * (before + after))
    else:
        h = spacing
        inner = (y[..., 2:] - y[..., :-2]) / (2 * spacing)

    def at(i: int) -> Any:
        return h[i] if points else h

    def edge(order: tuple[int, ...], near: Any, far: Any, sign: int) -> Tensor:
        a, b, *rest = (y[..., i : i + 1 or None] for i in order)
        slope: Tensor
        if edge_order == 1:
            slope = (b - a) / near * sign
            return slope
        slope = sign * (
            -(2 * near + far) / (near * (near + far)) * a
            + (near + far) / (near * far) * b
            - near / (far * (near + far)) * rest[0]
        )
        return slope

    low = edge((0, 1, 2)[: edge_order + 1], at(0), at(1) if edge_order == 2 else None, 1)
    high = edge((-1, -2, -3)[: edge_order + 1], at(-1), at(-2) if edge_order == 2 else None, -1)
    return moveaxis(concat((low, inner, high), axis=-1), -1, axis)


def interp(
    x: Operand,
    xp: Operand,
    fp: Operand,
    /,
    *,
    left: float | None = None,
    right: float | None = None,
) -> Tensor:
    """Return values at points by straight lines between samples.

    Parameters
    ----------
    x : Tensor, ndarray or number
        The points, of any shape; real.
    xp : Tensor, ndarray or number
        The points of the samples, of shape (n,), ascending.
    fp : Tensor, ndarray or number
        The values of the samples, of shape (n,).
    left : float, optional
        The value before the first sample. By default that of the first.
    right : float, optional
        The value after the last sample. By default that of the last.

    Returns
    -------
    Tensor
        The shape of ``x``, the common floating dtype. NaN at NaN.

    Raises
    ------
    ShapeError
        If ``xp`` and ``fp`` are not one axis of the same size, at least 1.
    DTypeError
        If an operand is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> xp, fp = calor.asarray([0.0, 2.0]), calor.asarray([10.0, 20.0])
    >>> calor.interp(calor.asarray([-1.0, 0.5, 3.0]), xp, fp).tolist()
    [10.0, 12.5, 20.0]
    """
    x, xp, fp = map(_inexact, as_operands(x, xp, fp, floating=True))
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ShapeError(f"interp: xp has shape {xp.shape}, fp {fp.shape}; give (n,) for both")
    last = xp.size - 1
    after = clip(searchsorted(xp, x, side="right"), min(1, last), last)
    before = clip(after - 1, 0, last)
    x0, x1, f0, f1 = (take(t, i, axis=0) for t in (xp, fp) for i in (before, after))
    width = x1 - x0
    flat = width == 0
    share = (x - x0) / where(flat, 1.0, width)
    inside = where(flat, f0, f0 + (f1 - f0) * share)
    # Beside values that are not finite: a point itself, or the line from its other end.
    other = where(f0 == f1, f0, f1 + (f1 - f0) * (share - 1.0))
    other = where(x == x0, f0, where(x == x1, f1, other))
    inside = where(isnan(inside), other, inside)
    low = fp[0] if left is None else left
    high = fp[-1] if right is None else right
    return where(x < xp[0], low, where(x > xp[-1], high, inside)).astype(inside.dtype)


def cov(
    x: Operand,
    /,
    *,
    correction: float = 1,
    fweights: Operand | None = None,
    aweights: Operand | None = None,
) -> Tensor:
    """Return the covariances of variables.

    Parameters
    ----------
    x : Tensor, ndarray or number
        A row for each variable, a column for each observation; a vector is one variable.
    correction : float, optional
        What is taken from the number of observations that products are divided by. By default 1.
    fweights : Tensor, ndarray or number, optional
        How often each observation counts: integers, one for each column.
    aweights : Tensor, ndarray or number, optional
        How much each observation weighs, one for each column.

    Returns
    -------
    Tensor
        Shape (N, N) for N variables, () for a vector; a floating dtype.

    Raises
    ------
    ShapeError
        If ``x`` has more than two axes, or weights do not fit.
    DTypeError
        If an operand is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.cov(calor.asarray([[1.0, 2.0, 3.0], [1.0, 0.0, -1.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    x = _inexact(x)
    if x.ndim > 2:
        raise ShapeError(f"cov: shape {x.shape} has more than two axes")
    rows = x if x.ndim == 2 else reshape(x, (1, x.size))
    kind = rows.dtype
    if kind.itemsize < 4:
        rows = rows.astype(dtypes.float32)
    count = rows.shape[1]
    weights: Any = None
    for given, what in ((fweights, "fweights"), (aweights, "aweights")):
        if given is not None:
            one = as_tensor(given, x)
            if one.shape != (count,) and (one.ndim or count != 1):
                raise ShapeError(f"cov: {what} has shape {one.shape}; there are {count} columns")
            one = reshape(one, (1, count)).astype(dtypes.real_of(rows.dtype))
            weights = one if weights is None else weights * one
    if weights is None:
        share: Any = float(count)
        mean = total(rows, axis=1, keepdims=True) / count
        left: Any = max(count - correction, 0.0)
    else:
        share = total(weights)
        mean = total(rows * weights, axis=1, keepdims=True) / share
        lost: Any = correction
        if aweights is not None:
            heavy = reshape(as_tensor(aweights, x), (1, count)).astype(weights.dtype)
            lost = total(weights * heavy) / share * correction
        left = where(share - lost > 0, share - lost, 0.0)
    off = rows - mean
    scaled = off if weights is None else off * weights
    divisor = left if weights is not None else _number(left, rows)
    made = (matmul(scaled, conj(transpose(off))) / divisor).astype(kind)
    return reshape(made, ()) if made.size == 1 else made


def _number(value: float, like: Tensor) -> Tensor:
    """Return a number as a tensor: dividing a tensor by 0 gives an infinity."""
    return as_tensor(value, like).astype(dtypes.real_of(like.dtype))


def corrcoef(x: Operand, /) -> Tensor:
    """Return the correlation coefficients of variables.

    Parameters
    ----------
    x : Tensor, ndarray or number
        A row for each variable, a column for each observation; a vector is one variable.

    Returns
    -------
    Tensor
        Shape (N, N) for N variables, () for a vector; a floating dtype. Both parts lie between −1
        and 1.

    Raises
    ------
    ShapeError
        If ``x`` has more than two axes.

    Examples
    --------
    >>> import calor
    >>> calor.corrcoef(calor.asarray([[1.0, 2.0, 3.0], [1.0, 0.0, -1.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    covariance = cov(x)
    if not covariance.ndim:
        return covariance / covariance
    size = covariance.shape[0]
    places = reshape(covariance, (size * size,))[:: size + 1]
    spread = sqrt(real(places))
    made = covariance / reshape(spread, (size, 1)) / reshape(spread, (1, size))
    return _clipped(made)


def _clipped(x: Tensor) -> Tensor:
    if not x.dtype.is_complex:
        return clip(x, -1, 1)
    return complex(clip(real(x), -1, 1), clip(imag(x), -1, 1))
