"""Ramps, grids and triangles: tensors that are made by counting.

Requirements: starts and steps are inputs of the plan; only the number of elements is part of it.
Ramps of half types are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from calor import dtypes
from calor.device_selection import as_device, current_device
from calor.dtypes import DType, as_dtype
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.arguments import common_dtype, integer, python_number
from calor.functions.creation import asarray
from calor.functions.manipulation import reshape
from calor.functions.operands import as_tensor, as_tensors, pair, select, stretched
from calor.ops import elementwise as e
from calor.ops.sources import iota
from calor.sizes import is_size
from calor.tensor.tensor import Operand, Tensor
from calor.tensor.values import Handle


def _ramp(length: int, start: Any, step: Any, dtype: DType, device: Any) -> Tensor:
    """Return start + i · step for i below the length, in a dtype."""
    work = dtype
    if dtype.is_integer and dtype is not dtypes.uint64:
        work = dtypes.int64
    elif dtype.itemsize < 4:
        work = dtypes.float32
    if dtype is dtypes.uint64:
        # Unsigned arithmetic wraps, so a step down is a step up by 2⁶⁴ less.
        start, step = start % 2**64, step % 2**64
    real = dtypes.real_of(work)
    with as_device(device):
        made: Tensor = iota(length=length, dtype=real)
    if work is not real:
        made = e.cast(made, dtype=work)
    if step != 1:
        made = pair(e.mul, made, step)
    if start != 0:
        made = pair(e.add, made, start)
    return made if work is dtype else e.cast(made, dtype=dtype)


def _number(value: Any) -> Any:
    """Return a Python number where there is one; the length depends on it, so a tensor is read."""
    return as_tensor(value).item() if isinstance(value, Handle) else python_number(value)


def _target(device: Any) -> Any:
    return current_device() if device is None else as_device(device)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None,
    device: Any = None,
) -> Tensor:  # fmt: skip
    """Return numbers from a start up to but without a stop, a step apart.

    Parameters
    ----------
    start : float
        The first number; the stop if ``stop`` is left out, and then the range starts at 0.
    stop : float, optional
        The end of the range, which is not in it.
    step : float, optional
        The difference of neighbours, positive or negative. By default 1.
    dtype : DType or str, optional
        The dtype of the result. By default int64 if all numbers are integers, else float32.
    device : Device or str, optional
        Where the result is. By default the current device, which ``with calor.device(...)`` sets.

    Returns
    -------
    Tensor
        Shape (n,) with n = max(0, ceil((stop − start) / step)).

    Raises
    ------
    ArgumentError
        If the step is 0, or the range is not finite.
    DTypeError
        If a number is not real.

    References
    ----------
    Python array API standard 2024.12, ``arange``.

    Examples
    --------
    >>> import calor
    >>> calor.arange(5).tolist(), calor.arange(1, 2, 0.25).tolist()
    ([0, 1, 2, 3, 4], [1.0, 1.25, 1.5, 1.75])
    """
    first, last, by = (_number(v) for v in ((0, start) if stop is None else (start, stop))
                       + (step,))  # fmt: skip
    if not by:
        raise ArgumentError("arange: the step is 0, so the range never ends")
    for value in (first, last, by):
        if not (isinstance(value, int | float) or is_size(value)):
            raise DTypeError(f"arange: {value!r} is not a real number")
    fractions = any(isinstance(v, float) for v in (first, last, by))
    if not fractions and any(map(is_size, (first, last))):
        span = last - first if by > 0 else first - last
        length, known = (-(-span // abs(by)) if span > 0 else 0), dtypes.DEFAULT_INT
    elif not fractions:
        length, known = len(range(first, last, by)), dtypes.DEFAULT_INT
    else:
        steps = (last - first) / by
        if not math.isfinite(steps):
            raise ArgumentError(f"arange: from {first} to {last} by {by} is not a finite range")
        length, known = max(0, math.ceil(steps)), dtypes.default_float()
    wanted = known if dtype is None else as_dtype(dtype)
    if wanted.is_integer and not isinstance(first + by, int):
        # As NumPy: the step is what the first two elements differ by once both are integers.
        first, by = int(first), int(first + by) - int(first)
    return _ramp(length, first, by, wanted, _target(device))


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """Return numbers evenly spaced from a start to a stop.

    Parameters
    ----------
    start : complex
        The first number.
    stop : complex
        The last number, or the end of the interval if ``endpoint`` is False.
    num : int
        How many numbers, at least 0.
    dtype : DType or str, optional
        The dtype of the result. By default float32, or complex64 if an end is complex. Integers
        are rounded down.
    device : Device or str, optional
        Where the result is. By default the current device, which ``with calor.device(...)`` sets.
    endpoint : bool, optional
        Whether ``stop`` is the last number. By default True.

    Returns
    -------
    Tensor
        Shape (num,).

    Raises
    ------
    ArgumentError
        If ``num`` is negative.
    TypeError
        If ``num`` is not a whole number.
    DTypeError
        If ``dtype`` is unknown.

    References
    ----------
    Python array API standard 2024.12, ``linspace``.

    Examples
    --------
    >>> import calor
    >>> calor.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    count = integer(num, "linspace: num")
    if count < 0:
        raise ArgumentError(f"linspace: num is {count}; give at least 0")
    first, last = (_number(v) for v in (start, stop))
    kinds = [dtypes.default_float(), *(as_dtype(type(v)) for v in (first, last))]
    wanted = common_dtype(kinds, "linspace") if dtype is None else as_dtype(dtype)
    work = wanted if wanted.is_inexact else dtypes.default_float()
    parts = count - 1 if endpoint else count
    target = _target(device)
    if wanted.is_integer:
        # Rounded down, as by NumPy; float32 would lose integers above 2²⁴.
        with np.errstate(over="ignore"):
            exact = np.floor(np.linspace(first, last, count, endpoint=endpoint, dtype=np.float64))
        return asarray(exact, dtype=wanted, device=target)
    if parts < 1:
        made = _ramp(count, first, 0, work, target)
    elif (last - first) / parts == 0 and last != first:
        # The step is below the smallest number: scale the ramp instead of stepping.
        made = pair(
            e.add, pair(e.mul, _ramp(count, 0, 1 / parts, work, target), last - first), first
        )
    else:
        made = _ramp(count, first, (last - first) / parts, work, target)
    if endpoint and count > 1:
        with as_device(target):
            at_end = pair(e.equal, iota(length=count, dtype=dtypes.int64), count - 1)
        made = select(at_end, last, made)
    return made if work is wanted else e.cast(made, dtype=wanted)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """Return a matrix with ones on a diagonal and zeros elsewhere.

    Parameters
    ----------
    n_rows : int
        The number of rows.
    n_cols : int, optional
        The number of columns. By default that of rows.
    k : int, optional
        The diagonal: 0 (the default) the main one, positive above, negative below.
    dtype : DType or str, optional
        The dtype of the result. By default float32.
    device : Device or str, optional
        Where the result is. By default the current device, which ``with calor.device(...)`` sets.

    Returns
    -------
    Tensor
        Shape (n_rows, n_cols).

    Raises
    ------
    ShapeError
        If a size is negative.
    TypeError
        If a size or ``k`` is not a whole number.
    DTypeError
        If ``dtype`` is unknown.

    References
    ----------
    Python array API standard 2024.12, ``eye``.

    Examples
    --------
    >>> import calor
    >>> calor.eye(2, 3, k=1).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    rows = integer(n_rows, "eye: n_rows")
    cols = rows if n_cols is None else integer(n_cols, "eye: n_cols")
    if rows < 0 or cols < 0:
        raise ShapeError(f"eye: shape {(rows, cols)} has a negative size")
    known = dtypes.default_float() if dtype is None else as_dtype(dtype)
    row, col = _row_and_column(rows, cols, _target(device))
    made: Tensor = e.cast(
        pair(e.equal, pair(e.add, row, _diagonal(k, rows, cols, "eye")), col), dtype=known
    )
    return made


def _diagonal(k: Any, rows: int, cols: int, what: str) -> int:
    """Return the number of a diagonal, those outside the matrix brought to its corners."""
    return max(-rows, min(integer(k, f"{what}: k"), cols))


def _row_and_column(rows: int, cols: int, device: Any) -> tuple[Tensor, Tensor]:
    with as_device(device):
        row = reshape(iota(length=rows, dtype=dtypes.int64), (rows, 1))
        col = reshape(iota(length=cols, dtype=dtypes.int64), (1, cols))
    return row, col


def _triangle(x: Any, k: int, lower: bool, what: str) -> Tensor:
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"{what}: shape {x.shape} has no rows and columns; it needs two axes")
    row, col = _row_and_column(x.shape[-2], x.shape[-1], x.device)
    edge = pair(e.add, row, _diagonal(k, x.shape[-2], x.shape[-1], what))
    inside = pair(e.less_equal if lower else e.greater_equal, col, edge)
    return select(stretched(inside, x.shape), x, False)


def tril(x: Operand, /, *, k: int = 0) -> Tensor:
    """Return matrices with the elements above a diagonal set to 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (..., M, N), any dtype except float8.
    k : int, optional
        The diagonal: 0 (the default) the main one, positive above, negative below.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    ShapeError
        If ``x`` has fewer than two axes.
    DTypeError
        If ``x`` is no tensor, array or number.
    TypeError
        If ``k`` is not a whole number.

    References
    ----------
    Python array API standard 2024.12, ``tril``.

    Examples
    --------
    >>> import calor
    >>> calor.tril(calor.ones((2, 2))).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return _triangle(x, k, True, "tril")


