"""Distinct elements. The shapes depend on the elements, so these functions look at once.

NaNs are distinct from each other, as in the standard; −0 and +0 are one element. Distinct elements
are returned in ascending order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from calor import dtypes
from calor.dtypes import int64
from calor.functions.arguments import one_axis
from calor.functions.indexing import take
from calor.functions.joining import concat, split
from calor.functions.manipulation import moveaxis, reshape
from calor.functions.operands import as_tensor, pair, single, together
from calor.functions.searching import flat_nonzero, searchsorted
from calor.ops import elementwise as e
from calor.ops import indexing as i
from calor.ops import reductions as r
from calor.ops.sources import zeros_of
from calor.specs import spec
from calor.tensor.tensor import Operand, Tensor


class UniqueAll(NamedTuple):
    """Distinct values, where each occurs first, where each element went, how often each occurs."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct values and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct values and, in the shape of the input, which of them each element is."""

    values: Tensor
    inverse_indices: Tensor


def _rows(x: Tensor, axis: int) -> Tensor:
    """Return the ranks of the slices along an axis in lexicographic order, equal ones alike."""
    size = x.shape[axis]
    front = moveaxis(x, axis, 0)
    if not x.size:
        return zeros_of(spec((size,), int64), x.device)  # type: ignore[no-any-return]
    ranks = _ranks(reshape(front, (size, x.size // size)))
    # Two neighbours at a time become one number, whose order is that of the pair.
    while ranks.shape[1] > 1:
        width = ranks.shape[1]
        left, right = ranks[:, 0 : width - width % 2 : 2], ranks[:, 1::2]
        both = _ranks(pair(e.add, pair(e.mul, left, size), right))
        if width % 2:
            both = concat((both, split(ranks, (width - 1, 1), axis=1)[1]), axis=1)
        ranks = both
    return reshape(ranks, (size,))


def _ranks(columns: Tensor) -> Tensor:
    """Return for each element of each column how many distinct ones are smaller."""
    size = columns.shape[0]
    ordered, places = i.sort(columns, axis=0, descending=False)
    start = zeros_of(spec(columns.shape, int64), columns.device)
    if size < 2:
        return start  # type: ignore[no-any-return]
    before = split(ordered, (size - 1, 1), axis=0)[0]
    after = split(ordered, (1, size - 1), axis=0)[1]
    first = split(start, (1, size - 1), axis=0)[0]
    steps = concat((first, e.cast(pair(e.not_equal, before, after), dtype=int64)), axis=0)
    ranks = r.cumsum(steps, axis=0, reverse=False)
    made: Tensor = i.scatter_along(start, places, ranks, axis=0, update="assign")
    return made


def _lines(x: Operand, axis: int | None, what: str) -> tuple[Tensor, Tensor]:
    """Return the operand, and what stands for its elements or slices in order and equality."""
    x = as_tensor(x)
    return (x, x) if axis is None else (x, _rows(x, one_axis(axis, x.shape, what)))


def _chosen(x: Tensor, ordered: Tensor, places: Tensor, starts: Tensor, axis: Any) -> Tensor:
    """Return the distinct elements, or slices along an axis."""
    if axis is None:
        made: Tensor = i.gather(ordered, starts, axis=0)
        return made
    return take(x, i.gather(places, starts, axis=0), axis=axis)


def _runs(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the sorted elements, where they were, where a new run starts, and the starts."""
    ordered, places = i.sort(reshape(x, (x.size,)), axis=0, descending=False)
    first = pair(e.equal, zeros_of(spec((min(x.size, 1),), int64), x.device), 0)
    changes = first
    if x.size > 1:
        before, after = split(ordered, (x.size - 1, 1))[0], split(ordered, (1, x.size - 1))[1]
        changes = concat([first, pair(e.not_equal, before, after)])
    return ordered, places, changes, flat_nonzero(changes)


def _inverse(x: Tensor, places: Tensor, changes: Tensor) -> Tensor:
    run = pair(e.sub, r.cumsum(e.cast(changes, dtype=int64), axis=0, reverse=False), 1)
    start = zeros_of(spec((x.size,), int64), x.device)
    inverse = i.scatter_along(start, places, run, axis=0, update="assign")
    return reshape(inverse, x.shape)


def _counts(x: Tensor, starts: Tensor) -> Tensor:
    end = pair(e.add, zeros_of(spec((1,), int64), x.device), x.size)
    ends = concat([split(starts, (1, starts.size - 1))[1], end]) if starts.size else starts
    return pair(e.sub, ends, starts)


def unique_all(x: Operand, /, *, axis: int | None = None) -> UniqueAll:  # numpydoc ignore=RS01
    """Return the distinct elements, where each occurs first, the inverse and the counts.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.
    axis : int, optional
        The axis whose slices are compared, in lexicographic order. By default elements are.

    Returns
    -------
    UniqueAll
        ``values``, ascending, of shape (n,) and the dtype of ``x``; ``indices``, the flat index of
        the first occurrence of each; ``inverse_indices``, in the shape of ``x``, which value each
        element is; ``counts``. All but the values are int64.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.
    TraceError
        If `calor.jit` traces the call: the shape depends on the elements.

    References
    ----------
    Python array API standard 2024.12, ``unique_all``.

    Examples
    --------
    >>> import calor
    >>> found = calor.unique_all(calor.asarray([5, 2, 5]))
    >>> found.values.tolist(), found.indices.tolist()
    ([2, 5], [1, 0])
    >>> found.inverse_indices.tolist(), found.counts.tolist()
    ([1, 0, 1], [1, 2])
    """
    x, line = _lines(x, axis, "unique_all")
    ordered, places, changes, starts = _runs(line)
    return UniqueAll(
        _chosen(x, ordered, places, starts, axis),
        i.gather(places, starts, axis=0),
        _inverse(line, places, changes),
        _counts(line, starts),
    )


def unique_counts(
    x: Operand, /, *, axis: int | None = None
) -> UniqueCounts:  # numpydoc ignore=RS01
    """Return the distinct elements and how often each occurs.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.
    axis : int, optional
        The axis whose slices are compared, in lexicographic order. By default elements are.

    Returns
    -------
    UniqueCounts
        ``values``, ascending, of shape (n,) and the dtype of ``x``, and ``counts`` as int64.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.
    TraceError
        If `calor.jit` traces the call: the shape depends on the elements.

    References
    ----------
    Python array API standard 2024.12, ``unique_counts``.

    Examples
    --------
    >>> import calor
    >>> calor.unique_counts(calor.asarray([5, 2, 5])).counts.tolist()
    [1, 2]
    """
    x, line = _lines(x, axis, "unique_counts")
    ordered, places, _, starts = _runs(line)
    return UniqueCounts(_chosen(x, ordered, places, starts, axis), _counts(line, starts))


def unique_inverse(
    x: Operand, /, *, axis: int | None = None
) -> UniqueInverse:  # numpydoc ignore=RS01
    """Return the distinct elements and, for each element, which of them it is.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.
    axis : int, optional
        The axis whose slices are compared, in lexicographic order. By default elements are.

    Returns
    -------
    UniqueInverse
        ``values``, ascending, of shape (n,) and the dtype of ``x``, and ``inverse_indices`` as
        int64 in the shape of ``x``.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.
    TraceError
        If `calor.jit` traces the call: the shape depends on the elements.

    References
    ----------
    Python array API standard 2024.12, ``unique_inverse``.

    Examples
    --------
    >>> import calor
    >>> calor.unique_inverse(calor.asarray([5, 2, 5])).inverse_indices.tolist()
    [1, 0, 1]
    """
    x, line = _lines(x, axis, "unique_inverse")
    ordered, places, changes, starts = _runs(line)
    values = _chosen(x, ordered, places, starts, axis)
    return UniqueInverse(values, _inverse(line, places, changes))


def unique_values(x: Operand, /, *, axis: int | None = None) -> Tensor:  # numpydoc ignore=RS01
    """Return the distinct elements.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Each NaN is distinct; −0 and 0 are equal.
    axis : int, optional
        The axis whose slices are compared, in lexicographic order. By default elements are.

    Returns
    -------
    Tensor
        Ascending, of shape (n,), or that of ``x`` with size n along the axis; the dtype of ``x``.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.
    TraceError
        If `calor.jit` traces the call: the shape depends on the elements.

    References
    ----------
    Python array API standard 2024.12, ``unique_values``.

    Examples
    --------
    >>> import calor
    >>> calor.unique_values(calor.asarray([5, 2, 5])).tolist()
    [2, 5]
    """
    x, line = _lines(x, axis, "unique_values")
    ordered, places, _, starts = _runs(line)
    return _chosen(x, ordered, places, starts, axis)


def isin(x1: Operand, x2: Operand, /, *, invert: bool = False) -> Tensor:  # numpydoc ignore=RS01
    """Tell for each element whether another tensor contains it.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        The elements, of any shape.
    x2 : Tensor, ndarray or number
        The tensor to search, of any shape. Both are converted to their common dtype.
    invert : bool, optional
        Whether the result is negated. By default False.

    Returns
    -------
    Tensor
        Dtype bool, in the shape of ``x1``. NaN is contained in nothing.

    Raises
    ------
    DTypeError
        If there is no common dtype, or it is float8.

    References
    ----------
    Python array API standard 2024.12, ``isin``.

    Examples
    --------
    >>> import calor
    >>> calor.isin(calor.asarray([1, 2, 3]), calor.asarray([3, 1])).tolist()
    [True, False, True]
    """
    x, held = together((x1, x2), "isin")
    if x.dtype is dtypes.bool_:
        x, held = (e.cast(t, dtype=dtypes.uint8) for t in (x, held))
    held = reshape(held, (held.size,))
    if held.size and not x.dtype.is_complex:
        line, _ = i.sort(held, axis=0, descending=False)
        places = pair(e.minimum, searchsorted(line, x), held.size - 1)
        found = pair(e.equal, i.gather(line, places, axis=0), x)
    else:
        found = r.any_(pair(e.equal, reshape(x, (*x.shape, 1)), held), axes=(x.ndim,))
    return single(e.bit_not, found) if invert else found
