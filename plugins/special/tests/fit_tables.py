"""Fits the polynomials of ``calor_special.tables`` with mpmath and prints their module.

A tool, run by hand (``python fit_tables.py > .../tables.py``); no test imports it. Each polynomial
interpolates its function at Chebyshev nodes and is printed in powers of t, which maps the interval
to [-1, 1]; the first of a pair is for float32, the second for float64.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from mpmath import mp

sys.path.insert(0, str(Path(__file__).parents[3] / "packages/core/tests/reference"))
from fit_special import interpolate

mp.dps = 40
Function = Callable[[Any], Any]
HEAD = '''"""Coefficients of the special functions, in powers of t in [-1, 1], lowest first.

Made by ``tests/fit_tables.py``: interpolation at Chebyshev nodes in 40 digits. The comments give
the function, its interval and the error of the polynomials for float32 and for float64, relative
to the largest value.
"""

from __future__ import annotations

from typing import Final

# fmt: off
# ruff: noqa: E501
'''


def error(f: Function, coefficients: list[Any], low: Any, high: Any) -> Any:
    """Return the largest error on a grid, relative to the largest value."""
    grid = [mp.mpf(2 * k - 100) / 101 for k in range(101)]
    exact = [f((low + high) / 2 + (high - low) / 2 * t) for t in grid]
    size = max(map(abs, exact))
    pairs = zip(grid, exact, strict=True)
    return max(abs(mp.polyval(coefficients[::-1], t) - y) for t, y in pairs) / size


def show(numbers: list[Any]) -> None:
    """Print a tuple of numbers, four in a line."""
    texts = [f"{float(c)!r}," for c in numbers]
    print("    (")
    for i in range(0, len(texts), 4):
        print("        " + " ".join(texts[i : i + 4]))
    print("    ),")


def fit(name: str, what: str, f: Function, low: Any, high: Any) -> None:
    """Print the shortest polynomials within the rounding of float32 and of float64."""
    a, b, f = mp.mpf(low), mp.mpf(high), cache(f)
    found, errors = [], []
    for tolerance in (4e-9, 1.5e-17):
        for degree in range(2, 60):
            coefficients = interpolate(f, a, b, degree)
            worst = error(f, coefficients, a, b)
            if worst < tolerance:
                break
        found.append(coefficients)
        errors.append(mp.nstr(worst, 2))
    print(f"\n# {what} on [{mp.nstr(a, 6)}, {mp.nstr(b, 6)}]: {', '.join(errors)}")
    print(f"{name}: Final = (")
    for coefficients in found:
        show(coefficients)
    print(")", flush=True)


def modified(bessel: Function, sign: int) -> Function:
    """√x exp(±x) of a modified Bessel function, in 1 / x."""
    return lambda u: mp.sqrt(1 / u) * mp.exp(sign / u) * bessel(1 / u)


def without_zeros(bessel: Function, zeros: list[Any], odd: bool) -> Function:
    """A Bessel function divided by its zeros (and by x if it is odd), in z = x²."""

    def f(z: Any) -> Any:
        x = mp.sqrt(z)
        rest = bessel(x) / (x if odd else 1)
        for zero in zeros:
            rest /= z - zero * zero
        return rest

    return f


def waves(n: int, part: int) -> Function:
    """The factor of cosine (0) or, times x, of sine (1) of Jₙ and Yₙ, in 1 / x²."""

    def f(u: Any) -> Any:
        x = mp.sqrt(1 / u)
        angle = x - (2 * n + 1) * mp.pi / 4
        j, y = mp.besselj(n, x), mp.bessely(n, x)
        c, s = mp.cos(angle), mp.sin(angle)
        scale = mp.sqrt(mp.pi * x / 2)
        return scale * (j * c + y * s) if part == 0 else scale * (y * c - j * s) * x

    return f


def airy_waves(part: int) -> Function:
    """The factors of Ai(−x), as `waves`, in 1 / ζ² with ζ = ⅔ x^1.5."""

    def f(u: Any) -> Any:
        zeta = mp.sqrt(1 / u)
        x = (zeta * 1.5) ** (mp.mpf(2) / 3)
        angle = zeta - mp.pi / 4
        ai, bi = mp.airyai(-x), mp.airybi(-x)
        c, s = mp.cos(angle), mp.sin(angle)
        scale = mp.sqrt(mp.pi) * x ** mp.mpf(0.25)
        return scale * (ai * c - bi * s) if part == 0 else scale * (ai * s + bi * c) * zeta

    return f


def airy_far(u: Any) -> Any:
    x = (1.5 / u) ** (mp.mpf(2) / 3)
    return mp.airyai(x) * 2 * mp.sqrt(mp.pi) * x ** mp.mpf(0.25) * mp.exp(1 / u)


def quantile(s: Any) -> Any:
    """erfcinv(exp(−s²)) / s."""
    target = -s * s
    x = s * (1 - mp.log(s * mp.sqrt(mp.pi)) / (2 * s * s))
    for _ in range(60):
        step = (mp.log(mp.erfc(x)) - target) * mp.erfc(x) * mp.exp(x * x) * mp.sqrt(mp.pi) / 2
        x += step
        if abs(step) < mp.mpf(10) ** -36 * x:
            break
    return x / s


def temme(orders: int, terms: int) -> list[list[float]]:
    """Coefficients in η of c₀, c₁, … (DLMF 8.12.9 to 8.12.12).

    μ as a series in η solves μ μ' = η (1 + μ); g are the coefficients of Stirling's series.
    """
    count = terms + 2 * orders + 3
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, count + 1):
        # The coefficient of ηⁿ in μ μ' is that of ηⁿ⁻¹ in μ.
        known = sum((j * mu[j] * mu[n + 1 - j] for j in range(2, n)), Fraction(0))
        mu.append((mu[n - 1] - known) / (n + 1))
    # 1 / μ = (1/η) Σ q η^n.
    series = mu[1:]
    q = [Fraction(1)]
    for n in range(1, len(series)):
        q.append(-sum((series[j] * q[n - j] for j in range(1, n + 1)), Fraction(0)))
    g = [mu[2 * k + 1] * double_factorial(2 * k + 1) for k in range(orders)]
    # c₀ = 1/μ − 1/η; later ones: (1/η) c' + (−1)ᵏ gₖ / μ, whose poles cancel.
    current = q[1:]
    found = []
    for k in range(orders):
        if k:
            slope = [n * c for n, c in enumerate(current)][1:]
            pole = slope[0] + (-1) ** k * g[k]
            assert pole == 0, (k, pole)
            current = [s + (-1) ** k * g[k] * r for s, r in zip(slope[1:], q[1:], strict=False)]
        found.append([float(c) for c in current[:terms]])
    return found


def double_factorial(n: int) -> int:
    result = 1
    for k in range(n, 1, -2):
        result *= k
    return result


print(HEAD, end="")
fit("I0_FAR", "√x exp(−x) I₀(x) in 1/x", modified(lambda x: mp.besseli(0, x), -1), 0, 0.125)
fit("I1_FAR", "√x exp(−x) I₁(x) in 1/x", modified(lambda x: mp.besseli(1, x), -1), 0, 0.125)
fit("K0_MIDDLE", "√x exp(x) K₀(x) in 1/x", modified(lambda x: mp.besselk(0, x), 1), 0.25, 1)
fit("K0_FAR", "√x exp(x) K₀(x) in 1/x", modified(lambda x: mp.besselk(0, x), 1), 0, 0.25)
fit("K1_MIDDLE", "√x exp(x) K₁(x) in 1/x", modified(lambda x: mp.besselk(1, x), 1), 0.25, 1)
fit("K1_FAR", "√x exp(x) K₁(x) in 1/x", modified(lambda x: mp.besselk(1, x), 1), 0, 0.25)
AIRY_END = 1 / (2 * mp.mpf(4.5) ** 1.5 / 3) ** 2
zeros = [mp.besseljzero(0, 1), mp.besseljzero(0, 2)], [mp.besseljzero(1, 1)]
fit(
    "J0_NEAR",
    "J₀(x) / ((x² − r₁²) (x² − r₂²)) in x²",
    without_zeros(lambda x: mp.besselj(0, x), zeros[0], False),
    0,
    36,
)
fit(
    "J1_NEAR",
    "J₁(x) / (x (x² − r²)) in x²",
    without_zeros(lambda x: mp.besselj(1, x), zeros[1], True),
    0,
    36,
)
log_part = 2 / mp.pi
fit(
    "Y0_NEAR",
    "Y₀(x) − 2/π log(x) J₀(x) in x²",
    lambda z: mp.bessely(0, mp.sqrt(z)) - log_part * mp.log(z) / 2 * mp.besselj(0, mp.sqrt(z)),
    0,
    36,
)
fit(
    "Y1_NEAR",
    "(Y₁(x) − 2/π (log(x) J₁(x) − 1/x)) / x in x²",
    lambda z: (
        (
            mp.bessely(1, mp.sqrt(z))
            - log_part * (mp.log(z) / 2 * mp.besselj(1, mp.sqrt(z)) - 1 / mp.sqrt(z))
        )
        / mp.sqrt(z)
    ),
    0,
    36,
)
for n in (0, 1):
    fit(
        f"WAVE{n}_COSINE",
        f"the factor of the cosine of J{'₀₁'[n]} and of the sine of Y{'₀₁'[n]} in 1/x²",
        waves(n, 0),
        0,
        mp.mpf(1) / 36,
    )
    fit(f"WAVE{n}_SINE", "x times that of the other wave in 1/x²", waves(n, 1), 0, mp.mpf(1) / 36)
fit("AIRY_LOW", "Ai(x)", mp.airyai, -4.5, 0)
fit("AIRY_HIGH", "Ai(x)", mp.airyai, 0, 2.25)
fit("AIRY_FAR", "2 √π x^¼ exp(ζ) Ai(x) in 1/ζ", airy_far, 0, 1 / mp.mpf(2.25))
fit("AIRY_COSINE", "the factor of the cosine of Ai(−x) in 1/ζ²", airy_waves(0), 0, AIRY_END)
fit("AIRY_SINE", "ζ times that of the sine of Ai(−x) in 1/ζ²", airy_waves(1), 0, AIRY_END)
fit("QUANTILE_FAR", "erfcinv(exp(−s²)) / s", quantile, 6.125, 27.5)
fit(
    "LOG_REST",
    "(x − log(1 + x)) / x²",
    lambda x: (x - mp.log1p(x)) / x**2 if x else mp.mpf(0.5),
    -0.4,
    0.4,
)
print(
    "\n# c₀, c₁, … of the incomplete gamma function in powers of η (DLMF 8.12.9).\nTEMME: Final = ("
)
for row in temme(11, 18):
    show(row)
print(")")
