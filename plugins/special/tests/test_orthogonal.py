"""Orthogonal polynomials by NumPy's, of one degree and of a degree for each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import chebyshev, hermite, hermite_e, laguerre, legendre

import calor
from calor import special
from calor.errors import DTypeError

DEGREES = np.arange(8)
X = np.linspace(-1.4, 1.4, 8)


def unit(n: int) -> Any:
    return np.eye(8)[n]


def third(x: Any, n: int, sign: int) -> Any:
    """The Chebyshev polynomials of the third and fourth kind by those of the second."""
    before = 0 if n == 0 else second(x, n - 1)
    return second(x, n) - sign * before


def second(x: Any, n: int) -> Any:
    return chebyshev.chebval(x, chebyshev.chebder(np.eye(10)[n + 1])) / (n + 1)


KINDS: dict[str, Callable[[Any, int], Any]] = {
    "chebyshev_polynomial_t": lambda x, n: chebyshev.chebval(x, unit(n)),
    "chebyshev_polynomial_u": second,
    "chebyshev_polynomial_v": lambda x, n: third(x, n, 1),
    "chebyshev_polynomial_w": lambda x, n: third(x, n, -1),
    "hermite_polynomial_h": lambda x, n: hermite.hermval(x, unit(n)),
    "hermite_polynomial_he": lambda x, n: hermite_e.hermeval(x, unit(n)),
    "laguerre_polynomial_l": lambda x, n: laguerre.lagval(x, unit(n)),
    "legendre_polynomial_p": lambda x, n: legendre.legval(x, unit(n)),
}
KINDS |= {
    f"shifted_{name}": lambda x, n, f=f: f(2 * x - 1, n)  # type: ignore[misc]
    for name, f in KINDS.items()
    if name.startswith("chebyshev")
}


@pytest.mark.parametrize("name", KINDS)
def test_polynomials_of_any_degree(name: str) -> None:
    f = getattr(special, name)
    x = calor.asarray(X, dtype="float64")
    wanted = np.stack([KINDS[name](X, int(n)) for n in DEGREES])
    table = f(x, calor.asarray(DEGREES)[:, None]).numpy()
    np.testing.assert_allclose(table, wanted, rtol=1e-12, atol=1e-12)
    for n in (0, 1, 5):
        np.testing.assert_array_equal(f(x, n).numpy(), table[n])
    assert f(x, -1).tolist() == [0.0] * 8
    assert f(calor.zeros((0,)), calor.zeros((0,))).shape == (0,)


@pytest.mark.parametrize("name", KINDS)
def test_no_degree_is_endless(name: str) -> None:
    f = getattr(special, name)
    degrees = calor.asarray([np.inf, 3.0, -np.inf, np.nan, 1e30, 70000.0, -3.0])
    found = f(0.25, degrees).numpy()
    assert np.isnan(found[[0, 3]]).all()
    assert found[[1, 2, 6]].tolist() == [f(0.25, 3).item(), 0.0, 0.0]
    finite = "chebyshev" in name
    assert np.isfinite(found[4:6]).tolist() == [finite, finite]
    for n in (10**6, 10**30):
        assert np.isfinite(f(0.25, n).item()) == finite
    assert np.isnan([f(0.25, n).item() for n in (10**400, np.inf)]).all()


@pytest.mark.parametrize("name", KINDS)
def test_operands_are_real(name: str) -> None:
    f = getattr(special, name)
    for operands in ((1j, 2), (1j, 2.0), (0.5, 2j), (1j, 70), (0.5, calor.asarray([2j]))):
        with pytest.raises(DTypeError, match="real"):
            f(*operands)


def angles(name: str, x: Any, n: int) -> Any:
    """The Chebyshev polynomials by cosines and sines, inside (−1, 1)."""
    angle = np.arccos(x)
    return {
        "t": lambda: np.cos(n * angle),
        "u": lambda: np.sin((n + 1) * angle) / np.sin(angle),
        "v": lambda: np.cos((n + 0.5) * angle) / np.cos(angle / 2),
        "w": lambda: np.sin((n + 0.5) * angle) / np.sin(angle / 2),
    }[name[-1]]()


@pytest.mark.parametrize("n", [64, 65, 66, 1001, 100_000])
@pytest.mark.parametrize("kind", "tuvw")
def test_chebyshev_polynomials_of_large_degrees(kind: str, n: int) -> None:
    f = getattr(special, f"chebyshev_polynomial_{kind}")
    x = np.linspace(-0.999, 0.999, 41)
    wanted = angles(kind, x, n)
    for degree in (n, calor.asarray(float(n))):
        found = f(calor.asarray(x), degree).numpy()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13 * n)
    ends = {"t": (1, 1), "u": (n + 1, n + 1), "v": (1, 2 * n + 1), "w": (2 * n + 1, 1)}[kind]
    found = f(calor.asarray([1.0, -1.0], dtype="float64"), n).numpy()
    np.testing.assert_allclose(found, [ends[0], ends[1] * (-1) ** n], rtol=1e-9)
    beyond = f(calor.asarray([1.001, 3.0, -3.0], dtype="float64"), n).numpy()
    assert np.sign(beyond).tolist() == [1, 1, (-1) ** n]


def test_chebyshev_polynomials_beyond_one_grow_as_powers() -> None:
    x = calor.asarray([1.5, -1.5], dtype="float64")
    for kind, factor in (("t", 0.5), ("u", None), ("v", None), ("w", None)):
        low = getattr(special, f"chebyshev_polynomial_{kind}")(x, 64).numpy()
        high = getattr(special, f"chebyshev_polynomial_{kind}")(x, 65).numpy()
        ratio = 1.5 + np.sqrt(1.25)
        np.testing.assert_allclose(high / low, [ratio, -ratio], rtol=1e-12)
        if factor is not None:
            np.testing.assert_allclose(high, factor * np.array([1, -1]) * ratio**65, rtol=1e-12)
        far = getattr(special, f"chebyshev_polynomial_{kind}")(x, 10**6).tolist()
        assert far == [np.inf, np.inf]
        assert getattr(special, f"chebyshev_polynomial_{kind}")(np.inf, 65).item() == np.inf


@pytest.mark.parametrize("n", [65, 200])
@pytest.mark.parametrize("kind", "tuvw")
def test_gradients_of_chebyshev_polynomials_of_large_degrees(kind: str, n: int) -> None:
    f = getattr(special, f"chebyshev_polynomial_{kind}")
    x = np.array([-1.0, -0.7, 0.0, 0.4, 1.0 - 1e-9, 1.0, 1.05])
    weights = np.zeros(n + 1)
    if kind == "t":
        weights[n] = 1
    else:
        # Of the second kind: 2 (T(n) + T(n - 2) + …), with half of T(0).
        weights[n::-2] += 2
        weights[n - 1 :: -2] += {"u": 0, "v": -2, "w": 2}[kind]
        weights[0] /= 2
    slope = chebyshev.chebval(x, chebyshev.chebder(weights))
    curve = chebyshev.chebval(x, chebyshev.chebder(weights, 2))
    first = calor.grad(lambda x: f(x, n).sum())
    given = calor.asarray(x)
    np.testing.assert_allclose(first(given).numpy(), slope, rtol=1e-8, atol=1e-9 * n * n)
    inner = [1, 2, 3]
    second = calor.grad(lambda x: first(x).sum())(given).numpy()
    np.testing.assert_allclose(second[inner], curve[inner], rtol=1e-9, atol=1e-9 * n * n)


def test_large_degrees_meet_those_of_the_recurrence_in_half_types() -> None:
    x = calor.asarray([0.5, -0.25], dtype="float16")
    made = special.chebyshev_polynomial_t(x, 100)
    assert made.dtype is calor.float16
    np.testing.assert_allclose(made.numpy(), angles("t", [0.5, -0.25], 100), atol=1e-3)
