"""Sums, extremes and truth over axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calor.ops import reductions as r

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor


def sum(x: Tensor, /) -> Tensor:
    """Return the sum."""
    made: Tensor = r.sum(x, axes=tuple(range(x.ndim)), dtype=x.dtype)
    return made
