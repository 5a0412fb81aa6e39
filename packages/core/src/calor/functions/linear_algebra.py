"""Products of matrices and vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """Return the matrix product."""
    from calor.ops.contraction import dot_general

    made: Tensor = dot_general(x1, x2, contract=((1,), (0,)), batch=((), ()), dtype=x1.dtype)
    return made
