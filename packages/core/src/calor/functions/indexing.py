"""Reading and writing at places that are held in tensors.

Indices are integers and may be negative, counting from the end. Writing returns a new tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.operands import as_tensor, one_axis, stretched
from calor.graph.recipes import broadcast_shapes
from calor.ops import elementwise as e
from calor.ops import indexing as i

if TYPE_CHECKING:
    from calor.functions.operands import Operand
    from calor.tensor.tensor import Tensor

Update = Literal["assign", "add", "mul", "max", "min"]


def _indices(indices: Any, x: Tensor, what: str) -> Tensor:
    from calor.functions.creation import asarray

    made = asarray(indices, device=x.device) if isinstance(indices, list) else as_tensor(indices, x)
    if not made.dtype.is_integer:
        raise DTypeError(f"{what}: indices are {made.dtype.name}; they must be integers")
    return made


def take(x: Operand, indices: Operand, /, *, axis: int | None = None) -> Tensor:
    """Return the elements (or slices along an axis) at the given indices.

    The indices' axes stand in place of the axis, which may be left out for a tensor of one axis.
    Raises DTypeError unless the indices are integers.

    >>> import calor
    >>> calor.take(calor.asarray([5, 6, 7]), calor.asarray([2, 0])).tolist()
    [7, 5]
    """
    x = as_tensor(x)
    if axis is None:
        if x.ndim != 1:
            raise ShapeError(f"take: shape {x.shape} has {x.ndim} axes; name one with axis=")
        axis = 0
    places = _indices(indices, x, "take")
    made: Tensor = i.gather(x, places, axis=one_axis(axis, x.shape, "take"))
    return made


def _along(x: Tensor, indices: Any, axis: int, what: str) -> tuple[Tensor, Tensor, int]:
    """Return x and the indices broadcast against each other on every axis but one."""
    places = _indices(indices, x, what)
    axis = one_axis(axis, x.shape, what)
    if places.ndim != x.ndim:
        raise ShapeError(
            f"{what}: indices of shape {places.shape} must have the {x.ndim} axes of {x.shape}"
        )
    rest = [t._value.spec.with_shape((*t.shape[:axis], 1, *t.shape[axis + 1:]))
            for t in (x, places)]  # fmt: skip
    shape = broadcast_shapes(what, rest)
    x, places = (
        stretched(t, (*shape[:axis], t.shape[axis], *shape[axis + 1 :])) for t in (x, places)
    )
    return x, places, axis


def take_along_axis(x: Operand, indices: Operand, /, *, axis: int = -1) -> Tensor:
    """Return the element at each index along an axis; other axes of x and the indices broadcast.

    >>> import calor
    >>> x = calor.asarray([[3, 1], [2, 4]])
    >>> calor.take_along_axis(x, calor.argsort(x, axis=1), axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    x, places, axis = _along(as_tensor(x), indices, axis, "take_along_axis")
    made: Tensor = i.take_along(x, places, axis=axis)
    return made


def _check(update: str, what: str) -> None:
    if update not in i.UPDATES:
        raise ArgumentError(f"{what}: update {update!r} is none of {', '.join(i.UPDATES)}")


def _values(values: Any, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    made = as_tensor(values, x)
    return stretched(made if made.dtype is x.dtype else e.cast(made, dtype=x.dtype), shape)


def scatter_along_axis(
    x: Operand, indices: Operand, values: Operand, /, *, axis: int = -1, update: Update = "assign"
) -> Tensor:
    """Return x with the element at each index along an axis replaced by, or joined with, a value.

    ``update`` says how: "assign" (the last of several values wins), "add", "mul", "max" or "min".
    Values broadcast to the shape of the indices and take the dtype of x.

    >>> import calor
    >>> places = calor.asarray([0, 0, 2])
    >>> calor.scatter_along_axis(calor.zeros(3), places, 1.0, update="add").tolist()
    [2.0, 0.0, 1.0]
    """
    _check(update, "scatter_along_axis")
    x, places, axis = _along(as_tensor(x), indices, axis, "scatter_along_axis")
    updates = _values(values, x, places.shape)
    made: Tensor = i.scatter_along(x, places, updates, axis=axis, update=update)
    return made


def gather_nd(x: Operand, indices: Operand, /) -> Tensor:
    """Return the parts of x, of shape (*B, *x.shape[k:]), at the indices (*B, k) of its first axes.

    >>> import calor
    >>> calor.gather_nd(calor.asarray([[1, 2], [3, 4]]), calor.asarray([[0, 1], [1, 0]])).tolist()
    [2, 3]
    """
    x = as_tensor(x)
    made: Tensor = i.gather_nd(x, _indices(indices, x, "gather_nd"))
    return made


def scatter_nd(
    x: Operand, indices: Operand, values: Operand, /, *, update: Update = "assign"
) -> Tensor:
    """Return x with its parts at the indices (*B, k) replaced by, or joined with, values.

    Values have, or broadcast to, the shape (*B, *x.shape[k:]) and take the dtype of x; ``update``
    is that of ``scatter_along_axis``.

    >>> import calor
    >>> calor.scatter_nd(calor.zeros(3), calor.asarray([[1]]), calor.asarray([7.0])).tolist()
    [0.0, 7.0, 0.0]
    """
    _check(update, "scatter_nd")
    x = as_tensor(x)
    places = _indices(indices, x, "scatter_nd")
    if not places.ndim or places.shape[-1] > x.ndim:
        raise ShapeError(
            f"scatter_nd: the last axis of indices {places.shape} must index at most the {x.ndim} "
            f"axes of x"
        )
    updates = _values(values, x, places.shape[:-1] + x.shape[places.shape[-1] :])
    made: Tensor = i.scatter_nd(x, places, updates, update=update)
    return made
