"""Rows of the matrix product in its general form."""

from __future__ import annotations

from string import ascii_letters
from typing import Any

import numpy as np

from calor import dtypes as t

from ..domains import any_bits, chosen, ends, normal, positive, whole
from ..language import (
    ARITHMETIC,
    BOOL,
    FLOATS,
    INTEGERS,
    NUMBERS,
    REAL_FLOATS,
    SAME,
    STORAGE,
    Array,
    Case,
    case,
    ulp,
)

TERMS = ulp(4, scale="terms")


def dot(a: Array, b: Array, *, contract: Any, batch: Any, dtype: Any) -> Array:
    """The sum of products, spelt as an einsum."""
    if a.dtype.kind == "b":
        a, b = a.astype(object), b.astype(object)
    letters = iter(ascii_letters)
    left, right = [next(letters) for _ in a.shape], [next(letters) for _ in b.shape]
    for i, j in zip((*contract[0], *batch[0]), (*contract[1], *batch[1]), strict=True):
        right[j] = left[i]
    shared = [left[i] for i in batch[0]]
    free = [s for i, s in enumerate(left) if i not in contract[0] and i not in batch[0]]
    free += [s for i, s in enumerate(right) if i not in contract[1] and i not in batch[1]]
    spelt = f"{''.join(left)},{''.join(right)}->{''.join(shared + free)}"
    made = np.asarray(np.einsum(spelt, a, b))
    return np.asarray(made != 0) if dtype.kind == "bool" else made


def _dot(
    name: str, left: Any, right: Any, contract: Any, batch: Any = ((), ()), domain: Any = normal
) -> Case:
    return case("dot_general", domain(*left), domain(*right), contract=contract, batch=batch,
                dtype=SAME, oracle=dot, dtypes=ARITHMETIC, tol=TERMS, name=name)  # fmt: skip


_SPECIAL = [[0.0, 1.0, 2.0], [np.inf, 0.0, 1.0], [np.nan, 0.0, 0.0], [0.0, 0.0, -np.inf],
            [1.0, 0.0, 3.0]]  # fmt: skip

CASES: list[Case] = [
    _dot("matrix", (3, 4), (4, 2), ((1,), (0,))),
    _dot("transposed", (4, 3), (2, 4), ((0,), (1,))),
    _dot("vectors", (5,), (5,), ((0,), (0,))),
    _dot("outer", (3,), (2,), ((), ())),
    _dot("scalars", (), (), ((), ())),
    _dot("batched", (2, 3, 4), (2, 4, 5), ((2,), (1,)), ((0,), (0,))),
    _dot("batch-inside", (3, 2, 4), (4, 5, 2), ((2,), (0,)), ((1,), (2,))),
    _dot("two-batches", (2, 3, 4, 2), (3, 2, 2, 4), ((2,), (3,)), ((0, 1), (2, 0))),
    _dot("two-contracted", (2, 3, 4), (3, 2, 5), ((0, 1), (1, 0))),
    _dot("three-contracted", (2, 3, 4, 2), (4, 2, 5, 3), ((2, 0, 1), (0, 1, 3))),
    _dot("contracted-crossed", (2, 3, 4), (4, 3, 2, 2), ((0, 2, 1), (3, 0, 1))),
    _dot("everything", (2, 3), (3, 2), ((0, 1), (1, 0))),
    _dot("empty-free", (0, 3), (3, 2), ((1,), (0,))),
    _dot("empty-contracted", (2, 0), (0, 3), ((1,), (0,))),
    _dot("empty-batch", (0, 2, 3), (0, 3, 2), ((2,), (1,)), ((0,), (0,))),
    _dot("one", (1, 1), (1, 1), ((1,), (0,))),
    _dot("rank-5", (2, 1, 2, 3, 2), (2, 2, 3, 2, 1), ((4, 3), (1, 2)), ((0, 2), (0, 3))),
    case("dot_general", any_bits(3, 4), any_bits(4, 2), contract=((1,), (0,)), batch=((), ()),
         dtype=SAME, oracle=dot, dtypes=INTEGERS, name="wraps"),
    case("dot_general", whole(0, 2, 3, 4), whole(0, 2, 4, 2), contract=((1,), (0,)),
         batch=((), ()), dtype=SAME, oracle=dot, dtypes=BOOL, name="truth"),
    case("dot_general", normal(3, 4), normal(4, 2), contract=((1,), (0,)), batch=((), ()),
         dtype=t.float32, oracle=dot, dtypes=(t.float16, t.bfloat16), tol=TERMS,
         name="to-float32"),
    case("dot_general", normal(16, 32), normal(32, 16), contract=((1,), (0,)), batch=((), ()),
         dtype=t.float32, oracle=dot, dtypes=STORAGE, tol=TERMS, name="factors-to-float32",
         no_gradient="gradients do not flow through storage types"),
    case("dot_general", normal(3, 4), normal(4, 2), contract=((1,), (0,)), batch=((), ()),
         dtype=t.float64, oracle=dot, dtypes=(t.float32,), tol=TERMS, name="to-float64"),
    case("dot_general", any_bits(3, 4), any_bits(4, 2), contract=((1,), (0,)), batch=((), ()),
         dtype=t.int32, oracle=dot, dtypes=(t.int8, t.uint8), name="to-int32"),
    # What is multiplied by 0 is there all the same: NaN and infinities.
    case("dot_general", chosen(_SPECIAL), chosen(np.transpose(_SPECIAL)), contract=((1,), (0,)),
         batch=((), ()), dtype=SAME, oracle=dot, dtypes=REAL_FLOATS, name="special",
         no_gradient="the numbers are not finite"),
    # Sums that a narrow accumulator does not hold, and where it stands still.
    case("dot_general", ends(4, 200), ends(200, 3), contract=((1,), (0,)),
         batch=((), ()), dtype=t.int32, oracle=dot, dtypes=(t.int8, t.uint8),
         name="to-int32-deep"),
    case("dot_general", positive(2, 3000), positive(3000, 2), contract=((1,), (0,)),
         batch=((), ()), dtype=SAME, oracle=dot, dtypes=(t.float16, t.bfloat16), tol=ulp(1),
         name="positive-deep", no_gradient="too large for differences"),
    # Sides for which matrix units are used, which have formats of their own.
    case("dot_general", normal(16, 32), normal(32, 16), contract=((1,), (0,)), batch=((), ()),
         dtype=SAME, oracle=dot, dtypes=FLOATS, tol=TERMS, name="aligned",
         no_gradient="too large for differences"),
    case("dot_general", any_bits(16, 32), any_bits(32, 16), contract=((1,), (0,)),
         batch=((), ()), dtype=SAME, oracle=dot, dtypes=INTEGERS, name="aligned-wraps"),
    case("dot_general", normal(20, 300), normal(300, 3), contract=((1,), (0,)), batch=((), ()),
         dtype=SAME, oracle=dot, dtypes=NUMBERS, tol=ulp(16, scale="terms"), name="deep",
         no_gradient="too large for differences"),
]  # fmt: skip
