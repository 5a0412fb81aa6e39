"""Joining tensors, taking them apart, padding, and sliding windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.arguments import integer, one_axis
from calor.functions.manipulation import moveaxis, reshape
from calor.functions.operands import as_tensor, as_tensors, pair, stretched, together
from calor.functions.ranges import arange
from calor.ops import elementwise as e
from calor.ops import movement as m
from calor.ops.indexing import gather
from calor.recording.record import number_on
from calor.recording.views import INDEX, note_view
from calor.tensor.tensor import Operand, Tensor

Widths = int | tuple[int, int] | Sequence[tuple[int, int]]


def concat(arrays: Sequence[Operand], /, axis: int | None = 0) -> Tensor:
    """Return tensors joined along an axis.

    Parameters
    ----------
    arrays : sequence of Tensor
        At least one; their shapes may differ on ``axis`` only.
    axis : int or None, optional
        The axis to join along. By default the first; None flattens the tensors first.

    Returns
    -------
    Tensor
        The common dtype of the tensors; the sizes along the axis add up.

    Raises
    ------
    ArgumentError
        If there are no tensors.
    ShapeError
        If the shapes differ on another axis.
    DTypeError
        If the dtypes have no common one.
    AxisError
        If ``axis`` does not fit the first shape.

    References
    ----------
    Python array API standard 2024.12, ``concat``.

    Examples
    --------
    >>> import calor
    >>> calor.concat([calor.asarray([1, 2]), calor.asarray([3])]).tolist()
    [1, 2, 3]
    """
    if not len(arrays):
        raise ArgumentError("concat: no tensors were given; give at least one")
    tensors = together(arrays, "concat")
    if axis is None:
        tensors, axis = [reshape(t, (t.size,)) for t in tensors], 0
    first = tensors[0].shape
    axis = one_axis(axis, first, "concat")
    for t in tensors:
        if t.ndim != len(first) or any(
            n != k for i, (n, k) in enumerate(zip(t.shape, first, strict=True)) if i != axis
        ):
            raise ShapeError(
                f"concat: shapes {first} and {t.shape} differ on another axis than {axis}"
            )
    if len(tensors) == 1:
        return tensors[0].copy()
    made: Tensor = m.concat(*tensors, axis=axis)
    return made


def stack(arrays: Sequence[Operand], /, axis: int = 0) -> Tensor:
    """Return tensors of one shape joined along a new axis.

    Parameters
    ----------
    arrays : sequence of Tensor
        At least one; all of the same shape.
    axis : int, optional
        Where the new axis stands in the result. By default first.

    Returns
    -------
    Tensor
        The common dtype of the tensors, with one axis more.

    Raises
    ------
    ArgumentError
        If there are no tensors.
    ShapeError
        If the shapes differ.
    DTypeError
        If the dtypes have no common one.
    AxisError
        If ``axis`` does not fit the shape of the result.

    References
    ----------
    Python array API standard 2024.12, ``stack``.

    Examples
    --------
    >>> import calor
    >>> calor.stack([calor.asarray([1, 2]), calor.asarray([3, 4])], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    tensors = as_tensors(*arrays)
    if not tensors:
        raise ArgumentError("stack: no tensors were given; give at least one")
    shape = tensors[0].shape
    for t in tensors:
        if t.shape != shape:
            raise ShapeError(f"stack: shapes {shape} and {t.shape} differ; they must be equal")
    axis = one_axis(axis, (*shape, 1), "stack")
    return concat([reshape(t, (*shape[:axis], 1, *shape[axis:])) for t in tensors], axis=axis)


def _part(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    starts = tuple(start if i == axis else 0 for i in range(x.ndim))
    stops = tuple(stop if i == axis else n for i, n in enumerate(x.shape))
    cut = m.slice_(x, starts=starts, stops=stops, steps=(1,) * x.ndim)
    made: Tensor = note_view(cut, x, INDEX, (*[slice(None)] * axis, slice(start, stop)))
    return made


def unstack(x: Operand, /, axis: int = 0) -> tuple[Tensor, ...]:  # numpydoc ignore=RS01
    """Return the slices along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis, any dtype.
    axis : int, optional
        The axis to take apart. By default the first.

    Returns
    -------
    tuple of Tensor
        One tensor for each index along the axis, without that axis.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``unstack``.

    Examples
    --------
    >>> import calor
    >>> [t.tolist() for t in calor.unstack(calor.asarray([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    x = as_tensor(x)
    axis = one_axis(axis, x.shape, "unstack")
    rest = x.shape[:axis] + x.shape[axis + 1 :]
    return tuple(reshape(_part(x, axis, i, i + 1), rest) for i in range(x.shape[axis]))


def split(x: Operand, sizes: Sequence[int], /, axis: int = 0) -> tuple[Tensor, ...]:
    """Return consecutive parts of given sizes along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis, any dtype.
    sizes : sequence of int
        The size of each part; one may be −1 and takes the rest. They add up to the size of the
        axis.
    axis : int, optional
        The axis to cut. By default the first.

    Returns
    -------
    tuple of Tensor
        One tensor for each size.

    Raises
    ------
    ArgumentError
        If ``sizes`` is not a sequence (for a number of parts see `chunk`).
    ShapeError
        If the sizes do not add up to the size of the axis.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is no tensor, array or number.
    TypeError
        If a size is not a whole number.

    Examples
    --------
    >>> import calor
    >>> [t.tolist() for t in calor.split(calor.arange(5), (2, 3))]
    [[0, 1], [2, 3, 4]]
    """
    x = as_tensor(x)
    axis = one_axis(axis, x.shape, "split")
    if not isinstance(sizes, Sequence):
        raise ArgumentError(
            f"split: sizes is a sequence with the size of each part, not {sizes!r}; "
            f"calor.chunk(x, n) cuts into n parts of equal size"
        )
    parts = [integer(n, "split: a size") for n in sizes]
    if parts.count(-1) == 1:
        parts[parts.index(-1)] = x.shape[axis] - sum(parts) - 1
    if any(n < 0 for n in parts) or sum(parts) != x.shape[axis]:
        raise ShapeError(
            f"split: sizes {tuple(sizes)} do not add up to {x.shape[axis]}, "
            f"axis {axis} of shape {x.shape}"
        )
    ends = [sum(parts[: i + 1]) for i in range(len(parts))]
    return tuple(_part(x, axis, end - n, end) for n, end in zip(parts, ends, strict=True))


def chunk(x: Operand, chunks: int, /, axis: int = 0) -> tuple[Tensor, ...]:  # numpydoc ignore=RS01
    """Return a number of consecutive parts along an axis, of sizes that differ by at most one.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis, any dtype.
    chunks : int
        The number of parts, at least 1. The larger parts come first; if there are more parts than
        elements, the last ones are empty.
    axis : int, optional
        The axis to cut. By default the first.

    Returns
    -------
    tuple of Tensor
        ``chunks`` tensors.

    Raises
    ------
    ArgumentError
        If ``chunks`` is less than 1.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is no tensor, array or number.
    TypeError
        If ``chunks`` is not a whole number.

    Examples
    --------
    >>> import calor
    >>> [t.tolist() for t in calor.chunk(calor.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    x = as_tensor(x)
    count = integer(chunks, "chunk: chunks")
    if count < 1:
        raise ArgumentError(f"chunk: chunks is {count}; give at least 1")
    least, more = divmod(x.shape[one_axis(axis, x.shape, "chunk")], count)
    return split(x, [least + 1] * more + [least] * (count - more), axis=axis)


Mode = Literal["constant", "edge", "reflect", "symmetric", "wrap"]


def pad(
    x: Operand,
    pad_width: Widths,
    /,
    *,
    mode: Mode = "constant",
    value: float | Tensor = 0,
) -> Tensor:
    """Return the tensor with elements added before and after along each axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    pad_width : int, pair of int, or a pair of int per axis
        The number of elements to add: a number for all ends, a pair (before, after) for all axes,
        or one pair for each axis.
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}, optional
        What is added: ``value`` (the default), the outermost element, the elements mirrored at the
        outermost element or at the edge, or those of the other end. The last three add at most as
        many elements as the axis holds ("reflect" one less).
    value : float or Tensor, optional
        The element for mode "constant", converted to the dtype of ``x``. By default 0.

    Returns
    -------
    Tensor
        The dtype of ``x``.

    Raises
    ------
    ArgumentError
        If a width is negative, or ``mode`` is another name.
    ShapeError
        If ``pad_width`` does not fit the axes, or an axis has too few elements for the mode.
    DTypeError
        If ``x`` is no tensor, array or number.
    TypeError
        If a width is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.pad(calor.asarray([1, 2, 3]), (1, 2), mode="reflect").tolist()
    [2, 1, 2, 3, 2, 1]
    """
    x = as_tensor(x)
    widths = _widths(pad_width, x.ndim)
    if any(n < 0 for ends in widths for n in ends):
        raise ArgumentError(
            f"pad: pad_width {pad_width} is negative; slice to make a tensor smaller"
        )
    if mode == "constant":
        if isinstance(value, complex) and not x.dtype.is_complex:
            raise DTypeError(f"pad: the value {value} does not fit {x.dtype.name}; pass a real one")
        fill = as_tensor(value, x) if not isinstance(value, int | float | complex) else None
        filler: Any = (
            number_on(value, x.dtype, x.device) if fill is None else e.cast(fill, dtype=x.dtype)
        )
        low, high = tuple(a for a, _ in widths), tuple(b for _, b in widths)
        made: Tensor = m.pad(x, filler, low=low, high=high, interior=(0,) * x.ndim)
        return made
    if mode not in _ENDS:
        known = ", ".join(("constant", *_ENDS))
        raise ArgumentError(f"pad: mode {mode!r} is none of {known}")
    for axis, (before, after) in enumerate(widths):
        if before or after:
            x = concat(_ENDS[mode](x, axis, before, after), axis=axis)
    return x.copy()


def _widths(given: Any, ndim: int) -> list[tuple[int, int]]:
    if not isinstance(given, Sequence):
        return [(integer(given, "pad: pad_width"),) * 2] * ndim
    pairs = [given] * ndim if len(given) == 2 and not isinstance(given[0], Sequence) else given
    if len(pairs) != ndim or any(not isinstance(p, Sequence) or len(p) != 2 for p in pairs):
        raise ShapeError(
            f"pad: pad_width {given} does not fit {ndim} axes; "
            f"give a number, a pair (before, after), or a pair for each axis"
        )
    return [(integer(a, "pad: pad_width"), integer(b, "pad: pad_width")) for a, b in pairs]


def _check_reach(x: Tensor, axis: int, reach: int, ends: tuple[int, ...], mode: str) -> None:
    if any(n > reach for n in ends):
        raise ShapeError(
            f"pad: mode {mode!r} adds at most {reach} elements on axis {axis} of shape {x.shape}"
        )


def _edge(x: Tensor, axis: int, before: int, after: int) -> list[Tensor]:
    size = x.shape[axis]
    if not size:
        raise ShapeError(f"pad: axis {axis} of shape {x.shape} is empty and has no edge")

    def strip(place: int, count: int) -> Tensor:
        shape = tuple(count if i == axis else n for i, n in enumerate(x.shape))
        return stretched(_part(x, axis, place, place + 1), shape)

    return [strip(0, before), x, strip(size - 1, after)]


def _mirrored(x: Tensor, axis: int, before: int, after: int, skip: int) -> list[Tensor]:
    size = x.shape[axis]
    mode = "reflect" if skip else "symmetric"
    _check_reach(x, axis, max(size - skip, 0), (before, after), mode)
    return [
        m.flip(_part(x, axis, skip, skip + before), axes=(axis,)),
        x,
        m.flip(_part(x, axis, size - skip - after, size - skip), axes=(axis,)),
    ]


def _wrap(x: Tensor, axis: int, before: int, after: int) -> list[Tensor]:
    size = x.shape[axis]
    _check_reach(x, axis, size, (before, after), "wrap")
    return [_part(x, axis, size - before, size), x, _part(x, axis, 0, after)]


_ENDS: dict[str, Any] = {
    "edge": _edge,
    "reflect": lambda x, axis, before, after: _mirrored(x, axis, before, after, 1),
    "symmetric": lambda x, axis, before, after: _mirrored(x, axis, before, after, 0),
    "wrap": _wrap,
}


def unfold(x: Operand, /, axis: int, size: int, step: int = 1) -> Tensor:
    """Return sliding windows along an axis as a new last axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis, any dtype.
    axis : int
        The axis to slide along.
    size : int
        The number of elements of a window, at least 1 and at most the size of the axis.
    step : int, optional
        The distance between the starts of windows. By default 1.

    Returns
    -------
    Tensor
        The dtype of ``x``; along the axis the number of windows, (n − size) // step + 1, and
        ``size`` as the last axis.

    Raises
    ------
    ShapeError
        If no window fits, or ``step`` is less than 1.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.unfold(calor.arange(5), axis=0, size=3, step=2).tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    x = as_tensor(x)
    axis = one_axis(axis, x.shape, "unfold")
    if not 0 < size <= x.shape[axis] or step < 1:
        raise ShapeError(
            f"unfold: windows of {size} elements, {step} apart, do not fit axis {axis} of "
            f"shape {x.shape}"
        )
    count = (x.shape[axis] - size) // step + 1
    first = reshape(arange(0, count * step, step, device=x.device), (count, 1))
    places = pair(e.add, first, arange(size, device=x.device))
    windows: Tensor = gather(x, places, axis=axis)
    return moveaxis(windows, axis + 1, -1)
