"""Numbers in geometric steps, powers, and indices of flattened tensors."""

from __future__ import annotations

import math
from typing import Any

from calor import dtypes
from calor.dtypes import as_dtype
from calor.errors import ArgumentError, ShapeError
from calor.functions.arguments import integer
from calor.functions.creation import ones
from calor.functions.elementwise import pow as power
from calor.functions.joining import concat, stack
from calor.functions.manipulation import broadcast_to, flip, reshape
from calor.functions.operands import as_tensor, as_tensors
from calor.functions.ranges import arange, linspace
from calor.functions.reductions import cumulative_prod
from calor.functions.searching import where
from calor.tensor.tensor import Operand, Tensor


def logspace(
    start: complex,
    stop: complex,
    /,
    num: int = 50,
    *,
    base: float = 10.0,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """Return powers of a base whose exponents are evenly spaced.

    Parameters
    ----------
    start : complex
        The first exponent.
    stop : complex
        The last exponent, or the end of the interval if ``endpoint`` is False.
    num : int, optional
        How many numbers, at least 0. By default 50.
    base : float, optional
        The base. By default 10.
    dtype : DType or str, optional
        The dtype of the result. By default float32. Integers are rounded towards 0.
    device : Device or str, optional
        Where the result is. By default the current device.
    endpoint : bool, optional
        Whether ``stop`` is the last exponent. By default True.

    Returns
    -------
    Tensor
        Shape (num,).

    Raises
    ------
    ArgumentError
        If ``num`` is negative.
    DTypeError
        If ``dtype`` is unknown.

    Examples
    --------
    >>> import calor
    >>> calor.logspace(0, 2, 3, base=2).tolist()
    [1.0, 2.0, 4.0]
    """
    wanted = None if dtype is None else as_dtype(dtype)
    work = wanted if wanted is not None and wanted.is_inexact else None
    # Exponents of a half type would lose digits that the powers have.
    wide = dtypes.float32 if work is not None and work.itemsize < 4 else work
    if work is None and wanted is not None:
        wide = dtypes.float64
    steps = linspace(start, stop, num, dtype=wide, device=device, endpoint=endpoint)
    made = power(base, steps)
    return made if wanted is None else made.astype(wanted)


def geomspace(
    start: float,
    stop: float,
    /,
    num: int = 50,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """Return numbers in geometric progression.

    Parameters
    ----------
    start : float
        The first number, not 0.
    stop : float
        The last number, of the same sign, or the end if ``endpoint`` is False.
    num : int, optional
        How many numbers, at least 0. By default 50.
    dtype : DType or str, optional
        The dtype of the result. By default float32.
    device : Device or str, optional
        Where the result is. By default the current device.
    endpoint : bool, optional
        Whether ``stop`` is the last number. By default True.

    Returns
    -------
    Tensor
        Shape (num,).

    Raises
    ------
    ArgumentError
        If an end is 0, the first one is infinite, the ends differ in sign, or ``num`` is negative.
    TypeError
        If a count or an index is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.geomspace(1, 16, 5).tolist()
    [1.0, 2.0, 4.0, 8.0, 16.0]
    """
    if start * stop <= 0 or math.isinf(start):
        raise ArgumentError(
            f"geomspace: from {start} to {stop}; give two numbers of one sign, not 0 nor infinite"
        )
    count = integer(num, "geomspace: num")
    kind = dtypes.default_float() if dtype is None else as_dtype(dtype)
    steps = linspace(
        0.0, math.log2(stop / start), count, dtype=dtypes.float64, device=device, endpoint=endpoint
    )
    made = power(2.0, steps) * start
    if endpoint and count > 1:
        made = where(arange(count, device=device) == count - 1, float(stop), made)
    return made.astype(kind)


def vander(x: Operand, n: int | None = None, /, *, increasing: bool = False) -> Tensor:
    """Return the powers of each element as rows, a Vandermonde matrix.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (..., M), any numeric dtype.
    n : int, optional
        The number of powers, from the 0-th on. By default M.
    increasing : bool, optional
        Whether the 0-th power comes first. By default False, as in NumPy.

    Returns
    -------
    Tensor
        Shape (..., M, n), the dtype of ``x``.

    Raises
    ------
    ShapeError
        If ``x`` is 0-d.
    ArgumentError
        If ``n`` is negative.
    DTypeError
        If an operand is no tensor, array or number.
    TypeError
        If a count or an index is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.vander(calor.asarray([2, 3]), 3).tolist()
    [[4, 2, 1], [9, 3, 1]]
    """
    x = as_tensor(x)
    if not x.ndim:
        raise ShapeError("vander: x is 0-d; it needs at least one axis")
    count = x.shape[-1] if n is None else integer(n, "vander: n")
    if count < 0:
        raise ArgumentError(f"vander: n is {count}; give at least 0")
    first = ones((*x.shape, 1), dtype=x.dtype, device=x.device)
    if count == 0:
        return first[..., :0]
    rest = broadcast_to(reshape(x, (*x.shape, 1)), (*x.shape, count - 1))
    made = cumulative_prod(concat((first, rest), axis=-1), axis=-1, dtype=x.dtype)
    return made if increasing else flip(made, axis=-1)


def unravel_index(
    indices: Operand, shape: int | tuple[int, ...], /
) -> tuple[Tensor, ...]:  # numpydoc ignore=RS01
    """Return the index along each axis of row-major places.

    Parameters
    ----------
    indices : Tensor, ndarray or number
        Integers of any shape, at least 0.
    shape : int or tuple of int
        The shape that the places are of.

    Returns
    -------
    tuple of Tensor
        One for each axis, in the shape and dtype of ``indices``. A place beyond the end continues
        along the first axis.

    Raises
    ------
    ShapeError
        If a size is negative.

    Examples
    --------
    >>> import calor
    >>> [t.tolist() for t in calor.unravel_index(calor.asarray([1, 5]), (2, 3))]
    [[0, 1], [1, 2]]
    """
    left = as_tensor(indices)
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(n < 0 for n in sizes):
        raise ShapeError(f"unravel_index: shape {sizes} has a negative size")
    wide = left.astype(dtypes.int64)
    made: list[Tensor] = []
    for axis, size in enumerate(reversed(sizes)):
        last = axis == len(sizes) - 1
        by = max(size, 1)
        made.insert(0, (wide if last else wide % by).astype(left.dtype))
        wide = wide // by
    return tuple(made)


def ravel_multi_index(indices: tuple[Operand, ...], shape: tuple[int, ...], /) -> Tensor:
    """Return the row-major places of indices along each axis.

    Parameters
    ----------
    indices : tuple of Tensor, ndarray or number
        Integers, one tensor for each axis; they broadcast against each other.
    shape : tuple of int
        The shape that the places are of.

    Returns
    -------
    Tensor
        The broadcast shape, dtype int64.

    Raises
    ------
    ShapeError
        If there is another number of tensors than axes.
    DTypeError
        If an operand is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.ravel_multi_index((calor.asarray([0, 1]), calor.asarray([1, 2])), (2, 3)).tolist()
    [1, 5]
    """
    if len(indices) != len(shape):
        raise ShapeError(f"ravel_multi_index: {len(indices)} indices for the axes of {shape}")
    place: Any = 0
    for line, size in zip(as_tensors(*indices), shape, strict=True):
        place = place * size + line.astype(dtypes.int64)
    return as_tensor(place)


def indices(shape: tuple[int, ...], /, *, device: Any = None) -> Tensor:
    r"""Return the index along each axis of all elements of a shape.

    Parameters
    ----------
    shape : tuple of int
        The sizes.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    Tensor
        Shape (len(shape), \*shape), dtype int64.

    Raises
    ------
    ShapeError
        If the shape has no axis.

    Examples
    --------
    >>> import calor
    >>> calor.indices((2, 2)).tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    if not shape:
        raise ShapeError("indices: give at least one size")
    lines = []
    for axis, size in enumerate(shape):
        line = tuple(size if a == axis else 1 for a in range(len(shape)))
        one = reshape(arange(size, dtype="int64", device=device), line)
        lines.append(broadcast_to(one, tuple(shape)))
    return stack(lines)
