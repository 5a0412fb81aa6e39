"""The transforms of Winograd's algorithm (minimal filtering), derived exactly from points.

Requirements: ``outputs`` sums of ``taps`` products each take ``outputs + taps - 1`` multiplications
of transformed operands. The matrices are computed in fractions, for any numbers of both. The points
of each size were chosen for the least error of float32 sums in two dimensions; it grows quickly
with their number, so there are at most eight with infinity. (Winograd, "Arithmetic Complexity of
Computations", 1980; Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015;
Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural
Networks", 2018.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

from calor_kernel import language as kl

Matrix = tuple[tuple[float, ...], ...]
_HALF: Final = Fraction(1, 2)
# The finite points by their number; with infinity there is one more.
_POINTS: Final[dict[int, tuple[int | Fraction, ...]]] = {
    1: (0,),
    2: (0, 1),
    3: (0, 1, -1),
    4: (0, 1, -1, -2),
    5: (0, 1, -1, _HALF, -2),
    6: (0, 1, -1, _HALF, -_HALF, -3),
    7: (0, 1, -1, 2, -2, _HALF, -_HALF),
}
MOST_POINTS: Final = 8
"""The maximum of points: the most that a transformed line may have."""


@dataclass(frozen=True, slots=True)
class Transforms:
    """The matrices of sums ``y = sums @ ((taps @ w) * (line @ x))``.

    ``line``: of a line of inputs, with a row for each point. ``taps``: of the taps. ``sums``: of
    the products, with a row for each output.
    """

    line: Matrix
    taps: Matrix
    sums: Matrix

    @property
    def points(self) -> int:
        """The multiplications of a line."""
        return len(self.line)


@cache
def transforms(outputs: int, taps: int) -> Transforms:
    """Return the transforms of ``outputs`` neighbouring sums of ``taps`` products each.

    >>> transforms(2, 3).sums
    ((1.0, 1.0, 1.0, 0.0), (0.0, 1.0, -1.0, 1.0))
    >>> transforms(1, 1)
    Transforms(line=((1.0,),), taps=((1.0,),), sums=((1.0,),))
    """
    if outputs + taps == 2:
        one: Matrix = ((1.0,),)
        return Transforms(one, one, one)
    points = [Fraction(p) for p in _POINTS[outputs + taps - 2]]
    size = len(points) + 1
    line, weights, sums = [], [], []
    for number, point in enumerate(points):
        others = points[:number] + points[number + 1 :]
        # Lagrange's interpolation: the product of the others is one at the point.
        scale = Fraction(1)
        for other in others:
            scale *= point - other
        line.append(_polynomial(others, size))
        weights.append([point**j / scale for j in range(taps)])
        sums.append([point**j for j in range(outputs)])
    line.append(_polynomial(points, size))
    weights.append([Fraction(int(j == taps - 1)) for j in range(taps)])
    sums.append([Fraction(int(j == outputs - 1)) for j in range(outputs)])
    return Transforms(_floats(line), _floats(weights), _floats(list(zip(*sums, strict=True))))


def _polynomial(roots: Sequence[Fraction], size: int) -> list[Fraction]:
    """Return the coefficients of a monic polynomial, the lowest first, filled up with zeros."""
    found = [Fraction(1)]
    for root in roots:
        higher, lower = [Fraction(0), *found], [*found, Fraction(0)]
        found = [a - root * b for a, b in zip(higher, lower, strict=True)]
    return found + [Fraction(0)] * (size - len(found))


def _floats(rows: Sequence[Sequence[Fraction]]) -> Matrix:
    return tuple(tuple(map(float, row)) for row in rows)


def transformed(matrix: Matrix, values: Sequence[kl.Number]) -> list[kl.Number]:
    """Return the products of a matrix with a column of device values.

    Zeros take no operation, and rows of points that differ in sign alone share theirs.
    """
    made: dict[int, kl.Number] = {}
    for number, row in enumerate(matrix):
        if number in made:
            continue
        twin = _twin(matrix, number)
        if twin is None:
            made[number] = _sum(row, values)
            continue
        other = matrix[twin]
        pairs = list(zip(row, other, strict=True))
        even = _sum([a if a == b else 0.0 for a, b in pairs], values)
        odd = _sum([a if a != b else 0.0 for a, b in pairs], values)
        made[number], made[twin] = even + odd, even - odd
    return [made[number] for number in range(len(matrix))]


def _twin(matrix: Matrix, number: int) -> int | None:
    """Return a later row whose coefficients have other signs, some but not all."""
    row = matrix[number]
    for later in range(number + 1, len(matrix)):
        signs = {a == b for a, b in zip(row, matrix[later], strict=True) if a or b}
        alike = all(abs(a) == abs(b) for a, b in zip(row, matrix[later], strict=True))
        if alike and len(signs) == 2:
            return later
    return None


def _sum(row: Sequence[float], values: Sequence[kl.Number]) -> kl.Number:
    """Return the sum of values times coefficients, some of which are not zero."""
    total: kl.Number | None = None
    for coefficient, value in _terms(row, values):
        if total is None:
            total = value if coefficient == 1.0 else value * coefficient
        elif abs(coefficient) == 1.0:
            total = total + value if coefficient > 0 else total - value
        else:
            total = kl.fma(value, kl.constant(coefficient, value.dtype), total)
    assert total is not None
    return total


def _terms(row: Sequence[float], values: Sequence[kl.Number]) -> Iterator[tuple[float, kl.Number]]:
    """Yield coefficients and values, those first whose products take no operation."""
    terms = [(a, value) for a, value in zip(row, values, strict=True) if a]
    yield from sorted(terms, key=lambda term: term[0] != 1.0)