def triu(x: Operand, /, *, k: int = 0) -> Tensor:
    """Return matrices with the elements below a diagonal set to 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (..., M, N), any dtype except float8.
    k : int, optional
        The diagonal: 0 (the default) the main one, positive above, negative below.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    ShapeError
        If ``x`` has fewer than two axes.
    DTypeError
        If ``x`` is no tensor, array or number.
    TypeError
        If ``k`` is not a whole number.

    References
    ----------
    Python array API standard 2024.12, ``triu``.

    Examples
    --------
    >>> import calor
    >>> calor.triu(calor.ones((2, 2))).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return _triangle(x, k, False, "triu")


def meshgrid(*arrays: Operand, indexing: Literal["xy", "ij"] = "xy") -> list[Tensor]:
    """Return the coordinates of the points of a grid.

    Parameters
    ----------
    *arrays : Tensor, ndarray or number
        The coordinates along each axis of the grid; at most one axis each.
    indexing : {"xy", "ij"}, optional
        With "ij" the i-th tensor varies along axis i; with "xy" (the default) the first two axes
        are exchanged.

    Returns
    -------
    list of Tensor
        One for each of ``arrays``, in the shape of the grid and its own dtype.

    Raises
    ------
    ArgumentError
        If ``indexing`` is another name.
    ShapeError
        If a tensor has more than one axis.
    DTypeError
        If an argument is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``meshgrid``.

    Examples
    --------
    >>> import calor
    >>> [t.tolist() for t in calor.meshgrid(calor.arange(2), calor.arange(3))]
    [[[0, 1], [0, 1], [0, 1]], [[0, 0], [1, 1], [2, 2]]]
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"meshgrid: indexing {indexing!r} is neither 'xy' nor 'ij'")
    tensors = as_tensors(*arrays)
    for t in tensors:
        if t.ndim > 1:
            raise ShapeError(f"meshgrid: shape {t.shape} has {t.ndim} axes; each tensor has one")
    order = list(range(len(tensors)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = 1, 0
    sizes = [t.size for t in tensors]
    shape = tuple(sizes[i] for i in order)
    grids = []
    for i, t in enumerate(tensors):
        line = tuple(sizes[i] if axis == i else 1 for axis in order)
        grids.append(stretched(reshape(t, line), shape))
    return grids
