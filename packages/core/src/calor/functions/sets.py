"""Distinct elements. The shapes depend on the elements, so these functions look at once.

NaNs are distinct from each other, as in the standard; −0 and +0 are one element. Distinct elements
are returned in ascending order.
"""

from __future__ import annotations

from typing import NamedTuple

from calor import dtypes
from calor.dtypes import int64
from calor.functions.joining import concat, split
from calor.functions.manipulation import reshape
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


def unique_all(x: Operand, /) -> UniqueAll:  # numpydoc ignore=RS01
    """Return the distinct elements, where each occurs first, the inverse and the counts.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.

    Returns
    -------
    UniqueAll
        ``values``, ascending, of shape (n,) and the dtype of ``x``; ``indices``, the flat index of
        the first occurrence of each; ``inverse_indices``, in the shape of ``x``, which value each
        element is; ``counts``. All but the values are int64.

    Raises
    ------
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
    x = as_tensor(x)
    ordered, places, changes, starts = _runs(x)
    return UniqueAll(
        i.gather(ordered, starts, axis=0),
        i.gather(places, starts, axis=0),
        _inverse(x, places, changes),
        _counts(x, starts),
    )


def unique_counts(x: Operand, /) -> UniqueCounts:  # numpydoc ignore=RS01
    """Return the distinct elements and how often each occurs.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.

    Returns
    -------
    UniqueCounts
        ``values``, ascending, of shape (n,) and the dtype of ``x``, and ``counts`` as int64.

    Raises
    ------
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
    x = as_tensor(x)
    ordered, _, _, starts = _runs(x)
    return UniqueCounts(i.gather(ordered, starts, axis=0), _counts(x, starts))


def unique_inverse(x: Operand, /) -> UniqueInverse:  # numpydoc ignore=RS01
    """Return the distinct elements and, for each element, which of them it is.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.

    Returns
    -------
    UniqueInverse
        ``values``, ascending, of shape (n,) and the dtype of ``x``, and ``inverse_indices`` as
        int64 in the shape of ``x``.

    Raises
    ------
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
    x = as_tensor(x)
    ordered, places, changes, starts = _runs(x)
    return UniqueInverse(i.gather(ordered, starts, axis=0), _inverse(x, places, changes))


def unique_values(x: Operand, /) -> Tensor:  # numpydoc ignore=RS01
    """Return the distinct elements.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Each NaN is distinct; −0 and 0 are equal.

    Returns
    -------
    Tensor
        Ascending, of shape (n,) and the dtype of ``x``.

    Raises
    ------
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
    ordered, _, _, starts = _runs(as_tensor(x))
    made: Tensor = i.gather(ordered, starts, axis=0)
    return made


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
