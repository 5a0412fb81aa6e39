"""Norms, diagonals, traces and cross products."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from calor import dtypes
from calor.errors import ArgumentError, ShapeError
from calor.functions.arguments import integer, many_axes
from calor.functions.operands import as_tensor, stretched, together
from calor.functions.reductions import kept
from calor.functions.reductions import sum as total
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops.movement import concat, slice_
from calor.recording.recipes import broadcast_shapes
from calor_linalg import matrices as mx
from calor_linalg.factors import svdvals

if TYPE_CHECKING:
    from calor.tensor.tensor import Axis, Operand, Tensor

MatrixOrder = int | float | Literal["fro", "nuc"]


def _floating(x: Any) -> tuple[Any, dtypes.DType]:
    """Return a tensor in the dtype that a norm is computed in, and the dtype of the result."""
    x = as_tensor(x)
    result = dtypes.float_of(x.dtype)
    work = dtypes.float32 if result.itemsize == 2 else result
    return (x if x.dtype is work else e.cast(x, dtype=work)), dtypes.real_of(result)


def _root(squares: Any) -> Any:
    """Return square roots whose gradient at 0 is 0, the smallest of the subgradients."""
    zero = e.equal(squares, mx.zeros(squares))
    return mx.masked(~zero, e.sqrt(e.where(zero, mx.ones(squares), squares)))


def _sum(x: Any, axes: tuple[int, ...]) -> Any:
    return r.sum(x, axes=axes, dtype=x.dtype)


def vector_norm(
    x: Operand, /, *, axis: Axis = None, keepdims: bool = False, ord: int | float = 2
) -> Tensor:
    """Return the vector norm (Σ |x|ᵖ)^(1/p) along axes, where p is `ord`.

    The gradient at 0 is 0, which is one of the subgradients. float16 and bfloat16 are computed in
    float32 and rounded at the end.

    Parameters
    ----------
    x : Tensor, array or number
        Vectors of any shape. Integers and bool are converted to the default floating type.
    axis : int or tuple of int, default None
        Axes to reduce. None reduces all axes.
    keepdims : bool, default False
        Keep the reduced axes with size 1.
    ord : int or float, default 2
        Order p of the norm. inf and -inf give the largest and the smallest magnitude, 0 the number
        of elements that are not zero.

    Returns
    -------
    Tensor
        The norms, in a real floating dtype.

    Raises
    ------
    ArgumentError
        If `ord` is a string or complex.
    AxisError
        If `axis` is not an axis of `x`.
    ShapeError
        If `ord` is -inf and a reduced axis is empty.
    DTypeError
        If `x` has a float8 dtype, which has no arithmetic.

    See Also
    --------
    matrix_norm : Norm of the matrices on the last two axes.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.vector_norm(calor.asarray([3.0, 4.0])).item()
    5.0
    """
    wide, dtype = _floating(x)
    axes = many_axes(axis, wide.shape, "vector_norm")
    made = kept(_vector_norm(wide, axes, ord), wide, axes, keepdims)
    return made if made.dtype is dtype else e.cast(made, dtype=dtype)


def _vector_norm(x: Any, axes: tuple[int, ...], order: Any) -> Any:
    if isinstance(order, str | complex):
        raise ArgumentError(
            f"vector_norm: ord is {order!r}; pass a real number, calor.inf or -calor.inf"
        )
    if order == 2:
        return _root(_sum(mx.square_size(x), axes))
    sizes = e.abs(x)
    if order == math.inf or order == -math.inf:
        if any(not x.shape[a] for a in axes):
            if order > 0:
                # The largest of no magnitudes, none of which would be below 0.
                return _sum(sizes, axes)
            raise ShapeError(
                f"vector_norm: ord {order} needs at least one element along the reduced axes; "
                f"x has shape {x.shape}"
            )
        return (r.max if order > 0 else r.min)(sizes, axes=axes)
    if order == 0:
        return _sum(e.cast(e.not_equal(sizes, mx.zeros(sizes)), dtype=sizes.dtype), axes)
    if order == 1:
        return _sum(sizes, axes)
    powers = _sum(_power(sizes, float(order)), axes)
    return _power(powers, 1 / float(order))


def _power(x: Any, exponent: float) -> Any:
    """Return x to a power, for x ≥ 0; the gradient at 0 is 0."""
    zero = e.equal(x, mx.zeros(x))
    power = e.where(zero, mx.ones(x), x) ** exponent
    return e.where(zero, mx.filled(x, 0.0 if exponent > 0 else math.inf), power)


def matrix_norm(
    x: Operand, /, *, keepdims: bool = False, ord: MatrixOrder | None = "fro"
) -> Tensor:
    """Return the norm of the matrices on the last two axes.

    float16 and bfloat16 are computed in float32 and rounded at the end.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, N). Integers and bool are converted to the default floating type.
    keepdims : bool, default False
        Keep the last two axes with size 1.
    ord : {"fro", "nuc", 1, -1, 2, -2, inf, -inf}, default "fro"
        Kind of norm. "fro" or None: Frobenius. "nuc": sum of the singular values. 2 and -2: largest
        and smallest singular value. 1 and -1: largest and smallest column sum of magnitudes. inf
        and -inf: the same for rows.

    Returns
    -------
    Tensor
        The norms of shape (...), or (..., 1, 1) with `keepdims`, in a real floating dtype.

    Raises
    ------
    ArgumentError
        If `ord` is none of these.
    ShapeError
        If `x` has fewer than two axes, or if `ord` takes the smallest of no value: the sums of no
        columns for -1, of no rows for -inf, singular values of an empty matrix for -2.
    DTypeError
        If `x` has a float8 dtype, which has no arithmetic.
    LinAlgError
        If `ord` needs singular values and their iteration does not converge, as with NaN. It is
        raised when the result is computed.

    See Also
    --------
    vector_norm : Norm along any axes.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.matrix_norm(calor.asarray([[1.0, 2.0], [3.0, 4.0]]), ord=1).item()
    6.0
    """
    wide, dtype = _floating(x)
    if wide.ndim < 2:
        raise ShapeError(
            f"matrix_norm: x has shape {wide.shape}; pass matrices, at least two axes (..., M, N)"
        )
    axes = (wide.ndim - 2, wide.ndim - 1)
    made = kept(_matrix_norm(wide, axes, ord), wide, axes, keepdims)
    return made if made.dtype is dtype else e.cast(made, dtype=dtype)


def _matrix_norm(x: Any, axes: tuple[int, int], order: Any) -> Any:
    if order is None or order == "fro":
        return _root(_sum(mx.square_size(x), axes))
    if order == "nuc":
        s: Any = svdvals(x)
        return _sum(s, (s.ndim - 1,))
    if order not in (1, -1, 2, -2, math.inf, -math.inf):
        raise ArgumentError(
            f"matrix_norm: ord is {order!r}; pass 'fro', 'nuc', ±1, ±2 or ±calor.inf"
        )
    # The sums of columns, of rows, or the singular values, of which one is taken.
    count = {1: x.shape[-1], 2: min(x.shape[-2:]), math.inf: x.shape[-2]}[abs(order)]
    if not count and order > 0:
        # The largest of no sizes, none of which would be below 0.
        return _sum(e.abs(x), axes)
    if not count:
        what = {1: "column", 2: "row and one column", math.inf: "row"}[abs(order)]
        raise ShapeError(f"matrix_norm: ord {order} needs at least one {what}, not {x.shape}")
    if abs(order) == 2:
        sizes: Any = svdvals(x)
    else:
        sizes = _sum(e.abs(x), (axes[0],) if abs(order) == 1 else (axes[1],))
    return (r.max if order > 0 else r.min)(sizes, axes=(sizes.ndim - 1,))


def diagonal(x: Operand, /, *, offset: int = 0) -> Tensor:
    """Return a diagonal of each matrix as a vector.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, N) in any dtype.
    offset : int, default 0
        Number of the diagonal: positive above the main diagonal, negative below it.

    Returns
    -------
    Tensor
        Elements (i, i + offset), of shape (..., K) in the dtype of `x`. K is 0 for an `offset`
        outside of the matrices.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.
    TypeError
        If `offset` is not an integer.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.diagonal(calor.asarray([[1, 2], [3, 4]]), offset=1).tolist()
    [2]
    """
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(
            f"diagonal: x has shape {x.shape}; pass matrices, at least two axes (..., M, N)"
        )
    return mx.diagonal(x, integer(offset, "diagonal: offset"))  # type: ignore[no-any-return]


def trace(x: Operand, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Return the sum of a diagonal of each matrix.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, N).
    offset : int, default 0
        Number of the diagonal: positive above the main diagonal, negative below it.
    dtype : dtype, default None
        Dtype of the sum. None chooses as `calor.sum` does: int64 for bool and signed integers, the
        dtype of `x` for floating types.

    Returns
    -------
    Tensor
        The sums, of shape (...).

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.
    TypeError
        If `offset` is not an integer.
    DTypeError
        If `x` cannot be summed in `dtype`.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.trace(calor.asarray([[1, 2], [3, 4]])).item()
    5
    """
    return total(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def cross(x1: Operand, x2: Operand, /, *, axis: int = -1) -> Tensor:
    """Return the cross products of vectors with three elements.

    Parameters
    ----------
    x1, x2 : Tensor, array or number
        Vectors along `axis`, which has size 3 in both. The other axes broadcast. The dtypes are
        promoted.
    axis : int, default -1
        Axis of the vectors. It must be negative if the operands differ in rank.

    Returns
    -------
    Tensor
        The products x1 × x2, in the broadcast shape and the promoted dtype.

    Raises
    ------
    ShapeError
        If `axis` is not an axis of both operands, if its size is not 3, or if the other axes do not
        broadcast.
    DTypeError
        If the dtypes have no common type.
    TypeError
        If `axis` is not an integer.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.cross(calor.asarray([1, 0, 0]), calor.asarray([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    a, b = together([x1, x2], "cross")
    place = integer(axis, "cross: axis")
    if place >= 0 and a.ndim == b.ndim:
        place -= a.ndim
    if not -min(a.ndim, b.ndim) <= place < 0:
        raise ShapeError(
            f"cross: axis {axis} does not fit shapes {a.shape} and {b.shape}; pass a negative axis "
            f"that both have"
        )
    if a.shape[place] != 3 or b.shape[place] != 3:
        raise ShapeError(
            f"cross: shapes {a.shape} and {b.shape} need size 3 along axis {axis}; choose the axis "
            f"of the vectors"
        )
    shape = broadcast_shapes("cross", (a._value.spec, b._value.spec))
    place += len(shape)
    first = [_part(stretched(a, shape), i, place) for i in (1, 2, 0)]
    second = [_part(stretched(b, shape), i, place) for i in (1, 2, 0)]
    parts = [first[i] * second[(i + 1) % 3] - first[(i + 1) % 3] * second[i] for i in range(3)]
    return concat(*parts, axis=place)  # type: ignore[no-any-return]


def _part(x: Any, i: int, axis: int) -> Any:
    starts, stops = [0] * x.ndim, list(x.shape)
    starts[axis], stops[axis] = i, i + 1
    return slice_(x, starts=tuple(starts), stops=tuple(stops), steps=(1,) * x.ndim)
