"""The special functions at numbers from mpmath, at their ends, and in every floating dtype."""

from __future__ import annotations

import decimal
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calor
from calor import special

POINTS = json.loads(Path(__file__).with_name("points.json").read_text("utf-8"))
# Largest errors in units of epsilon where they are not below 8: exp(−x) of a rounded power for
# Airy's function and tails of gamma, differences of larger terms for betaln.
BOUNDS = {"airy_ai": 60, "betaln": 120, "gammainc": 80, "gammaincc": 80, "gammainc_slope": 1000}
# Errors count relative to these where that is more: the size of a wave, of terms by reflection.
SIZES: dict[str, Callable[[Any], Any]] = {
    "airy_ai": lambda x: np.where(x < 0, 0.5, 0.0),
    "spherical_j0": lambda x: 1 / np.maximum(1, np.abs(x)),
    "polygamma1": lambda x: np.where(x < 0, 10.0 / (x - np.round(x)) ** 2, 0.0),
    "polygamma4": lambda x: np.where(x < 0, 300.0 / np.abs(x - np.round(x)) ** 5, 0.0),
    **{name: lambda x: 1 / np.sqrt(np.maximum(1, np.abs(x))) for name in ("j0", "j1", "y0", "y1")},
}


def function(name: str) -> Callable[..., Any]:
    if name.startswith("polygamma"):
        return lambda x: special.polygamma(int(name[9:]), x)
    return getattr(special, name)  # type: ignore[no-any-return]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", POINTS)
def test_values_are_those_of_mpmath(name: str, dtype: str) -> None:
    rows = np.asarray(POINTS[name])
    operands, wanted = rows[:, :-1].T, rows[:, -1]
    found = function(name)(*(calor.asarray(x, dtype=dtype) for x in operands)).numpy()
    assert found.dtype == dtype
    kind = np.finfo(dtype)
    size = np.abs(wanted)
    if name in SIZES:
        size = np.maximum(size, SIZES[name](operands[0]))
    # Below this, results of float32 have no full precision.
    told = np.abs(wanted) > 1e4 * kind.tiny
    errors = np.abs(found.astype(np.float64) - wanted)[told] / size[told] / float(kind.eps)
    assert errors.max() < BOUNDS.get(name, 8), (name, operands[:, told][:, errors.argmax()])


INF, NAN = math.inf, math.nan
ENDS: list[tuple[str, list[float], list[float]]] = [
    ("i0", [INF, -INF, 0.0], [INF, INF, 1.0]),
    ("i0e", [INF, -INF], [0.0, 0.0]),
    ("i1", [INF, -INF, 0.0], [INF, -INF, 0.0]),
    ("k0", [0.0, INF, -1.0], [INF, 0.0, NAN]),
    ("k1", [0.0, INF, -1.0], [INF, 0.0, NAN]),
    ("k0e", [0.0, INF, -1.0], [INF, 0.0, NAN]),
    ("k1e", [0.0, INF, -1.0], [INF, 0.0, NAN]),
    ("j0", [INF, -INF, 0.0], [0.0, 0.0, 1.0]),
    ("j1", [INF, -INF, 0.0], [0.0, 0.0, 0.0]),
    ("y0", [0.0, INF, -1.0, -9.0], [-INF, 0.0, NAN, NAN]),
    ("y1", [0.0, INF, -1.0, -9.0], [-INF, 0.0, NAN, NAN]),
    ("spherical_j0", [0.0, INF, -INF], [1.0, 0.0, 0.0]),
    ("airy_ai", [INF, -INF], [0.0, 0.0]),
    ("ndtri", [0.0, 1.0, 0.5, -0.1, 1.1], [-INF, INF, 0.0, NAN, NAN]),
    ("entr", [0.0, 1.0, -1.0, INF], [0.0, 0.0, -INF, -INF]),
    ("polygamma1", [0.0, -1.0, INF, -INF], [INF, INF, 0.0, NAN]),
]
PAIRS: list[tuple[str, list[float], list[float], list[float]]] = [
    ("zeta", [1, 0.5, 2, 2.5, INF, 3], [1, 1, -1, -0.5, 1, INF], [INF, NAN, INF, NAN, 1, 0]),
    (
        "gammainc",
        [0, 0, 1, INF, INF, -1, 1],
        [1, 0, INF, 1, INF, 1, -1],
        [1, NAN, 1, 0, NAN, NAN, NAN],
    ),
    (
        "gammaincc",
        [0, 0, 1, INF, INF, -1, 1],
        [1, 0, INF, 1, INF, 1, -1],
        [0, NAN, 0, 1, NAN, NAN, NAN],
    ),
    ("betaln", [0, 1, INF], [1, INF, INF], [INF, -INF, -INF]),
    (
        "betaln",
        [-3, 1, -3, -3, -2, INF],
        [1, -3, 3, 4, -2, -3],
        [*[-math.log(3)] * 3, INF, INF, INF],
    ),
]


@pytest.mark.parametrize(("name", "x", "wanted"), ENDS, ids=[row[0] for row in ENDS])
def test_ends_have_their_limits_and_nan_stays(
    name: str, x: list[float], wanted: list[float]
) -> None:
    found = function(name)(calor.asarray([*x, NAN])).numpy()
    np.testing.assert_array_equal(found, np.float32([*wanted, NAN]))


