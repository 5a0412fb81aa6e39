"""Fits the polynomials of ``calor.reference.special`` with mpmath and prints their module.

A tool, run by hand (``python fit_special.py > .../special_coefficients.py``); no test imports it.
``python fit_special.py erfcx`` prints the tables of ``calor.reference.error_functions``.
Each polynomial interpolates its function at Chebyshev nodes, in 60 digits, and is printed in
powers of t, which maps the interval to [-1, 1]. The comment beside it gives its relative error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from mpmath import mp

mp.dps = 60
Function = Callable[[Any], Any]

HEAD = '''"""Coefficients of the special functions, in powers of t in [-1, 1], lowest first.

Made by ``tests/reference/fit_special.py``: interpolation at Chebyshev nodes in 60 digits. The
comments give the function, its interval and the largest relative error of the polynomial.
"""

from __future__ import annotations

from typing import Final
'''


def interpolate(f: Function, low: Any, high: Any, degree: int) -> list[Any]:
    """Return coefficients in powers of t of the interpolant of f on [low, high]."""
    n = degree + 1
    nodes = [mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    values = [f((low + high) / 2 + (high - low) / 2 * t) for t in nodes]
    total = [mp.mpf(0)] * n
    before, current = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    for j in range(n):
        weight = sum(v * mp.cos(j * mp.acos(t)) for v, t in zip(values, nodes, strict=True)) * 2 / n
        basis = before
        for i, c in enumerate(basis):
            total[i] += c * (weight / 2 if j == 0 else weight)
        doubled = [mp.mpf(0)] + [2 * c for c in current]
        before, current = (
            current,
            [d - (before[i] if i < len(before) else 0) for i, d in enumerate(doubled)],
        )
    return total


def error(f: Function, coefficients: list[Any], low: Any, high: Any) -> Any:
    """Return the largest relative error on a grid, of the coefficients as they are."""
    worst = mp.mpf(0)
    for k in range(401):
        t = mp.mpf(2 * k - 400) / 400
        exact = f((low + high) / 2 + (high - low) / 2 * t)
        worst = max(worst, abs(mp.polyval(coefficients[::-1], t) / exact - 1))
    return worst


def fit(name: str, what: str, f: Function, low: float, high: float, tolerance: float) -> None:
    """Print the shortest polynomial within the tolerance."""
    a, b = mp.mpf(low), mp.mpf(high)
    for degree in range(4, 40):
        coefficients = interpolate(f, a, b, degree)
        worst = error(f, coefficients, a, b)
        if worst < tolerance:
            break
    print(f"\n# {what} on [{low}, {high}]: {mp.nstr(worst, 2)}\n{name}: Final = (")
    for c in coefficients:
        print(f"    {float(c)!r},")
    print(")")


def erf_ratio(u: Any) -> Any:
    """erf(x) / x as a function of x squared."""
    return 2 / mp.sqrt(mp.pi) if u == 0 else mp.erf(mp.sqrt(u)) / mp.sqrt(u)


def scaled_erfc(v: Any) -> Any:
    """exp(x**2) erfc(x), x >= 1, as a function of (x - 2.5) / (x + 2.5)."""
    x = mp.mpf(5) / 2 * (1 + v) / (1 - v)
    return mp.exp(x * x) * mp.erfc(x)


def lgamma_ratio(z: Any) -> Any:
    """log gamma(1 + z) without its zeros at 0 and 1."""
    if z == 0:
        return mp.euler
    if z == 1:
        return 1 - mp.euler
    return mp.loggamma(1 + z).real / (z * (z - 1))


DIGAMMA_ZERO = mp.findroot(mp.digamma, 1.46)


def digamma_ratio(x: Any) -> Any:
    """digamma without its positive zero."""
    if abs(x - DIGAMMA_ZERO) < mp.mpf(10) ** -40:
        return mp.zeta(2, x)
    return mp.digamma(x) / (x - DIGAMMA_ZERO)


def erfinv_ratio(u: Any) -> Any:
    """erfinv(x) / x as a function of x squared."""
    return mp.sqrt(mp.pi) / 2 if u == 0 else mp.erfinv(mp.sqrt(u)) / mp.sqrt(u)


def erfinv_tail(s: Any) -> Any:
    """erfinv(1 - exp(-s**2)) / s."""
    q = mp.exp(-s * s)
    guess = mp.sqrt(max(-mp.log(q * mp.sqrt(mp.pi) * s), mp.mpf("0.1")))
    return mp.findroot(lambda y: mp.log(mp.erfc(y)) - mp.log(q), guess) / s


def erfcx_times_shifted(t: Any) -> Any:
    """(x + 1/2) exp(x**2) erfc(x), x >= 0, as a function of t = (x - 3) / (x + 3)."""
    if t == 1:
        return 1 / mp.sqrt(mp.pi)
    x = 3 * (1 + t) / (1 - t)
    half = mp.mpf(1) / 2
    if x < 40:
        return (x + half) * mp.exp(x * x) * mp.erfc(x)
    # The asymptotic series, whose smallest term is far below 60 digits.
    total = term = mp.mpf(1)
    for n in range(1, 60):
        term *= -(2 * n - 1) / (2 * x * x)
        total += term
    return (x + half) * total / (x * mp.sqrt(mp.pi))


def erfcx() -> None:
    """Print the coefficients for float64 and float32."""
    for name, degree, kind in (("ERFCX", 23, np.float64), ("ERFCX_FLOAT32", 11, np.float32)):
        exact = interpolate(erfcx_times_shifted, mp.mpf(-1), mp.mpf(1), degree)
        worst = error(erfcx_times_shifted, exact, mp.mpf(-1), mp.mpf(1))
        rounded = [str(kind(float(c))) for c in exact]
        print(f"# {mp.nstr(worst, 2)}\n{name}: Final = ({', '.join(rounded)})")


def main() -> None:
    """Print the module."""
    print(HEAD, end="")
    zero = float(DIGAMMA_ZERO)
    print(
        f"\n# The positive zero of digamma, in two parts.\nDIGAMMA_ZERO: Final = ({zero!r},", end=""
    )
    print(f" {float(DIGAMMA_ZERO - zero)!r})")
    fit("ERF_NEAR", "erf(x) / x in x**2", erf_ratio, 0, 1, 1e-17)
    fit(
        "ERFC_FAR",
        "exp(x**2) erfc(x) in (x - 2.5) / (x + 2.5)",
        scaled_erfc,
        -0.4375,
        0.4375,
        2e-17,
    )
    ratio = "lgamma(1 + z) / (z (z - 1))"
    fit("LGAMMA_LOW", ratio, lgamma_ratio, -0.5, 0, 1e-17)
    fit("LGAMMA_MIDDLE", ratio, lgamma_ratio, 0, 1, 1e-17)
    fit("LGAMMA_HIGH", ratio, lgamma_ratio, 1, 2, 1e-17)
    fit("DIGAMMA", "digamma(x) / (x - zero)", digamma_ratio, 1, 2, 1e-17)
    fit("ERFINV_NEAR", "erfinv(x) / x in x**2", erfinv_ratio, 0, 0.5, 1e-17)
    tail = "erfinv(1 - exp(-s**2)) / s"
    fit("ERFINV_TAIL", tail, erfinv_tail, 1.0625, 2.5, 1e-17)
    fit("ERFINV_END", tail, erfinv_tail, 2.5, 6.125, 1e-17)


if __name__ == "__main__":
    erfcx() if "erfcx" in sys.argv else main()
