"""Changing shapes and the order of axes."""

from __future__ import annotations

from math import prod

from calor.dtypes import int64
from calor.errors import ShapeError
from calor.functions.arguments import many_axes, one_axis, sizes_of
from calor.functions.operands import as_tensor, as_tensors, stretched
from calor.ops import movement as m
from calor.recording.recipes import broadcast_shapes
from calor.recording.views import PERMUTE, RESHAPE, note_view
from calor.specs import spec
from calor.tensor.tensor import Axis, Operand, Tensor


def reshape(x: Operand, /, shape: int | tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Return the elements in row-major order under another shape.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    shape : int or tuple of int
        The new sizes; one may be −1 and is computed from the others.
    copy : bool, optional
        True for a tensor that is no view of ``x`` inside `calor.shared_views`. Elsewhere tensors
        share no memory, and it changes nothing.

    Returns
    -------
    Tensor
        The given shape, the dtype of ``x``.

    Raises
    ------
    ShapeError
        If the number of elements differs.
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``reshape``.

    Examples
    --------
    >>> import calor
    >>> calor.reshape(calor.arange(6), (2, -1)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    x = as_tensor(x)
    wanted = sizes_of(shape, "reshape")
    if -1 in wanted:
        known = prod(n for n in wanted if n != -1)
        if wanted.count(-1) > 1 or not known or x.size % known:
            raise ShapeError(
                f"reshape: {x.size} elements of shape {x.shape} do not fill {wanted}; "
                f"one size may be -1 when the others divide the number of elements"
            )
        wanted = tuple(x.size // known if n == -1 else n for n in wanted)
    made: Tensor = x.copy() if wanted == x.shape else m.reshape(x, shape=wanted)
    return made if copy else note_view(made, x, RESHAPE, wanted)


def identity(x: Tensor) -> Tensor:
    """Return a new tensor of the same value through which the gradient passes.

    Parameters
    ----------
    x : Tensor
        Any shape and dtype.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.
    """
    made: Tensor = m.reshape(x, shape=x.shape)
    return made


def flatten(x: Operand, /, *, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Return the tensor with consecutive axes joined into one.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype; a 0-d tensor becomes one of shape (1,).
    start_axis : int, optional
        The first axis to join. By default 0.
    end_axis : int, optional
        The last axis to join. By default the last.

    Returns
    -------
    Tensor
        The dtype of ``x``.

    Raises
    ------
    AxisError
        If an axis does not exist.
    ShapeError
        If ``start_axis`` is after ``end_axis``.
    DTypeError
        If ``x`` is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.flatten(calor.zeros((2, 3, 4)), start_axis=1).shape
    (2, 12)
    """
    x = as_tensor(x)
    if not x.ndim:
        return reshape(x, (1,))
    first = one_axis(start_axis, x.shape, "flatten")
    last = one_axis(end_axis, x.shape, "flatten")
    if first > last:
        raise ShapeError(f"flatten: start_axis {start_axis} is after end_axis {end_axis}")
    shape = x.shape
    return reshape(x, (*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :]))


def broadcast_to(x: Operand, /, shape: int | tuple[int, ...]) -> Tensor:
    """Return the tensor repeated along new leading axes and axes of size 1.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    shape : int or tuple of int
        The shape of the result.

    Returns
    -------
    Tensor
        The given shape, the dtype of ``x``.

    Raises
    ------
    ShapeError
        If ``x`` does not broadcast to the shape.
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``broadcast_to``.

    Examples
    --------
    >>> import calor
    >>> calor.broadcast_to(calor.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    x = as_tensor(x)
    wanted = sizes_of(shape, "broadcast_to")
    return x.copy() if x.shape == wanted else stretched(x, wanted)


def broadcast_arrays(*arrays: Operand) -> list[Tensor]:
    """Return the tensors broadcast to their common shape.

    Parameters
    ----------
    *arrays : Tensor, ndarray or number
        Any shapes that broadcast, any dtypes.

    Returns
    -------
    list of Tensor
        The common shape, each with its own dtype.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If an argument is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``broadcast_arrays``.

    Examples
    --------
    >>> import calor
    >>> [t.shape for t in calor.broadcast_arrays(calor.ones(3), calor.ones((2, 1)))]
    [(2, 3), (2, 3)]
    """
    tensors = as_tensors(*arrays)
    if not tensors:
        return []
    shape = broadcast_shapes("broadcast_arrays", [t._value.spec for t in tensors])
    return [broadcast_to(t, shape) for t in tensors]


def broadcast_shapes_of(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape that shapes broadcast to.

    Parameters
    ----------
    *shapes : tuple of int
        The shapes.

    Returns
    -------
    tuple of int
        The common shape.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    return broadcast_shapes("broadcast_shapes", [spec(tuple(s), int64) for s in shapes or [()]])


def expand_dims(x: Operand, /, axis: int | tuple[int, ...] = 0) -> Tensor:
    """Return the tensor with new axes of size 1.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    axis : int or tuple of int, optional
        Where the new axes stand in the result. By default first.

    Returns
    -------
    Tensor
        The dtype of ``x``, with more axes.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of the result.
    ShapeError
        If an axis is named twice.
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``expand_dims``.

    Examples
    --------
    >>> import calor
    >>> calor.expand_dims(calor.ones((2, 3)), axis=-1).shape
    (2, 3, 1)
    """
    x = as_tensor(x)
    count = len(axis) if isinstance(axis, tuple | list) else 1
    result = [1] * (x.ndim + count)
    places = set(many_axes(axis, tuple(result), "expand_dims"))
    sizes = iter(x.shape)
    return reshape(x, tuple(1 if i in places else next(sizes) for i in range(len(result))))


def squeeze(x: Operand, /, axis: Axis = None) -> Tensor:
    """Return the tensor without axes of size 1.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    axis : int or tuple of int, optional
        The axes to remove. By default all of size 1.

    Returns
    -------
    Tensor
        The dtype of ``x``, with fewer axes.

    Raises
    ------
    ShapeError
        If a given axis has another size than 1, or is named twice.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``squeeze``.

    Examples
    --------
    >>> import calor
    >>> calor.squeeze(calor.ones((1, 3, 1)), axis=0).shape
    (3, 1)
    """
    x = as_tensor(x)
    if axis is None:
        return reshape(x, tuple(n for n in x.shape if n != 1))
    axes = many_axes(axis, x.shape, "squeeze")
    for a in axes:
        if x.shape[a] != 1:
            raise ShapeError(f"squeeze: axis {a} of shape {x.shape} has size {x.shape[a]}, not 1")
    return reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))


def permute_dims(x: Operand, /, axes: tuple[int, ...]) -> Tensor:
    """Return the tensor with its axes in another order.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    axes : tuple of int
        Axis i of the result is axis ``axes[i]`` of ``x``; each axis once.

    Returns
    -------
    Tensor
        The dtype of ``x``.

    Raises
    ------
    ShapeError
        If ``axes`` does not name each axis once.
    AxisError
        If an axis does not exist.
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``permute_dims``.

    Examples
    --------
    >>> import calor
    >>> calor.permute_dims(calor.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    x = as_tensor(x)
    order = tuple(one_axis(a, x.shape, "permute_dims") for a in axes)
    if sorted(order) != list(range(x.ndim)):
        raise ShapeError(f"permute_dims: axes {tuple(axes)} must name each of the {x.ndim} axes "
                         f"of shape {x.shape} once")  # fmt: skip
    made: Tensor = note_view(m.permute(x, axes=order), x, PERMUTE, order)
    return made


def transpose(x: Operand, axes: tuple[int, ...] | None = None, /) -> Tensor:
    """Return the tensor with its axes reversed, or in a given order.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    axes : tuple of int, optional
        Axis i of the result is axis ``axes[i]`` of ``x``. By default the order is reversed.

    Returns
    -------
    Tensor
        The dtype of ``x``.

    Raises
    ------
    ShapeError
        If ``axes`` does not name each axis once.
    AxisError
        If an axis does not exist.
    DTypeError
        If ``x`` is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.transpose(calor.ones((2, 3, 4))).shape
    (4, 3, 2)
    """
    x = as_tensor(x)
    return permute_dims(x, tuple(reversed(range(x.ndim))) if axes is None else axes)


def swapaxes(x: Operand, axis1: int, axis2: int, /) -> Tensor:  # numpydoc ignore=RS01
    """Return the tensor with two axes exchanged.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    axis1 : int
        The one axis.
    axis2 : int
        The other axis.

    Returns
    -------
    Tensor
        The dtype of ``x``.

    Raises
    ------
    AxisError
        If an axis does not exist.
    DTypeError
        If ``x`` is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.swapaxes(calor.ones((2, 3, 4)), 0, -1).shape
    (4, 3, 2)
    """
    x = as_tensor(x)
    order = list(range(x.ndim))
    first, second = one_axis(axis1, x.shape, "swapaxes"), one_axis(axis2, x.shape, "swapaxes")
    order[first], order[second] = second, first
    return permute_dims(x, tuple(order))


def moveaxis(
    x: Operand, source: int | tuple[int, ...], destination: int | tuple[int, ...], /
) -> Tensor:
    """Return the tensor with axes moved to other positions; the other axes keep their order.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    source : int or tuple of int
        The axes to move.
    destination : int or tuple of int
        Where each of them stands in the result.

    Returns
    -------
    Tensor
        The dtype of ``x``.

    Raises
    ------
    ShapeError
        If the numbers of axes differ, or an axis is named twice.
    AxisError
        If an axis does not exist.
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``moveaxis``.

    Examples
    --------
    >>> import calor
    >>> calor.moveaxis(calor.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = as_tensor(x)
    given = [s if isinstance(s, tuple | list) else (s,) for s in (source, destination)]
    for axes in given:
        many_axes(tuple(axes), x.shape, "moveaxis")
    moved, places = ([one_axis(a, x.shape, "moveaxis") for a in axes] for axes in given)
    if len(moved) != len(places):
        raise ShapeError(f"moveaxis: {len(moved)} source axes and {len(places)} destinations")
    order = [a for a in range(x.ndim) if a not in moved]
    for place, axis in sorted(zip(places, moved, strict=True)):
        order.insert(place, axis)
    return permute_dims(x, tuple(order))


def flip(x: Operand, /, axis: Axis = None) -> Tensor:
    """Return the tensor with the elements in reverse order along axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    axis : int or tuple of int, optional
        The axes to reverse. By default all.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If an axis is named twice.
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``flip``.

    Examples
    --------
    >>> import calor
    >>> calor.flip(calor.asarray([1, 2, 3])).tolist()
    [3, 2, 1]
    """
    x = as_tensor(x)
    made: Tensor = m.flip(x, axes=many_axes(axis, x.shape, "flip"))
    return made
