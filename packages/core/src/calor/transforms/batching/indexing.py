"""Batching rules of reads and writes at computed places.

Indices that differ name the element of the mapped axis too, so that one out of range is an error
as it is for one element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import int64
from calor.ops import elementwise as e
from calor.ops.indexing import gather, gather_nd, scatter_nd
from calor.ops.movement import concat, permute, reshape
from calor.ops.sources import iota
from calor.transforms.batching.movement import Mapped, leading, moved, over


def gather_rule(size: int, mapped: Mapped, x: Any, indices: Any, *, axis: int) -> Any:
    """Read along the axis; both operands mapped make pairs of indices."""
    if not mapped[1]:
        return gather(x, indices, axis=axis + 1)
    if not mapped[0]:
        return moved(gather(x, indices, axis=axis), axis, 0)
    pairs = _numbered(reshape(indices, shape=(*indices.shape, 1)))
    # (size, *indices, axes before the one that is read, axes after it)
    read = gather_nd(moved(x, axis + 1, 1), pairs)
    before = range(indices.ndim, indices.ndim + axis)
    after = range(indices.ndim + axis, read.ndim)
    return permute(read, axes=(0, *before, *range(1, indices.ndim), *after))


def gather_nd_rule(size: int, mapped: Mapped, x: Any, indices: Any) -> Any:
    """Read with the mapped axis behind those that are indexed, or index it as well."""
    if not mapped[1]:
        depth = indices.shape[-1]
        return moved(gather_nd(moved(x, 0, depth), indices), indices.ndim - 1, 0)
    if not mapped[0]:
        return gather_nd(x, indices)
    return gather_nd(x, _numbered(indices))


def scatter_nd_rule(
    size: int, mapped: Mapped, x: Any, indices: Any, updates: Any, *, update: str
) -> Any:
    """Write with the mapped axis behind those that are indexed, or index it as well."""
    x, updates = leading(size, mapped[0], x), leading(size, mapped[2], updates)
    if mapped[1]:
        return scatter_nd(x, _numbered(indices), updates, update=update)
    depth = indices.shape[-1]
    behind = moved(updates, 0, indices.ndim - 1)
    return moved(scatter_nd(moved(x, 0, depth), indices, behind, update=update), depth, 0)


def _numbered(indices: Any) -> Any:
    """Return indices (size, *, k) with their number along the first axis in front: (*, k + 1)."""
    shape = (*indices.shape[:-1], 1)
    if shape[0] > np.iinfo(indices.dtype.numpy).max:
        indices = e.cast(indices, dtype=int64)
    with indices.device:
        numbers = iota(length=shape[0], dtype=indices.dtype)
    return concat(over(numbers, shape), indices, axis=indices.ndim - 1)
