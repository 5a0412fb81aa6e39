"""Gradients of the special functions by differences, and where there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor import special

LINE = np.concatenate([np.linspace(0.2, 12, 23), -np.linspace(0.2, 12, 23)])
POSITIVE = np.linspace(0.2, 12, 23)
SHAPES = np.geomspace(0.05, 300, 40)
AROUND = SHAPES + np.sqrt(SHAPES) * np.sin(np.arange(40.0)) * 0.9
ONES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{n: (getattr(special, n), (LINE,)) for n in ("i0", "i0e", "i1", "i1e", "j0", "j1")},
    **{
        n: (getattr(special, n), (POSITIVE,))
        for n in ("k0", "k0e", "k1", "k1e", "y0", "y1", "entr")
    },
    "spherical_j0": (special.spherical_j0, (LINE,)),
    "ndtri": (special.ndtri, (np.linspace(0.01, 0.99, 20),)),
    "polygamma": (lambda x: special.polygamma(2, x), (LINE + 0.3,)),
    "zeta": (special.zeta, (np.linspace(1.2, 9, 20), np.linspace(0.3, 7, 20)[::-1])),
    "gammainc": (special.gammainc, (SHAPES, AROUND)),
    "gammaincc": (special.gammaincc, (SHAPES, AROUND)),
    "betaln": (special.betaln, (SHAPES, AROUND)),
    "legendre": (lambda x: special.legendre_polynomial_p(x, 6), (LINE / 12,)),
}


@pytest.mark.parametrize("name", ONES)
def test_gradients_are_differences(name: str) -> None:
    f, operands = ONES[name]
    step = 1e-6
    for i, x in enumerate(operands):
        rest = [calor.asarray(t, dtype="float64") for t in operands]

        def at(t: Any, i: int = i, rest: Any = rest) -> Any:
            return f(*rest[:i], t, *rest[i + 1 :])

        found = calor.grad(lambda t: at(t).sum())(rest[i]).numpy()
        moved = step * np.maximum(1, np.abs(x)) * (1 if i else np.minimum(1, np.abs(x)))
        high, low = (at(calor.asarray(x + d, dtype="float64")).numpy() for d in (moved, -moved))
        wanted = (high - low) / (2 * moved)
        np.testing.assert_allclose(found, wanted, rtol=3e-5, atol=3e-7, err_msg=f"{name} {i}")


def test_airy_says_why_it_has_no_gradient() -> None:
    with pytest.raises(calor.errors.GradientError, match="Ai′"):
        calor.grad(special.airy_ai)(calor.asarray(1.0))


def test_second_derivatives_follow() -> None:
    second = calor.grad(calor.grad(special.i0))(calor.asarray(0.7)).item()
    assert second == pytest.approx(special.i0(0.7).item() - special.i1(0.7).item() / 0.7, rel=1e-5)
