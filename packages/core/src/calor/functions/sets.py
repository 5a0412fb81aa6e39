"""Distinct elements. The shapes depend on the elements, so these functions look at once.

NaNs are distinct from each other, as in the standard; −0 and +0 are one element. Distinct elements
are returned in ascending order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from calor import dtypes
from calor.dtypes import int64
from calor.functions.joining import concat, split
from calor.functions.manipulation import reshape
from calor.functions.operands import as_tensor, pair
from calor.functions.searching import flat_nonzero
from calor.ops import elementwise as e
from calor.ops import indexing as i
from calor.ops import reductions as r
from calor.ops.sources import zeros_of
from calor.specs import spec

if TYPE_CHECKING:
    from calor.functions.operands import Operand
    from calor.tensor.tensor import Tensor


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


def unique_all(x: Operand, /) -> UniqueAll:
    """Return distinct values, their first (flat) indices, the inverse indices and the counts.

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


def unique_counts(x: Operand, /) -> UniqueCounts:
    """Return distinct values and how often each occurs.

    >>> import calor
    >>> calor.unique_counts(calor.asarray([5, 2, 5])).counts.tolist()
    [1, 2]
    """
    x = as_tensor(x)
    ordered, _, _, starts = _runs(x)
    return UniqueCounts(i.gather(ordered, starts, axis=0), _counts(x, starts))


def unique_inverse(x: Operand, /) -> UniqueInverse:
    """Return distinct values and, for each element, the index of its value among them.

    >>> import calor
    >>> calor.unique_inverse(calor.asarray([5, 2, 5])).inverse_indices.tolist()
    [1, 0, 1]
    """
    x = as_tensor(x)
    ordered, places, changes, starts = _runs(x)
    return UniqueInverse(i.gather(ordered, starts, axis=0), _inverse(x, places, changes))


def unique_values(x: Operand, /) -> Tensor:
    """Return the distinct values in ascending order.

    >>> import calor
    >>> calor.unique_values(calor.asarray([5, 2, 5])).tolist()
    [2, 5]
    """
    ordered, _, _, starts = _runs(as_tensor(x))
    made: Tensor = i.gather(ordered, starts, axis=0)
    return made


def isin(x1: Operand, x2: Operand, /, *, invert: bool = False) -> Tensor:
    """Return, for each element of x1, whether x2 holds it; NaN is in nothing.

    >>> import calor
    >>> calor.isin(calor.asarray([1, 2, 3]), calor.asarray([3, 1])).tolist()
    [True, False, True]
    """
    from calor.functions.operands import single, together
    from calor.functions.searching import searchsorted

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
