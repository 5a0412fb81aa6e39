"""Affine maps over the last axis, embeddings and one-hot rows."""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from calor import dtypes
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.arguments import integer
from calor.functions.manipulation import expand_dims
from calor.functions.operands import as_tensor, as_tensors, lowered, pair, select, together
from calor.ops import elementwise as e
from calor.ops.contraction import dot_general
from calor.ops.indexing import gather
from calor.precision import permitted

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


def linear(x: Operand, weight: Operand, bias: Operand | None = None) -> Tensor:
    """Return x · weightᵀ + bias over the last axis of x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (*N, I).
    weight : Tensor, ndarray or number
        Shape (O, I), or (I,) for one output without an axis of its own.
    bias : Tensor, ndarray or number, optional
        Shape (O,), or () with a weight of one axis; nothing is added if left out.

    Returns
    -------
    Tensor
        Shape (*N, O), or (*N,) with a weight of one axis; the common dtype of `x` and `weight`.

    Raises
    ------
    ShapeError
        If the last axes of `x` and `weight` differ in size, or `weight` does not have 1 or 2 axes.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.linear(calor.ones((1, 2)), calor.asarray([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 7.0]]
    """
    x, weight = together((lowered(x), lowered(weight)), "linear")
    if not x.ndim or weight.ndim not in (1, 2) or x.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"linear: x of shape {x.shape} must end in the last size of the weight {weight.shape}"
        )
    made: Tensor = dot_general(
        x,
        weight,
        contract=((x.ndim - 1,), (weight.ndim - 1,)),
        batch=((), ()),
        dtype=x.dtype,
        **permitted(x.dtype),
    )
    return made if bias is None else pair(e.add, made, lowered(bias))


def bilinear(x1: Operand, x2: Operand, weight: Operand, bias: Operand | None = None) -> Tensor:
    """Return x1 · weight[o] · x2 + bias[o] over the last axes of two tensors.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Shape (*N, A).
    x2 : Tensor, ndarray or number
        Shape (*N, B).
    weight : Tensor, ndarray or number
        Shape (O, A, B).
    bias : Tensor, ndarray or number, optional
        Shape (O,); nothing is added if left out.

    Returns
    -------
    Tensor
        Shape (*N, O); the common dtype of the inputs and `weight`.

    Raises
    ------
    ShapeError
        If the batch shapes differ, or the weight's last two sizes are not (A, B).
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.bilinear(calor.ones((1, 2)), calor.ones((1, 3)), calor.ones((1, 2, 3))).tolist()
    [[6.0]]
    """
    x1, x2, weight = together([lowered(x) for x in (x1, x2, weight)], "bilinear")
    wanted = (x1.shape[-1:], x2.shape[-1:])
    if weight.ndim != 3 or x1.shape[:-1] != x2.shape[:-1] or weight.shape[1:] != sum(wanted, ()):
        raise ShapeError(
            f"bilinear: inputs {x1.shape} and {x2.shape} do not fit the weight {weight.shape}; "
            f"it must be (out, last size of x1, last size of x2)"
        )
    lead = tuple(range(x1.ndim - 1))
    # (*N, out, b), then the second input is contracted with the batch kept.
    said: dict[str, Any] = {"dtype": x1.dtype, **permitted(x1.dtype)}
    part = dot_general(x1, weight, contract=((x1.ndim - 1,), (1,)), batch=((), ()), **said)
    made: Tensor = dot_general(
        part,
        x2,
        contract=((part.ndim - 1,), (x2.ndim - 1,)),
        batch=(lead, lead),
        **said,
    )
    return made if bias is None else pair(e.add, made, lowered(bias))


def embedding(indices: Operand, weight: Operand, *, padding_index: int | None = None) -> Tensor:
    """Return the rows of a table at integer indices.

    Parameters
    ----------
    indices : Tensor, ndarray or number
        Shape (*N,); an integer dtype. Negative indices count from the end.
    weight : Tensor, ndarray or number
        The table, shape (V, *D).
    padding_index : int, optional
        A row that receives no gradient; every row learns if left out.

    Returns
    -------
    Tensor
        Shape (*N, *D); the dtype of `weight`.

    Raises
    ------
    DTypeError
        If the indices are not integers.
    ShapeError
        If `weight` has no axes.
    ElementIndexError
        At the next look, if an index is out of range.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.embedding(calor.asarray([1, 0]), calor.asarray([[1.0], [2.0]])).tolist()
    [[2.0], [1.0]]
    """
    indices, weight = as_tensors(indices, weight)
    if not indices.dtype.is_integer:
        raise DTypeError(
            f"embedding: indices must be integers, not {indices.dtype.name}; cast them"
        )
    if not weight.ndim:
        raise ShapeError("embedding: the weight has no axes; give it shape (rows, features)")
    rows: Tensor = gather(weight, indices, axis=0)
    if padding_index is None:
        return rows
    learns = others(indices, padding_index, weight.shape[0])
    for _ in weight.shape[1:]:
        learns = expand_dims(learns, -1)
    return select(learns, rows, rows.detach())


def others(indices: Tensor, number: int, size: int | None = None) -> Tensor:
    """Return which indices are not a number; all, if it is one that their dtype does not hold.

    With the size of an axis the number names a place, which indices below zero count from the end.
    """
    numbers = (number,) if size is None else (number % size, number % size - size)
    ends = np.iinfo(indices.dtype.numpy)
    found = [pair(e.not_equal, indices, n) for n in numbers if ends.min <= n <= ends.max]
    made: Tensor = reduce(partial(pair, e.bit_and), found or [pair(e.equal, indices, indices)])
    return made


def one_hot(
    indices: Operand, num_classes: int | None = None, *, dtype: Any = dtypes.int64
) -> Tensor:
    """Return a new last axis that is 1 at each index and 0 elsewhere.

    Parameters
    ----------
    indices : Tensor, ndarray or number
        Shape (*N,); an integer dtype. An index outside [0, C) gives a row of zeros.
    num_classes : int, optional
        C, the size of the new axis. If left out, the indices are computed and C is the largest plus
        one.
    dtype : DType or str
        The dtype of the result; int64 by default.

    Returns
    -------
    Tensor
        Shape (*N, C).

    Raises
    ------
    DTypeError
        If the indices are not integers.
    ArgumentError
        If C is less than 1.
    TypeError
        If `num_classes` is not a whole number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.one_hot(calor.asarray([0, 2]), 3).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    from calor.functions.conversion import astype
    from calor.functions.ranges import arange

    indices = as_tensor(indices)
    if not indices.dtype.is_integer:
        raise DTypeError(f"one_hot: indices must be integers, not {indices.dtype.name}; cast them")
    if num_classes is None:
        count = int(indices.numpy().max()) + 1 if indices.size else 0
    else:
        count = integer(num_classes, "one_hot: num_classes")
    if count < 1:
        raise ArgumentError(f"one_hot: num_classes is {count}; give at least 1")
    # An index of few bits is compared in a dtype that holds all classes.
    held = count - 1 <= np.iinfo(indices.dtype.numpy).max
    classes = arange(count, dtype=indices.dtype if held else dtypes.int64, device=indices.device)
    return astype(pair(e.equal, expand_dims(indices, -1), classes), dtype)
