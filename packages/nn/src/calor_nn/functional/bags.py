"""Rows of a table, combined in bags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.half_types import in_float32
from calor.functions.manipulation import expand_dims
from calor.functions.operands import as_tensor, as_tensors, pair, select
from calor.functions.ranges import arange
from calor.functions.reductions import max as largest
from calor.functions.reductions import sum as total
from calor.ops import elementwise as e
from calor.ops.indexing import gather, scatter_nd
from calor.ops.movement import fill
from calor_nn.functional.affine import others

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor

_MODES = ("sum", "mean", "max")


def embedding_bag(
    indices: Operand,
    weight: Operand,
    offsets: Operand | None = None,
    *,
    mode: Literal["mean", "sum", "max"] = "mean",
    per_sample_weights: Operand | None = None,
    include_last_offset: bool = False,
    padding_index: int | None = None,
) -> Tensor:
    """Return the rows of a table at integer indices, combined by bags.

    Parameters
    ----------
    indices : Tensor, ndarray or number
        Shape (B, L): one bag in each row; or (L,), which `offsets` divide. An integer dtype.
    weight : Tensor, ndarray or number
        The table, shape (V, D); real floating.
    offsets : Tensor, ndarray or number, optional
        Shape (B,): where each bag begins among indices of one axis; the first is 0.
    mode : {"mean", "sum", "max"}
        How the rows of a bag are combined. A bag without rows gives 0.
    per_sample_weights : Tensor, ndarray or number, optional
        A factor of each row, the shape of `indices`; for "sum" alone.
    include_last_offset : bool
        Whether `offsets` ends with the number of indices, and so has one more element than bags.
    padding_index : int, optional
        Rows of this index are left out, and do not learn.

    Returns
    -------
    Tensor
        Shape (B, D); the dtype of `weight`.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    ArgumentError
        If `mode` is unknown, or factors are given for another mode than "sum".
    DTypeError
        If indices or offsets are not integers.
    ElementIndexError
        At the next look, if an index is out of range.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> table = calor.asarray([[1.0], [2.0], [4.0]])
    >>> functional.embedding_bag(calor.asarray([0, 1, 2]), table, calor.asarray([0, 2])).tolist()
    [[1.5], [4.0]]
    """
    what = "embedding_bag"
    indices, weight = as_tensors(indices, weight)
    if mode not in _MODES:
        raise ArgumentError(f"{what}: mode {mode!r} is none of {', '.join(_MODES)}")
    if not indices.dtype.is_integer:
        raise DTypeError(f"{what}: indices must be integers, not {indices.dtype.name}; cast them")
    if (
        weight.ndim != 2
        or indices.ndim not in (1, 2)
        or (indices.ndim == 2) == (offsets is not None)
    ):
        raise ShapeError(
            f"{what}: indices of shape {indices.shape} and a weight {weight.shape}: give indices "
            f"(B, L) without offsets, or (L,) with offsets, and a table (V, D)"
        )
    factors = _factors(per_sample_weights, indices, mode)
    starts = None if offsets is None else as_tensor(offsets, indices)
    counted = None
    if padding_index is not None:
        counted = others(indices, padding_index, weight.shape[0])
    # Of a table of a half type the gathered rows alone are converted.
    rows = gather(weight, indices, axis=0)
    made: Tensor = _combined(rows, factors, counted, starts, mode, include_last_offset)
    return made


@in_float32(autocast=False)
def _combined(
    rows: Tensor,
    factors: Tensor | None,
    counted: Tensor | None,
    offsets: Tensor | None,
    mode: str,
    last: bool,
) -> Tensor:
    """Return rows combined by bags; ``counted``: which of them count."""
    if counted is not None:
        rows = select(expand_dims(counted, -1), rows, 0.0)
    if factors is not None:
        rows = pair(e.mul, rows, expand_dims(factors, -1))
    if offsets is None:
        return _of_rows(rows, counted, mode)
    return _of_bags(rows, counted, offsets, mode, last)


def _factors(given: Any, indices: Tensor, mode: str) -> Tensor | None:
    if given is None:
        return None
    if mode != "sum":
        raise ArgumentError(f'embedding_bag: per_sample_weights need mode "sum", not {mode!r}')
    factors: Tensor = as_tensor(given, indices)
    if factors.shape != indices.shape:
        raise ShapeError(
            f"embedding_bag: per_sample_weights of shape {factors.shape} must have the shape of "
            f"the indices, {indices.shape}"
        )
    return factors


def _of_rows(rows: Tensor, counted: Tensor | None, mode: str) -> Tensor:
    """Return rows (B, L, D) combined along L; those that do not count are 0."""
    if mode == "max":
        if not rows.shape[1]:
            return total(rows, axis=1)
        if counted is None:
            return largest(rows, axis=1)
        shown = select(expand_dims(counted, -1), rows, -float("inf"))
        some = expand_dims(pair(e.greater, total(counted, axis=1), 0), -1)
        return select(some, largest(shown, axis=1), 0.0)
    summed = total(rows, axis=1)
    if mode == "sum":
        return summed
    if counted is None:
        return pair(e.div, summed, float(max(rows.shape[1], 1)))
    return _divided(summed, total(counted, axis=1))


def _of_bags(
    rows: Tensor, counted: Tensor | None, offsets: Tensor, mode: str, last: bool
) -> Tensor:
    """Return rows (L, D) combined by the bags that begin at the offsets."""
    from calor.functions.searching import searchsorted

    if offsets.ndim != 1 or not offsets.dtype.is_integer or (last and not offsets.size):
        raise ShapeError(
            f"embedding_bag: offsets of shape {offsets.shape} and {offsets.dtype.name} must be "
            f"integers of one axis"
        )
    bags = offsets.size - last
    places = arange(rows.shape[0], dtype=offsets.dtype, device=rows.device)
    starts = offsets[:bags]
    # The last bag that begins at or before each place.
    of = pair(e.sub, searchsorted(starts, places, side="right"), 1)
    index = expand_dims(of, -1)
    like = fill(rows, 0, (bags, rows.shape[1]))
    ones = e.cast(pair(e.equal, of, of) if counted is None else counted, dtype=of.dtype)
    counts = scatter_nd(fill(of, 0, (bags,)), index, ones, update="add")
    if mode == "max":
        low = fill(rows, -float("inf"), (bags, rows.shape[1]))
        shown = rows if counted is None else select(expand_dims(counted, -1), rows, -float("inf"))
        made = scatter_nd(low, index, shown, update="max")
        return select(expand_dims(pair(e.greater, counts, 0), -1), made, 0.0)
    summed: Tensor = scatter_nd(like, index, rows, update="add")
    return summed if mode == "sum" else _divided(summed, counts)


def _divided(summed: Tensor, counts: Tensor) -> Tensor:
    least = e.cast(pair(e.maximum, counts, 1), dtype=summed.dtype)
    return pair(e.div, summed, expand_dims(least, -1))
