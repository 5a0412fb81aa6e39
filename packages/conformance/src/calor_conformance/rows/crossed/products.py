"""Products: batch and contracted axes anywhere, in any order, at sides around tiles."""

from __future__ import annotations

from string import ascii_letters

import numpy as np

from calor.dtypes import DType, float32, int8, int16, int32, uint8
from calor.ops.base import find

from ..language import NUMBERS, WIDE_FLOATS, Array, Tolerance, ulp
from .drawing import places, special_values, whole, with_specials
from .language import Problem, Subject, one, wide
from .orders import ORDERS
from .pairwise import Scenario

_SIDES = (7, 1, 4, 33, 65, 257)


def _spelled(left: list[str], right: list[str], result: list[str], a: Array, b: Array) -> Array:
    letters = dict(zip(dict.fromkeys([*left, *right]), ascii_letters, strict=False))
    spelt = ["".join(letters[s] for s in part) for part in (left, right, result)]
    return np.asarray(np.einsum(f"{spelt[0]},{spelt[1]}->{spelt[2]}", a, b, optimize=True))


def _dot(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem | None:
    """Axes of both operands in random orders; equal sides, so that a wrong order fits too."""
    sizes: dict[str, int] = {}
    for k in range(scenario["batches"]):
        sizes[f"b{k}"] = int(rng.integers(1, 4))
    for k in range(scenario["contracted"]):
        sizes[f"c{k}"] = scenario["depth"] if not k else 3
    if scenario["contracted"] > 1 and scenario["depth"] < 20:
        sizes = {n: scenario["depth"] if n[0] == "c" else s for n, s in sizes.items()}
    sizes["m0"], sizes["n0"] = scenario["rows"], scenario["columns"]
    if scenario["free"] > 1:
        sizes["m1"] = 2
    if scenario.get("cube"):
        for name in sizes:
            sizes[name] = scenario["depth"]
    if np.prod([float(s) for s in sizes.values()]) > (1e7 if dtype.is_inexact else 1e6):
        return None
    shared = [n for n in sizes if n[0] in "bc"]
    left = [*shared, *(n for n in sizes if n[0] == "m")]
    right = [*shared, *(n for n in sizes if n[0] == "n")]
    if scenario["axes"] == "shuffled":
        left = [left[i] for i in rng.permutation(len(left))]
        right = [right[i] for i in rng.permutation(len(right))]
    else:
        left = [n for n in left if n[0] == "b"] + [n for n in left if n[0] == "m"] + [
            n for n in left if n[0] == "c"]  # fmt: skip
    inner = [n for n in shared if n[0] == "c"]
    outer = [n for n in shared if n[0] == "b"]
    if scenario["axes"] == "shuffled":
        inner = [inner[i] for i in rng.permutation(len(inner))]
        outer = [outer[i] for i in rng.permutation(len(outer))]
    contract = (tuple(map(left.index, inner)), tuple(map(right.index, inner)))
    batch = (tuple(map(left.index, outer)), tuple(map(right.index, outer)))
    result = [*outer, *(n for n in left if n[0] == "m"), *(n for n in right if n[0] == "n")]
    a, b = (whole(rng, dtype, tuple(sizes[n] for n in side), 3) for side in (left, right))
    if scenario["special"] != "none" and dtype.is_inexact and not dtype.is_complex and inner:
        axis = left.index(inner[0])
        at = places(scenario["position"], a.shape[axis], rng)
        a = with_specials(a, axis, at, special_values(scenario["special"], dtype), rng)

    def meaning(x: Array, y: Array) -> Array:
        if x.dtype.kind in "iu":
            return _spelled(left, right, result, x.astype(np.int64), y.astype(np.int64))
        # Sums of products with NaN or infinity have no order that matters.
        return _spelled(left, right, result, wide(x), wide(y))

    return one(
        [a, b],
        lambda s, t: find("dot_general")(s, t, contract=contract, batch=batch, dtype=dtype),
        meaning,
        tol=Tolerance(0.5, 1),
        zeros=False,
    )


def _deep(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    """Long sums of positive products, whose rounding errors do not cancel."""
    k, m, n = scenario["depth"], scenario["rows"], scenario["columns"]
    a = rng.random((m, k)).astype(dtype.numpy)
    b = rng.random((k, n)).astype(dtype.numpy)
    contract = ((1,), (0,))
    return one(
        [a, b],
        lambda s, t: find("dot_general")(s, t, contract=contract, batch=((), ()), dtype=dtype),
        lambda x, y: wide(x) @ wide(y),
        # Each accumulator of a kernel takes a part of the terms.
        tol=ulp(max(64.0, k**0.5)),
    )


def _wide_sums(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    """Products of integers of the whole range, in sums of 32 bits."""
    k, m, n = scenario["depth"], scenario["rows"], scenario["columns"]
    ends = np.iinfo(dtype.numpy)
    a, b = (
        rng.integers(ends.min, ends.max, shape, dtype=dtype.numpy, endpoint=True)
        for shape in ((m, k), (n, k) if scenario["turned"] else (k, n))
    )
    contract = ((1,), (1 if scenario["turned"] else 0,))

    def meaning(x: Array, y: Array) -> Array:
        made = x.astype(np.int64) @ (y.T if scenario["turned"] else y).astype(np.int64)
        return made.astype(np.int32)

    return one(
        [a, b],
        lambda s, t: find("dot_general")(s, t, contract=contract, batch=((), ()), dtype=int32),
        meaning,
        dtype=int32,
    )


SUBJECTS: list[Subject] = [
    Subject("dot_general", _wide_sums, (int8, uint8, int16),
            {"depth": (64, 1, 3, 37, 256), "rows": (33, 1, 5, 130), "columns": (33, 1, 7, 64),
             "turned": (False, True), "order": ("plain", "permuted"), "mode": ("jit",)},
            {"depth": (1500,)}, name="wide-sums"),
    Subject("dot_general", _dot, (float32, *(d for d in NUMBERS if d is not float32)),
            {"depth": _SIDES, "rows": _SIDES, "columns": _SIDES, "batches": (0, 1, 2),
             "contracted": (1, 2, 3, 0), "free": (1, 2), "axes": ("usual", "shuffled"),
             "order": ORDERS, "special": ("none", "nan", "infinite"),
             "position": ("last", "tail", "middle")},
            {"depth": (1500, 65_537), "rows": (1025, 257)}, differentiable=True),
    Subject("dot_general", _dot, (float32,),
            {"depth": (3, 4), "rows": (1,), "columns": (1,), "batches": (1, 0, 2),
             "contracted": (2, 3, 1), "free": (2, 1), "axes": ("shuffled", "usual"),
             "order": ORDERS, "special": ("none",), "position": ("last",), "cube": (True,)},
            name="cube"),
    Subject("dot_general", _deep, WIDE_FLOATS,
            {"depth": (1500, 20_000), "rows": (1, 5, 33), "columns": (1, 3, 17),
             "order": ("plain", "permuted")},
            {"depth": ((1 << 18) + 3,)}, name="long"),
]  # fmt: skip
