"""Products of matrices and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor.autocasting import recorded_as
from calor.dtypes import DType, as_dtype
from calor.errors import ShapeError
from calor.functions.arguments import integer, one_axis
from calor.functions.linear_algebra_contract import Product, plan
from calor.functions.operands import as_tensor, lowered, pair
from calor.interning import remember
from calor.local import local
from calor.ops import elementwise as e
from calor.ops.movement import permute, reshape
from calor.precision import rounds
from calor.recording.record import recorded
from calor.recording.views import PERMUTE, note_view
from calor.specs import Spec
from calor.tensor.tensor import Operand, Tensor
from calor.tensor.values import Handle

_MATMULS: dict[tuple[Spec, Spec], Product] = {}
_TYPED: dict[tuple[Spec, Spec, DType], Product] = {}
_TENSORDOTS: dict[Any, Product] = {}
_VECDOTS: dict[tuple[Spec, Spec, int], Product] = {}


def _both(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    """Return two operands as tensors; host arrays go to the device of the other."""
    if isinstance(x1, Handle):
        first: Any = x1
        return lowered(first), lowered(as_tensor(x2, first))
    b = as_tensor(x2)
    return lowered(as_tensor(x1, b)), lowered(b)


def matmul(x1: Operand, x2: Operand, /, *, dtype: Any = None) -> Tensor:
    """Return the matrix product ``x1 @ x2``.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Shape (..., M, K), or (K,) for a row.
    x2 : Tensor, ndarray or number
        Shape (..., K, N), or (K,) for a column. The axes before the last two are a batch and
        broadcast.
    dtype : DType or str, optional
        The dtype of sums and result: one of the same kind, at least as wide as the common dtype. By
        default the common dtype, in which integers wrap; half types accumulate in float32. Two
        float8 operands need it, and it is then floating.

    Returns
    -------
    Tensor
        Shape (..., M, N), without M for a row and without N for a column.

    Raises
    ------
    ShapeError
        If an operand is 0-d, or the sizes do not fit.
    DTypeError
        If there is no common dtype, float8 operands have no ``dtype``, or ``dtype`` does not fit
        them.

    References
    ----------
    Python array API standard 2024.12, ``matmul``.

    Examples
    --------
    >>> import calor
    >>> calor.matmul(calor.asarray([[1, 2], [3, 4]]), calor.asarray([1, 1])).tolist()
    [3, 7]
    >>> x = calor.asarray([[0.5, 2.0]]).astype("float8_e4m3fn")
    >>> calor.matmul(x, x.T, dtype="float32").tolist()
    [[4.25]]
    """
    if dtype is not None:
        return _typed_matmul(x1, x2, as_dtype(dtype))
    a: Any = x1
    b: Any = x2
    if local.autocast is not None:
        a, b = _both(x1, x2)
    try:
        key = (a._value.spec, b._value.spec)
    except AttributeError:
        a, b = _both(x1, x2)
        key = (a._value.spec, b._value.spec)
    product = _MATMULS.get(key)
    if product is None:
        product = remember(_MATMULS, key, _matmul_plan(*key))
    precision = local.precision
    recipe = product.at(precision) if rounds(precision) else product.recipe
    made: Tensor = recorded(recipe, (a, b))
    return made if product.axes is None else permute(made, axes=product.axes)


def _typed_matmul(x1: Operand, x2: Operand, dtype: DType) -> Tensor:
    with recorded_as(None):
        a, b = _both(x1, x2)
    key = (a._value.spec, b._value.spec, dtype)
    product = _TYPED.get(key)
    if product is None:
        product = remember(_TYPED, key, _matmul_plan(*key))
    made: Tensor = product(a, b)
    return made


def _matmul_plan(a: Spec, b: Spec, dtype: DType | None = None) -> Product:
    if not a.ndim or not b.ndim:
        raise ShapeError(
            f"matmul: shapes {a.shape} and {b.shape}: a number has no rows or columns; "
            f"write x1 * x2"
        )
    depth = a.shape[-1], b.shape[-2 if b.ndim > 1 else -1]
    if depth[0] != depth[1]:
        raise ShapeError(
            f"matmul: shapes {a.shape} and {b.shape} do not fit; the first has {depth[0]} columns "
            f"and the second {depth[1]} rows"
        )
    # Batch axes are named by their place counted from the end.
    batch_a, batch_b = _from_end(a.ndim - 2), _from_end(b.ndim - 2)
    rows, columns = ("m",) * (a.ndim > 1), ("n",) * (b.ndim > 1)
    batch = max(batch_a, batch_b, key=len)
    return plan(
        "matmul",
        a,
        b,
        (*batch_a, *rows, "k"),
        (*batch_b, "k", *columns),
        (*batch, *rows, *columns),
        dtype,
    )


def _from_end(count: int) -> tuple[int, ...]:
    return tuple(range(-count, 0))


def matrix_transpose(x: Operand, /) -> Tensor:
    """Return matrices with rows and columns exchanged.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (..., M, N), any dtype.

    Returns
    -------
    Tensor
        Shape (..., N, M), the dtype of ``x``.

    Raises
    ------
    ShapeError
        If ``x`` has fewer than two axes.
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``matrix_transpose``.

    Examples
    --------
    >>> import calor
    >>> calor.matrix_transpose(calor.zeros((4, 2, 3))).shape
    (4, 3, 2)
    """
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(
            f"matrix_transpose: shape {x.shape} has no rows and columns; it needs two axes"
        )
    order = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    made: Tensor = note_view(permute(x, axes=order), x, PERMUTE, order)
    return made


def tensordot(x1: Operand, x2: Operand, /, axes: int | Sequence[int | Sequence[int]] = 2) -> Tensor:
    """Return the sum of products over pairs of axes.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape.
    x2 : Tensor, ndarray or number
        Any shape. Summed axes have the same size as those of ``x1``; nothing is broadcast.
    axes : int or pair of sequences of int, optional
        How many of the last axes of ``x1`` meet the first of ``x2``, or the axes of ``x1`` and of
        ``x2``, matched in order. By default 2.

    Returns
    -------
    Tensor
        The axes of ``x1`` and then of ``x2`` that are not summed, in the common dtype.

    Raises
    ------
    ShapeError
        If the axes do not match in number or in size.
    AxisError
        If an axis does not exist.
    DTypeError
        If there is no common dtype, or it is float8.
    TypeError
        If an axis is not a whole number.

    References
    ----------
    Python array API standard 2024.12, ``tensordot``.

    Examples
    --------
    >>> import calor
    >>> calor.tensordot(calor.ones((2, 3, 4)), calor.ones((3, 4, 5))).shape
    (2, 5)
    """
    a, b = _both(x1, x2)
    pairs: Any = axes
    if type(pairs) is not int:
        pairs = _pairs(axes)
    key = (a._value.spec, b._value.spec, pairs)
    product = _TENSORDOTS.get(key)
    if product is None:
        product = remember(_TENSORDOTS, key, _tensordot_plan(*key))
    made: Tensor = product(a, b)
    return made


def _pairs(axes: Any) -> Any:
    """Return the axes of tensordot as a number or a pair of tuples."""
    if not isinstance(axes, Sequence):
        return integer(axes, "tensordot: axes")
    if len(axes) != 2:
        raise ShapeError(f"tensordot: axes {axes} must be a number or a pair of sequences")
    return tuple(tuple(s) if isinstance(s, Sequence) else (s,) for s in axes)


def _tensordot_plan(a: Spec, b: Spec, axes: Any) -> Product:
    if type(axes) is int:
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ShapeError(
                f"tensordot: {axes} axes cannot be summed over for shapes {a.shape} and {b.shape}"
            )
        axes = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    first, second = axes
    left = [one_axis(i, a.shape, "tensordot") for i in first]
    right = [one_axis(i, b.shape, "tensordot") for i in second]
    if len(left) != len(right) or len({*left}) != len(left) or len({*right}) != len(right):
        raise ShapeError(
            f"tensordot: axes {first} and {second} must have one length, each axis once"
        )
    for i, j in zip(left, right, strict=True):
        if a.shape[i] != b.shape[j]:
            raise ShapeError(
                f"tensordot: axis {i} of shape {a.shape} and axis {j} of shape {b.shape} have "
                f"sizes {a.shape[i]} and {b.shape[j]}; summed axes have one size"
            )
    names_a: list[Any] = [("a", i) for i in range(a.ndim)]
    names_b: list[Any] = [("b", i) for i in range(b.ndim)]
    for i, j in zip(left, right, strict=True):
        names_b[j] = names_a[i]
    free = [n for n in (*names_a, *names_b) if (n in names_a) != (n in names_b)]
    return plan("tensordot", a, b, tuple(names_a), tuple(names_b), tuple(free))


def vecdot(x1: Operand, x2: Operand, /, axis: int = -1) -> Tensor:
    """Return the dot products Σ conj(x1) · x2 along an axis.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape.
    x2 : Tensor, ndarray or number
        The same size along ``axis``. The other axes broadcast.
    axis : int, optional
        The axis to sum over, counted from the end if the numbers of axes differ. By default the
        last.

    Returns
    -------
    Tensor
        The broadcast shape without the axis, in the common dtype.

    Raises
    ------
    ShapeError
        If the axis does not fit, or the vectors differ in length.
    DTypeError
        If there is no common dtype, or it is float8.
    TypeError
        If ``axis`` is not a whole number.

    References
    ----------
    Python array API standard 2024.12, ``vecdot``.

    Examples
    --------
    >>> import calor
    >>> calor.vecdot(calor.asarray([[1, 2], [3, 4]]), calor.asarray([1, 10])).tolist()
    [21, 43]
    """
    a, b = _both(x1, x2)
    number = integer(axis, "vecdot: axis")
    key = (a._value.spec, b._value.spec, number)
    product = _VECDOTS.get(key)
    if product is None:
        product = remember(_VECDOTS, key, _vecdot_plan(*key))
    made: Tensor = product(e.conjugate(a), b)
    return made


def _vecdot_plan(a: Spec, b: Spec, axis: int) -> Product:
    if axis >= 0 and a.ndim == b.ndim:
        axis -= a.ndim
    if not -min(a.ndim, b.ndim) <= axis < 0:
        raise ShapeError(
            f"vecdot: axis {axis} does not fit shapes {a.shape} and {b.shape}; give a "
            f"negative axis that both have"
        )
    if a.shape[axis] != b.shape[axis]:
        raise ShapeError(
            f"vecdot: the vectors of shapes {a.shape} and {b.shape} along axis {axis} have "
            f"{a.shape[axis]} and {b.shape[axis]} elements"
        )
    left, right = _from_end(a.ndim), _from_end(b.ndim)
    out = tuple(n for n in max(left, right, key=len) if n != axis)
    return plan("vecdot", a, b, left, right, out)


def outer(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the products of each element of a vector with each of another.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Shape (N,).
    x2 : Tensor, ndarray or number
        Shape (M,).

    Returns
    -------
    Tensor
        Shape (N, M), in the common dtype.

    Raises
    ------
    ShapeError
        If an operand has not exactly one axis.
    DTypeError
        If ``x1`` or ``x2`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``linalg.outer``.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.outer(calor.asarray([1, 2]), calor.asarray([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    a, b = _both(x1, x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"outer: shapes {a.shape} and {b.shape}; both operands have one axis")
    # Not a sum of one product each: that would turn a −0 into 0.
    column: Tensor = reshape(a, shape=(*a.shape, 1))
    return pair(e.mul, column, b)
