"""Rows of sorting."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import numpy as np

from ..domains import any_bits, chosen, neighbours, repeated, well_separated
from ..language import ARITHMETIC, COMPLEX, INTEGERS, REAL_FLOATS, Array, Case, case


def _sort(x: Array, *, axis: int, descending: bool) -> tuple[Array, Array]:
    """Sort each row by Python's stable sort; NaN comes last in both directions.

    Complex numbers with a NaN are apart by which part it is, the real one last, and then by what
    the other part is.
    """

    def key(v: Any) -> tuple[int, Any]:
        if not isinstance(v, complex):
            return int(v != v), 0 if v != v else v
        parts = [0.0 if p != p else p for p in (v.real, v.imag)]
        return 2 * (v.real != v.real) + (v.imag != v.imag), tuple(parts)

    def order(a: int, b: int, row: list[Any]) -> int:
        (nan_a, p), (nan_b, q) = key(row[a]), key(row[b])
        if nan_a != nan_b:
            return nan_a - nan_b
        sign = (p > q) - (p < q)
        return int(-sign if descending else sign)

    moved = np.moveaxis(x, axis, -1)
    values, places = np.empty_like(moved), np.empty(moved.shape, np.int64)
    for at in np.ndindex(*moved.shape[:-1]):
        row = [v if x.dtype.kind in "biuc" else float(v) for v in moved[at].tolist()]
        found = sorted(range(len(row)), key=cmp_to_key(lambda a, b, row=row: order(a, b, row)))  # type: ignore[misc]
        places[at] = found
        values[at] = moved[at][found]
    return np.moveaxis(values, -1, axis), np.moveaxis(places, -1, axis)


_SPECIAL = chosen(
    [[np.nan, 1, -np.inf, 0.0, np.inf, -0.0], [2, np.nan, np.nan, -np.inf, 3, np.inf]]
)
# Every pair of parts, in an order of no rule.
_PARTS = [np.nan, 1.0, -0.0, np.inf, 0.0, -np.inf, 2.0]
_PAIRS = [complex(_PARTS[i * 3 % 7], _PARTS[(i * 5 + i // 7) % 7]) for i in range(49)]
_COMPLEX = chosen([[*_PAIRS, *_PAIRS[:7]]])

CASES: list[Case] = [
    case("sort", domain, axis=axis, descending=descending, oracle=_sort, dtypes=dtypes, raw=True,
         name=f"{name}{'-descending' * descending}", no_gradient=reason)
    for descending in (False, True)
    for name, domain, axis, dtypes, reason in [
        ("last", well_separated(3, 5), 1, ARITHMETIC, None),
        ("first", well_separated(4, 3), 0, ARITHMETIC, None),
        ("middle", well_separated(2, 3, 2), 1, ARITHMETIC, None),
        ("one", well_separated(1), 0, ARITHMETIC, None),
        ("empty", well_separated(2, 0), 1, ARITHMETIC, None),
        ("none", well_separated(0, 2), 1, ARITHMETIC, None),
        ("ties", repeated(2, 12), 1, ARITHMETIC, "at ties there is no derivative"),
        ("special", _SPECIAL, 1, REAL_FLOATS, "the numbers are not finite"),
        ("complex", repeated(2, 12), 1, COMPLEX, "at ties there is no derivative"),
        ("complex-special", _COMPLEX, 1, COMPLEX, "the numbers are not finite"),
        ("bits", any_bits(2, 12), 1, INTEGERS, None),
        ("neighbours", neighbours(2, 12), 1, (*INTEGERS, *REAL_FLOATS), "they are too close"),
    ]
]  # fmt: skip
