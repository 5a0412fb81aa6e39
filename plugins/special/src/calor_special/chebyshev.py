"""Chebyshev polynomials of large degrees, by angles.

Requirements: a value takes as long for any degree, and its error grows with the degree as that of
the angle does. Beyond [−1, 1] the angle is imaginary; a value that no number of the dtype reaches
is infinite. The derivatives are polynomials again, and exact at both ends.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import math
from typing import Any, Final

from calor.functions.data_types import finfo
from calor.functions.rows import elementwise
from calor.ops import elementwise as e
from calor.ops import rules
from calor.ops.movement import fill
from calor.tensor.tensor import Operand, Tensor

__all__ = ["FAR", "first_kind", "second_kind"]

# The largest degree of the recurrence, which is exact for whole numbers.
FAR: Final = 64


def _sign(x: Any, n: Any) -> Any:
    """Return (−1)ⁿ for negative x, 1 else."""
    odd = n - e.floor(n * 0.5) * 2
    return e.where(x < 0, 1 - odd * 2, fill(x, 1))


def _angles(x: Any) -> tuple[Any, Any, Any]:
    """Return whether |x| ≤ 1, and the angle whose cosine or hyperbolic cosine |x| is."""
    size = e.abs(x)
    inside = size <= 1
    one = fill(x, 1)
    return inside, e.acos(e.where(inside, size, one)), e.acosh(e.where(inside, one, size))


def _first(x: Any, n: Any) -> Any:
    inside, angle, imaginary = _angles(x)
    return e.where(inside, e.cos(n * angle), e.cosh(n * imaginary)) * _sign(x, n)


def _second(x: Any, n: Any) -> Any:
    inside, angle, imaginary = _angles(x)
    more = n + 1
    upper = e.where(inside, e.sin(more * angle), e.sinh(more * imaginary))
    lower = e.where(inside, e.sin(angle), e.sinh(imaginary))
    end = e.equal(lower, fill(x, 0))
    made = e.where(end, more, upper / e.where(end, fill(x, 1), lower))
    return e.where(e.isinf(x), fill(x, math.inf), made) * _sign(x, n)


def _first_slope(y: Any, x: Any, n: Any) -> Any:
    return n * second_kind(x, n - 1)


def _second_slope(y: Any, x: Any, n: Any) -> Any:
    size = e.abs(x)
    # Half of the digits go where the quotient's operands are small, and as many at the end's value.
    near = (n + 1) * (n + 1) * e.abs(1 - size) < math.sqrt(finfo(x.dtype).eps)
    square = (size - 1) * (size + 1)
    made = ((n + 1) * first_kind(x, n + 1) - x * y) / e.where(near, fill(x, 1), square)
    return e.where(near, n * (n + 1) * (n + 2) * (1 / 3) * _sign(x, n + 1), made)


@elementwise(
    rules.real_floats,
    _first,
    derivatives=(_first_slope, None),
    saves=("01", ""),
    package="special",
)
def first_kind(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the first kind of a whole degree n ≥ 0."""


@elementwise(
    rules.real_floats,
    _second,
    derivatives=(_second_slope, None),
    saves=("01y", ""),
    package="special",
)
def second_kind(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the second kind of a whole degree n ≥ 0."""
