"""Differences of neighbours, and comparing whole tensors."""

from __future__ import annotations

from calor import dtypes
from calor.errors import ArgumentError, ShapeError
from calor.functions.arguments import integer, one_axis
from calor.functions.joining import concat, split
from calor.functions.operands import as_tensor, as_tensors, pair, select, single
from calor.functions.reductions import all as all_true
from calor.ops import elementwise as e
from calor.tensor.tensor import Operand, Tensor


def diff(
    x: Operand,
    /,
    axis: int = -1,
    *,
    n: int = 1,
    prepend: Operand | None = None,
    append: Operand | None = None,
) -> Tensor:
    """Return the n-th difference of neighbours along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; any dtype except float8. bool elements are compared by "exclusive or".
    axis : int, optional
        The axis to go along. By default the last.
    n : int, optional
        How often differences are taken, at least 0. By default once.
    prepend : Tensor, ndarray or number, optional
        Joined to the front of ``x`` along the axis first.
    append : Tensor, ndarray or number, optional
        Joined to the end of ``x`` along the axis first.

    Returns
    -------
    Tensor
        The shape of ``x``, with what was joined to it, with n elements fewer along the axis; for
        n = 0 a copy of ``x``, to which nothing is joined.

    Raises
    ------
    ShapeError
        If ``x`` is 0-d, or ``prepend`` or ``append`` does not fit.
    ArgumentError
        If ``n`` is negative.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.
    TypeError
        If ``n`` is not a whole number.

    References
    ----------
    Python array API standard 2024.12, ``diff``.

    Examples
    --------
    >>> import calor
    >>> calor.diff(calor.asarray([1, 4, 9])).tolist()
    [3, 5]
    """
    x = as_tensor(x)
    if not x.ndim:
        raise ShapeError("diff: a 0-d tensor has no neighbours")
    axis = one_axis(axis, x.shape, "diff")
    times = integer(n, "diff: n")
    if times < 0:
        raise ArgumentError(f"diff: n is {times}; give at least 0")
    if not times:
        return x.copy()
    ends = [prepend, x, append]
    parts = [as_tensor(t, x) for t in ends if t is not None]
    if len(parts) > 1:
        x = concat(parts, axis=axis)
    row = e.bit_xor if x.dtype is dtypes.bool_ else e.sub
    for _ in range(times):
        size = x.shape[axis]
        if not size:
            break
        after = split(x, (1, size - 1), axis=axis)[1]
        before = split(x, (size - 1, 1), axis=axis)[0]
        x = pair(row, after, before)
    return x.copy()


def isclose(
    x1: Operand,
    x2: Operand,
    /,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """Tell for each pair of elements whether |x1 − x2| ≤ atol + rtol · |x2|.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape and dtype.
    x2 : Tensor, ndarray or number
        The reference. Both broadcast against each other.
    rtol : float, optional
        The relative tolerance. By default 1e-5.
    atol : float, optional
        The absolute tolerance. By default 1e-8.
    equal_nan : bool, optional
        Whether two NaN are close. By default False.

    Returns
    -------
    Tensor
        Dtype bool, in the broadcast shape. Equal infinities are close.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> calor.isclose(calor.asarray([1.0, 2.0]), calor.asarray([1.000001, 2.1])).tolist()
    [True, False]
    """
    x1, x2 = as_tensors(x1, x2)
    if not x1.dtype.is_inexact and not x2.dtype.is_inexact:
        x1, x2 = (e.cast(t, dtype=dtypes.float64) for t in (x1, x2))
    distance = single(e.abs, pair(e.sub, x1, x2))
    allowed = pair(e.add, pair(e.mul, single(e.abs, x2), rtol), atol)
    near = pair(e.bit_and, pair(e.less_equal, distance, allowed), single(e.isfinite, x2))
    close = pair(e.bit_or, near, pair(e.equal, x1, x2))
    if equal_nan:
        both = pair(e.bit_and, single(e.isnan, x1), single(e.isnan, x2))
        close = select(both, True, close)
    return close


def allclose(
    x1: Operand,
    x2: Operand,
    /,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> bool:
    """Tell whether all pairs of elements are close, as `isclose` does.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape and dtype.
    x2 : Tensor, ndarray or number
        The reference. Both broadcast against each other.
    rtol : float, optional
        The relative tolerance. By default 1e-5.
    atol : float, optional
        The absolute tolerance. By default 1e-8.
    equal_nan : bool, optional
        Whether two NaN are close. By default False.

    Returns
    -------
    bool
        A Python bool: the elements are read.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    TraceError
        If `calor.jit` traces the call.

    Examples
    --------
    >>> import calor
    >>> calor.allclose(calor.asarray([1.0]), calor.asarray([1.000001]))
    True
    """
    return bool(all_true(isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan)))


def array_equal(x1: Operand, x2: Operand, /) -> bool:
    """Tell whether two tensors have the same shape and equal elements.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape; any dtype except float8.
    x2 : Tensor, ndarray or number
        Any shape; any dtype except float8.

    Returns
    -------
    bool
        A Python bool: the elements are read. NaN equals nothing.

    Raises
    ------
    DTypeError
        If the shapes are equal and the dtypes have no common one.
    TraceError
        If the shapes are equal and `calor.jit` traces the call.

    Examples
    --------
    >>> import calor
    >>> calor.array_equal(calor.asarray([1, 2]), calor.asarray([1, 2]))
    True
    """
    x1, x2 = as_tensors(x1, x2)
    return x1.shape == x2.shape and bool(all_true(pair(e.equal, x1, x2)))
