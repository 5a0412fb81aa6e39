"""Functions of vectors and of elements, applied to whole tensors by `calor.vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calor.functions.arguments import one_axis
from calor.functions.manipulation import moveaxis, reshape
from calor.functions.operands import as_tensor
from calor.tensor.tensor import Operand, Tensor
from calor.transforms.vmap import vmap


def apply_along_axis(
    function: Callable[..., Any], axis: int, x: Operand, /, *args: Any, **kwargs: Any
) -> Tensor:
    """Apply a function of a vector to all vectors along an axis.

    Parameters
    ----------
    function : callable
        It takes a vector and returns a tensor. It is called once, by `calor.vmap`.
    axis : int
        The axis of the vectors.
    x : Tensor, ndarray or number
        At least one axis, any dtype.
    *args : Any
        Further arguments of the function, the same for all vectors.
    **kwargs : Any
        Keyword arguments of the function.

    Returns
    -------
    Tensor
        The axes of ``x``, among which those of the function's result replace the axis.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> x = calor.asarray([[3, 1, 2], [6, 5, 4]])
    >>> calor.apply_along_axis(calor.sort, 1, x).tolist()
    [[1, 2, 3], [4, 5, 6]]
    """
    x = as_tensor(x)
    along = one_axis(axis, x.shape, "apply_along_axis")
    last = moveaxis(x, along, -1)
    rest = last.shape[:-1]
    rows = reshape(last, (last.size // max(last.shape[-1], 1), last.shape[-1]))
    made = vmap(lambda row: function(row, *args, **kwargs))(rows)
    found = reshape(made, (*rest, *made.shape[1:]))
    new = tuple(range(len(rest), found.ndim))
    return moveaxis(found, new, tuple(along + i for i in range(len(new))))
