"""Positions of elements: extremes, nonzero elements, positions in sorted order; choices.

Requirements: only functions whose result's shape depends on the elements read them (nonzero,
argwhere). Positions are int64.
"""

from __future__ import annotations

from typing import Any, Literal

from calor import dtypes
from calor.dtypes import int64
from calor.errors import ArgumentError, DTypeError, ShapeError, TraceError
from calor.functions.arguments import integer, one_axis
from calor.functions.indexing import take_along_axis
from calor.functions.joining import split, stack
from calor.functions.manipulation import reshape
from calor.functions.operands import as_tensor, pair, select, single, stretched, together, truth
from calor.functions.ranges import arange
from calor.functions.reductions import kept
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops.base import Op
from calor.ops.indexing import gather, scatter_nd, take_along
from calor.ops.sources import zeros_of
from calor.recording.recipes import broadcast_shapes
from calor.specs import spec
from calor.tensor.tensor import Operand, Tensor


def _arg(row: Op, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    flat = axis is None
    axes = tuple(range(x.ndim)) if axis is None else (one_axis(axis, x.shape, row.name),)
    if any(not x.shape[a] for a in axes):
        raise ShapeError(
            f"{row.name}: shape {x.shape} is empty along axis {axes}, so there is nothing to find"
        )
    made = row(reshape(x, (x.size,)), axis=0) if flat else row(x, axis=axes[0])
    return kept(made, x, axes, keepdims)


def argmax(x: Operand, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the index of the first largest element.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape with elements along the axis; a real dtype.
    axis : int, optional
        The axis to search. By default ``x`` is flattened.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        Dtype int64, the shape without the axis. The index of the first NaN where there is one.

    Raises
    ------
    ShapeError
        If there are no elements to search.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is complex or float8.

    References
    ----------
    Python array API standard 2024.12, ``argmax``.

    Examples
    --------
    >>> import calor
    >>> calor.argmax(calor.asarray([[1, 5], [3, 2]]), axis=1).tolist()
    [1, 0]
    """
    return _arg(r.argmax, x, axis, keepdims)


def argmin(x: Operand, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the index of the first smallest element.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape with elements along the axis; a real dtype.
    axis : int, optional
        The axis to search. By default ``x`` is flattened.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        Dtype int64, the shape without the axis. The index of the first NaN where there is one.

    Raises
    ------
    ShapeError
        If there are no elements to search.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is complex or float8.

    References
    ----------
    Python array API standard 2024.12, ``argmin``.

    Examples
    --------
    >>> import calor
    >>> calor.argmin(calor.asarray([[1, 5], [3, 2]]), axis=1).tolist()
    [0, 1]
    """
    return _arg(r.argmin, x, axis, keepdims)


def where(condition: Operand, x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 where a condition holds and x2 elsewhere.

    Parameters
    ----------
    condition : Tensor, ndarray or number
        Dtype bool; elements of other dtypes hold if they are not 0.
    x1 : Tensor, ndarray or number
        Any dtype. The three operands broadcast against each other.
    x2 : Tensor, ndarray or number
        Any dtype.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype of ``x1`` and ``x2``.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If the dtypes have no common one.

    References
    ----------
    Python array API standard 2024.12, ``where``.

    Examples
    --------
    >>> import calor
    >>> calor.where(calor.asarray([True, False]), calor.asarray([1, 2]), 0).tolist()
    [1, 0]
    """
    return select(condition, x1, x2)


def flat_nonzero(x: Tensor, size: int | None = None) -> Tensor:
    """Return the row-major places of the elements that are not 0.

    With a size that many, and −1 for those that are missing; without one it reads how many there
    are.
    """
    count = x.size
    flags = reshape(truth(x), (count,))
    counts: Tensor = e.cast(flags, dtype=int64)
    if not count and size is None:
        return counts
    ends: Tensor = r.cumsum(counts, axis=0, reverse=False)
    total = int(ends[-1].numpy()) if size is None else size
    # Every element that is 0 is written to one place past the end, which is cut off.
    into = pair(e.minimum, pair(e.sub, ends, 1), total)
    places = reshape(select(flags, into, total), (count, 1))
    empty = zeros_of(spec((total + 1,), int64), x.device)
    if size is not None:
        empty = pair(e.sub, empty, 1)
    written = scatter_nd(empty, places, arange(count, device=x.device), update="assign")
    return split(written, (total, 1))[0]


def _places(x: Tensor, size: Any, fill_value: int, what: str) -> list[Tensor]:
    """Return the indices along each axis, so many if a size is given."""
    if size is None:
        return unravel(flat_nonzero(x), x.shape)
    count = integer(size, f"{what}: size")
    if count < 0:
        raise ArgumentError(f"{what}: size is {count}; give at least 0")
    flat = flat_nonzero(x, count)
    found = pair(e.greater_equal, flat, 0)
    # Places of an empty tensor have no axes to count by; all of them are missing.
    shape = tuple(n or 1 for n in x.shape)
    return [select(found, t, fill_value) for t in unravel(flat, shape)]


def unravel(places: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    """Return row-major places as one index for each axis of a shape."""
    indices: list[Tensor] = []
    for size in reversed(shape):
        indices.append(pair(e.remainder, places, size))
        places = pair(e.floor_divide, places, size)
    return indices[::-1]


def nonzero(
    x: Operand, /, *, size: int | None = None, fill_value: int = 0
) -> tuple[Tensor, ...]:  # numpydoc ignore=RS01
    """Return the indices of the elements that are not 0, for each axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis, any dtype.
    size : int, optional
        How many indices are returned: the first ones, and ``fill_value`` for those that are
        missing. By default as many as there are. With a size the call can be traced.
    fill_value : int, optional
        What stands for missing indices. By default 0.

    Returns
    -------
    tuple of Tensor
        One int64 tensor of shape (n,) for each axis, in row-major order.

    Raises
    ------
    ShapeError
        If ``x`` is 0-d.
    TraceError
        If `calor.jit` traces the call without a size: the shape depends on the elements.
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``nonzero``.

    Examples
    --------
    >>> import calor
    >>> [t.tolist() for t in calor.nonzero(calor.asarray([[0, 7], [8, 0]]))]
    [[0, 1], [1, 0]]
    """
    x = as_tensor(x)
    if not x.ndim:
        raise ShapeError("nonzero: a 0-d tensor has no axes to index; reshape it to (1,) first")
    return tuple(_places(x, size, fill_value, "nonzero"))


def argwhere(
    x: Operand, /, *, size: int | None = None, fill_value: int = 0
) -> Tensor:  # numpydoc ignore=RS01
    """Return the index vectors of the elements that are not 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    size : int, optional
        How many indices are returned: the first ones, and ``fill_value`` for those that are
        missing. By default as many as there are. With a size the call can be traced.
    fill_value : int, optional
        What stands for missing indices. By default 0.

    Returns
    -------
    Tensor
        Dtype int64 of shape (n, x.ndim), in row-major order.

    Raises
    ------
    TraceError
        If `calor.jit` traces the call without a size: the shape depends on the elements.
    DTypeError
        If ``x`` is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.argwhere(calor.asarray([[0, 7], [8, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    x = as_tensor(x)
    if x.ndim:
        return stack(_places(x, size, fill_value, "argwhere"), axis=1)
    rows = flat_nonzero(x).size if size is None else integer(size, "argwhere: size")
    made: Tensor = zeros_of(spec((rows, 0), int64), x.device)
    return made


def searchsorted(
    x1: Operand,
    x2: Operand,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: Operand | None = None,
) -> Tensor:
    """Return where elements would be inserted into an ascending sequence to keep it sorted.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        The sequence, of shape (n,) and a real dtype; ascending, NaN last. With more axes it holds a
        sequence along the last one for each element of the others.
    x2 : Tensor, ndarray or number
        The elements to insert, of any shape. For several sequences it has the axes of ``x1``, of
        any size along the last; the others broadcast.
    side : {"left", "right"}, optional
        Whether the position is before (the default) or after equal elements.
    sorter : Tensor, ndarray or number, optional
        Integers in the shape of ``x1``, the indices that sort each sequence.

    Returns
    -------
    Tensor
        Positions from 0 to n as int64, in the shape of ``x2``.

    Raises
    ------
    ArgumentError
        If ``side`` is another name.
    ShapeError
        If ``x1`` is 0-d, or the axes before the last do not fit.
    DTypeError
        If the common dtype is complex or float8.

    Notes
    -----
    A binary search: log2(n) + 1 gathers of the shape of ``x2``.

    References
    ----------
    Python array API standard 2024.12, ``searchsorted``.

    Examples
    --------
    >>> import calor
    >>> calor.searchsorted(calor.asarray([1, 3, 3, 5]), calor.asarray([3, 6])).tolist()
    [1, 4]
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: side {side!r} is neither 'left' nor 'right'")
    line, wanted = together((x1, x2), "searchsorted")
    if not line.ndim or (line.ndim > 1 and line.ndim != wanted.ndim):
        raise ShapeError(
            f"searchsorted: x1 has shape {line.shape}, x2 {wanted.shape}; x1 must have one axis, "
            f"or as many as x2"
        )
    if line.dtype.kind == "complex":
        raise DTypeError("searchsorted: complex numbers have no order")
    if sorter is not None:
        line = take_along_axis(line, as_tensor(sorter, line), axis=-1)
    if line.ndim > 1:
        rest = broadcast_shapes(
            "searchsorted", [t._value.spec.with_shape(t.shape[:-1]) for t in (line, wanted)]
        )
        line, wanted = (stretched(t, (*rest, t.shape[-1])) for t in (line, wanted))
    size, last = line.shape[-1], line.ndim - 1
    low = zeros_of(spec(wanted.shape, int64), wanted.device)
    if not size:
        return low  # type: ignore[no-any-return]
    high = pair(e.add, low, size)
    read = take_along if last else gather
    for _ in range(size.bit_length()):
        middle = pair(e.shift_right, pair(e.add, low, high), 1)
        # Where the search is over the middle may lie past the end; nothing moves there.
        found = read(line, pair(e.minimum, middle, size - 1), axis=last)
        further = pair(e.bit_and, _before(found, wanted, side), pair(e.less, low, high))
        low, high = (
            select(further, pair(e.add, middle, 1), low),
            select(further, high, middle),
        )
        high = pair(e.maximum, low, high)
    return low  # type: ignore[no-any-return]


def _before(found: Tensor, wanted: Tensor, side: str) -> Tensor:
    """Return whether the place lies after the found element; NaN counts as the largest number."""
    if side == "left":
        before = pair(e.less, found, wanted)
        if found.dtype.kind == "float":
            last = pair(e.greater, single(e.isnan, wanted), single(e.isnan, found))
            before = pair(e.bit_or, before, last)
        return before
    before = pair(e.less_equal, found, wanted)
    if found.dtype.kind == "float":
        before = pair(e.bit_or, before, single(e.isnan, wanted))
    return before


def bincount(
    x: Operand,
    /,
    weights: Operand | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
) -> Tensor:
    """Count how often each integer occurs, or add up its weights.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Integers of any shape, at least 0. With ``length`` they are below it, and negative ones
        count from it.
    weights : Tensor, ndarray or number, optional
        One number for each element of ``x``. By default each counts 1.
    minlength : int, optional
        The least number of bins, as in NumPy. By default 0.
    length : int, optional
        The number of bins. By default ``minlength``, or one more than the largest integer; then
        the elements are looked at, which `calor.jit` refuses.

    Returns
    -------
    Tensor
        Shape (length,); int64, or the dtype of ``weights`` (int64 for bool).

    Raises
    ------
    ArgumentError
        If ``minlength`` is negative, or ``length`` is not given and an integer is.
    DTypeError
        If ``x`` is not of integers.
    ElementIndexError
        When the result is computed, if an integer is out of range.
    ShapeError
        If ``weights`` has another number of elements than ``x``.
    TraceError
        If ``length`` is not given while `calor.jit` traces the call.
    TypeError
        If ``minlength`` is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.bincount(calor.asarray([0, 2, 2]), length=4).tolist()
    [1, 0, 2, 0]
    >>> calor.bincount(calor.asarray([0, 2, 2])).tolist()
    [1, 0, 2]
    """
    x = as_tensor(x)
    if not x.dtype.is_integer:
        raise DTypeError(f"bincount: x holds {x.dtype.name}; it counts integers")
    least = integer(minlength, "bincount: minlength")
    if least < 0:
        raise ArgumentError(f"bincount: minlength is {least}; give at least 0")
    length = max(least, _beyond(x)) if length is None else integer(length, "bincount: length")
    places = reshape(x, (x.size, 1))
    if weights is None:
        updates = stretched(pair(e.add, zeros_of(spec((), int64), x.device), 1), (x.size,))
    else:
        given = as_tensor(weights, x)
        if given.dtype is dtypes.bool_:
            given = e.cast(given, dtype=int64)
        updates = reshape(given, (x.size,))
    start = zeros_of(spec((length,), updates.dtype), x.device)
    made: Tensor = scatter_nd(start, places, updates, update="add")
    return made


def _beyond(x: Tensor) -> int:
    """Return one more than the largest of integers of at least 0; it looks at them."""
    if not x.size:
        return 0
    try:
        low, high = int(x.min()), int(x.max())
    except TraceError as error:
        raise TraceError(
            f"{error} The number of bins depends on data: say it, calor.bincount(x, length=n)"
        ) from None
    if low < 0:
        raise ArgumentError(f"bincount: x holds {low}; it counts integers of at least 0")
    return high + 1
