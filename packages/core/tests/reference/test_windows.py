"""Window reductions and their gradients against loops."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from calor.reference.windows import window_pick, window_reduce, window_reduce_gradient

Array = np.ndarray[Any, Any]
E4M3 = ml_dtypes.float8_e4m3fn

# name: shape, window, stride, padding, dilation
CASES: dict[str, tuple[Any, ...]] = {
    "halving": ((2, 3, 4, 6), (2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)),
    "overlapping": ((2, 5, 6), (3, 2), (1, 1), ((1, 1), (0, 1)), (1, 1)),
    "dilated": ((3, 9), (3,), (2,), ((2, 1),), (2,)),
    "cropped": ((2, 7, 7), (2, 3), (2, 1), ((-1, 0), (1, -2)), (1, 1)),
    "volume": ((1, 3, 4, 3), (2, 2, 2), (1, 2, 1), ((0, 0), (1, 0), (0, 0)), (1, 1, 1)),
    "wide padding": ((1, 3), (2,), (1,), ((3, 3),), (1,)),
    "none fits": ((2, 2), (3,), (1,), ((0, 0),), (1,)),
    "empty lead": ((0, 4), (2,), (1,), ((0, 0),), (1,)),
    "every axis": ((3, 3), (2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1)),
}
REALS = [np.int8, np.uint8, np.int64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64, E4M3]


def lowest(dtype: Any, kind: str) -> Any:
    """Return what an empty reduction gives."""
    if kind == "sum":
        return 0
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min if kind == "max" else limits.max
    limit = 448.0 if dtype == E4M3 else np.inf
    return -limit if kind == "max" else limit


def loops(x: Array, g: Array | None, kind: str, case: tuple[Any, ...]) -> tuple[Array, Array, Any]:
    """Return the reduction, the gradient for x and, per window, the chosen places."""
    _, window, stride, padding, dilation = case
    rank = len(window)
    lead, sizes = x.shape[: x.ndim - rank], x.shape[x.ndim - rank :]
    output = [
        max(n + lo + hi - ((k - 1) * d + 1) + s, 0) // s
        for n, k, s, (lo, hi), d in zip(sizes, window, stride, padding, dilation, strict=True)
    ]
    y = np.empty((*lead, *output), x.dtype)
    gx = np.zeros(x.shape, np.float64)
    chosen = {}
    for at in product(*map(range, (*lead, *output))):
        head, place = at[: len(lead)], at[len(lead) :]
        seen = []
        for tap in product(*map(range, window)):
            source = tuple(
                p * s + t * d - lo
                for p, t, s, (lo, _), d in zip(place, tap, stride, padding, dilation, strict=True)
            )
            if all(0 <= i < n for i, n in zip(source, sizes, strict=True)):
                seen.append((*head, *source))
        numbers = [x[s].astype(np.float64) if x.dtype.kind not in "iu" else int(x[s]) for s in seen]
        picked = seen
        if not seen:
            y[at] = lowest(x.dtype, kind)
        elif kind == "sum":
            y[at] = np.array(sum(numbers)).astype(x.dtype)
        else:
            nans = [i for i, v in enumerate(numbers) if v != v]
            best = max(numbers) if kind == "max" else min(numbers)
            first = nans[0] if nans else numbers.index(best)
            y[at], picked = x[seen[first]], [seen[first]]
        chosen[at] = picked
        if g is not None:
            for source in picked:
                gx[source] += float(g[at])
    return y, gx, chosen


def options(kind: str, case: tuple[Any, ...]) -> dict[str, Any]:
    """Return the attributes of a case."""
    names = ("window", "stride", "padding", "dilation")
    return {"kind": kind, **dict(zip(names, case[1:], strict=True))}


def check(x: Array, kind: str, case: tuple[Any, ...]) -> None:
    """Compare the three functions with the loops."""
    y = window_reduce(x, **options(kind, case))
    assert y.dtype == x.dtype
    g: Any = np.random.default_rng(1).integers(-3, 4, y.shape).astype(np.float32)
    u: Any = np.random.default_rng(2).integers(-3, 4, x.shape).astype(np.float32)
    slow, gx, chosen = loops(x, g, kind, case)
    np.testing.assert_array_equal(y.astype(np.float64), slow.astype(np.float64))
    np.testing.assert_array_equal(window_reduce_gradient(g, x, **options(kind, case)), gx)
    picked = window_pick(u, x, **options(kind, case))
    for at, places in chosen.items():
        assert picked[at] == sum(u[p] for p in places)


@pytest.mark.parametrize("kind", ["max", "min", "sum"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_loops(case: tuple[Any, ...], kind: str) -> None:
    check(np.random.default_rng(0).integers(-3, 4, case[0]).astype(np.float32), kind, case)


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("kind", ["max", "min", "sum"])
def test_dtypes(dtype: Any, kind: str) -> None:
    for name in ("halving", "wide padding"):
        x = np.random.default_rng(0).integers(0, 5, CASES[name][0]).astype(dtype)
        check(x, kind, CASES[name])


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("name", ["overlapping", "wide padding", "dilated"])
def test_nan_and_padding_are_never_confused(kind: str, name: str) -> None:
    x = np.random.default_rng(0).choice([np.nan, -np.inf, np.inf, 1.0], CASES[name][0])
    check(x, kind, CASES[name])
    check(np.full(CASES[name][0], -np.inf if kind == "max" else np.inf), kind, CASES[name])
    check(np.full(CASES[name][0], -128 if kind == "max" else 127, np.int8), kind, CASES[name])


def test_sums_of_half_types_round_once() -> None:
    x = np.full(257, 2.0**-9, ml_dtypes.bfloat16)
    x[0] = 1
    case = ((257,), (257,), (1,), ((0, 0),), (1,))
    assert float(window_reduce(x, **options("sum", case))[0]) == 1.5


def test_gradients_of_half_types_add_up_in_float32() -> None:
    g = np.array([1, 2.0**-9, 2.0**-9, 2.0**-9, 2.0**-9], ml_dtypes.bfloat16)
    case = ((9,), (5,), (1,), ((0, 0),), (1,))
    got = window_reduce_gradient(g, np.zeros(9, g.dtype), **options("sum", case))
    assert got.dtype == g.dtype
    assert float(got[4]) == 1.0078125