@pytest.mark.parametrize(("name", "a", "b", "wanted"), PAIRS, ids=[row[0] for row in PAIRS])
def test_ends_of_functions_of_two(
    name: str, a: list[float], b: list[float], wanted: list[float]
) -> None:
    x, y = [*a, NAN, 1.0], [*b, 1.0, NAN]
    found = getattr(special, name)(*(calor.asarray(np.float32(t)) for t in (x, y))).numpy()
    np.testing.assert_array_equal(found, np.float32([*wanted, NAN, NAN]))


@pytest.mark.parametrize("name", POINTS)
def test_half_types_are_float32_rounded_once(name: str) -> None:
    count = len(POINTS[name][0]) - 1
    half = [calor.asarray([0.25, 1.0, 1.75], dtype="bfloat16")] * count
    wide = [x.astype("float32") for x in half]
    found = function(name)(*half)
    assert found.dtype is calor.bfloat16
    rounded = function(name)(*wide).astype("bfloat16")
    np.testing.assert_array_equal(*(t.astype("float32").numpy() for t in (found, rounded)))


def test_wrong_operands_say_what_to_pass() -> None:
    with pytest.raises(calor.errors.DTypeError, match="real floating"):
        special.i0(calor.ones(2, dtype="complex64"))
    with pytest.raises(calor.errors.ArgumentError, match="order of at least 0"):
        special.polygamma(-1, 2.0)
    with pytest.raises(calor.errors.ArgumentError, match="dimension of at least 1"):
        special.multigammaln(2.0, 0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_orders_of_polygamma_can_be_elements(dtype: str) -> None:
    orders, numbers = [0, 1, 2, 5, 0, 12], calor.asarray([1.5, -1.25, 0.5], dtype=dtype)
    found = special.polygamma(calor.asarray(orders)[:, None], numbers)
    assert found.dtype is numbers.dtype
    alone = calor.stack([special.polygamma(n, numbers) for n in orders])
    rtol = 1e-13 if dtype == "float64" else 2e-2 if dtype == "bfloat16" else 3e-5
    np.testing.assert_allclose(
        found.double().numpy(), alone.double().numpy(), rtol=rtol, atol=1e-3 * rtol
    )
    mixed = special.polygamma(calor.asarray([-1.0, 1.5, 1.0]), calor.full(3, 2.0, dtype=dtype))
    assert np.isnan(mixed.double().numpy()).tolist() == [True, True, False]
    slope = calor.grad(lambda x: special.polygamma(calor.asarray([0, 2]), x).sum())
    wanted = [special.polygamma(n, 1.5).item() for n in (1, 3)]
    np.testing.assert_allclose(slope(calor.full(2, 1.5)).numpy(), wanted, rtol=1e-5)


def _polygamma(n: int, x: float) -> float:
    """Return the sum over the poles, by numbers of any exponent."""
    with decimal.localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, decimal.MAX_EMAX, decimal.MIN_EMIN
        first = decimal.Decimal(x)
        terms = [(first + k) ** (-n - 1) for k in range(900)]
        return float((-1) ** (n + 1) * math.factorial(n) * sum(terms))


@pytest.mark.parametrize("elements", [False, True])
@pytest.mark.parametrize(
    ("dtype", "orders"),
    [("float32", (21, 33, 34, 35, 63, 64, 120)), ("float64", (21, 170, 171, 300))],
)
def test_large_orders_of_polygamma_have_the_range_of_their_results(
    dtype: str, orders: tuple[int, ...], elements: bool
) -> None:
    rng, info = np.random.default_rng(7), np.finfo(dtype)
    for n in orders:
        # About n / e results are near 1; at -0.7 and 0.01 they overflow.
        x = np.array([*(n / math.e * np.exp(rng.uniform(-4, 4, 12) / n**0.7)), 0.01, -0.7], dtype)
        wanted = np.array([_polygamma(n, float(v)) for v in x])
        with np.errstate(over="ignore"):
            wanted = wanted.astype(dtype)
        order = calor.asarray(np.array(n, dtype)) if elements else n
        found = special.polygamma(order, calor.asarray(x)).numpy()
        assert np.isfinite(found[:8]).any()
        rtol = (8 * n if elements and n > 256 else 40 + n) * info.eps
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=4 * info.tiny)
        given = calor.asarray(x[:12], requires_grad=True)
        special.polygamma(order, given).sum().backward()
        assert given.grad is not None
        wanted = np.array([_polygamma(n + 1, float(v)) for v in x[:12]]).astype(dtype)
        np.testing.assert_allclose(given.grad.numpy(), wanted, rtol=rtol)


@pytest.mark.parametrize("elements", [False, True])
def test_large_orders_between_poles(elements: bool) -> None:
    x = np.array([-0.5, -1.5, -0.3, -1.8, -1.0, 0.0, -2.25])
    for n in (21, 22, 40):
        order = calor.asarray(float(n), dtype="float64") if elements else n
        found = special.polygamma(order, calor.asarray(x)).numpy()
        wanted = [_polygamma(n, v) if v != int(v) else (-1) ** (n + 1) * INF for v in x]
        np.testing.assert_allclose(found, wanted, rtol=1e-13)


@pytest.mark.parametrize("name", ["i0", "zeta", "gammainc", "polygamma1"])
def test_empty_tensors_stay_empty(name: str) -> None:
    count = len(POINTS[name][0]) - 1
    assert function(name)(*[calor.zeros((0, 3))] * count).shape == (0, 3)


def test_multigammaln_sums_log_gammas() -> None:
    x = np.float32([2.5, 4.0])
    wanted = [1.5 * math.log(math.pi) + sum(math.lgamma(v - j / 2) for j in range(3)) for v in x]
    np.testing.assert_allclose(special.multigammaln(calor.asarray(x), 3).numpy(), wanted, rtol=1e-6)
