"""Orthogonal polynomials by NumPy's, of one degree and of a degree for each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import chebyshev, hermite, hermite_e, laguerre, legendre

import calor
from calor import special

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
