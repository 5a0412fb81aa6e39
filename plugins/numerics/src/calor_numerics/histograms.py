"""Counting elements in bins. The bins' number is known, so all but edges from data is traceable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from calor import dtypes
from calor.errors import ArgumentError, ShapeError
from calor.functions.arguments import integer
from calor.functions.creation import asarray, full, zeros
from calor.functions.indexing import scatter_nd
from calor.functions.joining import concat
from calor.functions.manipulation import reshape
from calor.functions.operands import as_tensor, as_tensors, first_tensor
from calor.functions.ranges import arange, linspace
from calor.functions.reductions import max as largest
from calor.functions.reductions import min as smallest
from calor.functions.reductions import sum as total
from calor.functions.searching import searchsorted, where
from calor.functions.utility import diff
from calor.tensor.tensor import Operand, Tensor

Range = tuple[float, float]


class Histogram(NamedTuple):
    """How many elements each bin has, and the edges of the bins."""

    counts: Tensor
    edges: Tensor


class HistogramDD(NamedTuple):
    """How many points each bin has, and the edges of the bins along each axis."""

    counts: Tensor
    edges: tuple[Tensor, ...]


def histogram_bin_edges(
    x: Operand, bins: int | Operand = 10, /, *, range: Range | None = None
) -> Tensor:
    """Return the edges of the bins that `histogram` counts in.

    Parameters
    ----------
    x : Tensor, ndarray or number
        The elements, of any shape; a real dtype.
    bins : int or Tensor, optional
        The number of bins of equal width, or all edges, ascending. By default 10.
    range : tuple of two float, optional
        The first and the last edge. By default the smallest and the largest element.

    Returns
    -------
    Tensor
        Shape (bins + 1,); the dtype of ``x`` if it is floating, else float32.

    Raises
    ------
    ArgumentError
        If there are fewer than 1 bins, or the range is not ascending and finite.
    ShapeError
        If the edges are not one axis of at least two.
    DTypeError
        If an operand is no tensor, array or number.
    TypeError
        If a count or an index is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.histogram_bin_edges(calor.asarray([0.0, 4.0]), 2).tolist()
    [0.0, 2.0, 4.0]
    """
    return _edges(as_tensor(x, first_tensor(x, bins)), bins, range, "histogram_bin_edges")


def _edges(x: Tensor, bins: Any, range: Any, what: str) -> Tensor:
    kind = dtypes.float_of(x.dtype)
    if not isinstance(bins, int):
        several = isinstance(bins, list | tuple)
        edges = asarray(bins, device=x.device) if several else as_tensor(bins, x)
        if edges.ndim or not edges.dtype.is_integer:
            if edges.ndim != 1 or edges.size < 2:
                raise ShapeError(
                    f"{what}: edges of shape {edges.shape}; give one axis, two or more"
                )
            return edges
        bins = integer(edges.item(), f"{what}: bins")
    if bins < 1:
        raise ArgumentError(f"{what}: {bins} bins; give at least 1")
    if range is not None:
        if not isinstance(range, tuple | list) or len(range) != 2:
            raise ArgumentError(f"{what}: range is {range!r}; pass a pair of numbers")
        low, high = (float(v) for v in range)
        if not (low <= high and abs(low) < float("inf") and abs(high) < float("inf")):
            raise ArgumentError(f"{what}: range {range} is not ascending and finite")
        if low == high:
            low, high = low - 0.5, high + 0.5
        return linspace(low, high, bins + 1, dtype=kind, device=x.device)
    if not x.size:
        return linspace(0.0, 1.0, bins + 1, dtype=kind, device=x.device)
    work = dtypes.float64 if kind is dtypes.float64 else dtypes.float32
    first, last = (f(x).astype(work) for f in (smallest, largest))
    same = first == last
    first, last = where(same, first - 0.5, first), where(same, last + 0.5, last)
    share = arange(bins, dtype=work, device=x.device) * (1 / bins)
    inner = first + (last - first) * share
    return concat((inner, reshape(last, (1,)))).astype(kind)


def _bin_of(x: Tensor, edges: Tensor) -> Tensor:
    """Return the bin of each element; −1 outside of all."""
    count = edges.size - 1
    place = searchsorted(edges, x, side="right") - 1
    place = where(x == edges[count:], count - 1, place)
    return where(place >= count, -1, place)


def _counted(place: Tensor, size: int, weights: Tensor | None) -> Tensor:
    """Return the sums of weights at places; those at −1 are left out."""
    kind = dtypes.int64 if weights is None else weights.dtype
    given = full((place.size,), 1, dtype=kind, device=place.device)
    if weights is not None:
        given = reshape(weights, (place.size,))
    inside = where(place < 0, size, place)
    start = zeros((size + 1,), dtype=kind, device=place.device)
    return scatter_nd(start, reshape(inside, (place.size, 1)), given, update="add")[:size]


def _weights(weights: Any, x: Tensor, shape: tuple[int, ...], what: str) -> Tensor | None:
    if weights is None:
        return None
    made = as_tensor(weights, x)
    if made.shape != shape:
        raise ShapeError(f"{what}: weights have shape {made.shape}, the elements {shape}")
    return made.astype(dtypes.int64) if made.dtype is dtypes.bool_ else made


def histogram(
    x: Operand,
    bins: int | Operand = 10,
    /,
    *,
    range: Range | None = None,
    weights: Operand | None = None,
    density: bool = False,
) -> Histogram:  # numpydoc ignore=RS01
    """Count the elements in bins.

    Parameters
    ----------
    x : Tensor, ndarray or number
        The elements, of any shape; a real dtype. NaN and what is outside of the bins is left out.
    bins : int or Tensor, optional
        The number of bins of equal width, or all edges, ascending. By default 10.
    range : tuple of two float, optional
        The first and the last edge. By default the smallest and the largest element.
    weights : Tensor, ndarray or number, optional
        One number for each element. By default each counts 1.
    density : bool, optional
        Whether counts are divided by their sum and by the widths of the bins. By default False.

    Returns
    -------
    Histogram
        ``counts``, of shape (bins,): int64, the dtype of ``weights``, or floating with ``density``;
        ``edges``, of shape (bins + 1,). An element at an edge is in the bin after it, at the last
        edge in the last bin.

    Raises
    ------
    ArgumentError
        If there are fewer than 1 bins, or the range is not ascending and finite.
    ShapeError
        If the edges are not one axis of at least two, or the weights do not fit.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.histogram(calor.asarray([0.0, 1.0, 1.5, 4.0]), 2).counts.tolist()
    [3, 1]
    """
    x = as_tensor(x, first_tensor(x, bins, weights))
    edges = _edges(x, bins, range, "histogram")
    given = _weights(weights, x, x.shape, "histogram")
    counts = _counted(reshape(_bin_of(x, edges), (x.size,)), edges.size - 1, given)
    if density:
        kind = dtypes.float_of(edges.dtype)
        counts = counts.astype(kind)
        counts = counts / (total(counts) * diff(edges))
    return Histogram(counts, edges)


def histogramdd(
    x: Operand,
    bins: int | Sequence[int | Operand] = 10,
    /,
    *,
    range: Sequence[Range | None] | None = None,
    weights: Operand | None = None,
    density: bool = False,
) -> HistogramDD:  # numpydoc ignore=RS01
    """Count points in boxes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Points of shape (N, D), real. Points with NaN and those outside of the boxes are left out.
    bins : int or sequence, optional
        The number of bins, or for each axis a number or all edges. By default 10.
    range : sequence of tuple, optional
        The first and the last edge of each axis, None for the smallest and the largest coordinate.
    weights : Tensor, ndarray or number, optional
        Shape (N,). By default each point counts 1.
    density : bool, optional
        Whether counts are divided by their sum and by the volumes of the boxes. By default False.

    Returns
    -------
    HistogramDD
        ``counts``, with one axis for each coordinate: int64, the dtype of ``weights``, or floating
        with ``density``; ``edges``, a tuple of D tensors.

    Raises
    ------
    ArgumentError
        If there are fewer than 1 bins, or a range is not ascending and finite.
    ShapeError
        If ``x`` is no matrix, or another argument does not fit it.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> points = calor.asarray([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    >>> calor.histogramdd(points, 2).counts.tolist()
    [[1, 0], [1, 1]]
    """
    x = as_tensor(x)
    if x.ndim != 2:
        raise ShapeError(f"histogramdd: shape {x.shape} is no matrix of points")
    axes = x.shape[1]
    each = [bins] * axes if isinstance(bins, int) else list(bins)
    limits = [None] * axes if range is None else list(range)
    if len(each) != axes or len(limits) != axes:
        raise ShapeError(f"histogramdd: {len(each)} bins and {len(limits)} ranges for {axes} axes")
    edges = tuple(
        _edges(x[:, a], b, limit, "histogramdd")
        for a, (b, limit) in enumerate(zip(each, limits, strict=True))
    )
    sizes = tuple(t.size - 1 for t in edges)
    place = zeros((x.shape[0],), dtype="int64", device=x.device)
    inside = place == 0
    boxes = 1
    for a, line in enumerate(edges):
        one = _bin_of(x[:, a], line)
        inside = inside & (one >= 0)
        place = place * sizes[a] + one
        boxes *= sizes[a]
    given = _weights(weights, x, (x.shape[0],), "histogramdd")
    counts = reshape(_counted(where(inside, place, -1), boxes, given), sizes)
    if density:
        counts = counts.astype(dtypes.float_of(x.dtype))
        counts = counts / total(counts)
        for a, line in enumerate(edges):
            shape = tuple(n if i == a else 1 for i, n in enumerate(sizes))
            counts = counts / reshape(diff(line), shape)
    return HistogramDD(counts, edges)


def digitize(x: Operand, bins: Operand, /, *, right: bool = False) -> Tensor:
    """Return which bin each element is in.

    Parameters
    ----------
    x : Tensor, ndarray or number
        The elements, of any shape; a real dtype.
    bins : Tensor, ndarray or number
        The edges, of shape (n,), ascending.
    right : bool, optional
        Whether an element that equals an edge is in the bin before it. By default False.

    Returns
    -------
    Tensor
        Dtype int64, in the shape of ``x``: 0 before the first edge, n after the last.

    Raises
    ------
    ShapeError
        If ``bins`` has not exactly one axis.
    DTypeError
        If the common dtype is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.digitize(calor.asarray([0.5, 1.0, 7.0]), calor.asarray([1.0, 2.0])).tolist()
    [0, 1, 2]
    """
    side: Literal["left", "right"] = "left" if right else "right"
    return searchsorted(*as_tensors(bins, x), side=side)
