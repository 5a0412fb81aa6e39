"""Finds the polynomials of ``calor_kernel.library.math``: ``python minimax.py [NAME …]``.

Requirements: every coefficient in the library can be made again by one command; an error is bounded
relative to the function's value, not to the polynomial's; coefficients are rounded to the type that
they are used in one after another, each fit taking up the rounding of those before it (the idea of
Brisebarre and Chevillard, "Efficient polynomial L-infinity approximations", 2007). The exchange is
Remez's (1934). Needs mpmath.
"""

from __future__ import annotations

import itertools
import runpy
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import mpmath as mp
import numpy as np

mp.mp.dps = 60
MODULE: Final = Path(__file__).parents[1] / "src/calor_kernel/library/math/coefficients.py"
HEADER: Final = '''\
"""Polynomials of the mathematical functions, for float32 and float64, constants first.

Made by ``tools/minimax.py``, which has the interval and the weight of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

Table = tuple[Sequence[float], Sequence[float]]

'''
Real = Callable[[mp.mpf], mp.mpf]


@dataclass(frozen=True)
class Fit:
    """A polynomial to find: of ``terms`` coefficients for ``function`` on [low, high].

    ``weight(x)`` times the error is what is made small. ``power``: the polynomial's variable is
    x ** power, which makes even and odd functions of it. ``bits``: 24 or 53.
    """

    function: Real
    low: float
    high: float
    terms: int
    weight: Real
    bits: int
    power: int = 1


def exchange(fit: Fit) -> list[mp.mpf]:
    """Return the coefficients whose largest weighted error is the smallest."""
    grid = points(fit, 800)
    values = [fit.function(x) for x in grid]
    weights = [fit.weight(x) for x in grid]
    powers = [[x ** (fit.power * k) for k in range(fit.terms)] for x in grid]
    places = [round((i + 0.5) * len(grid) / (fit.terms + 1)) for i in range(fit.terms + 1)]
    coefficients: list[mp.mpf] = []
    for _ in range(40):
        rows, right = mp.matrix(fit.terms + 1, fit.terms + 1), mp.matrix(fit.terms + 1, 1)
        for i, place in enumerate(places):
            for k in range(fit.terms):
                rows[i, k] = weights[place] * powers[place][k]
            rows[i, fit.terms] = (-1) ** i * mp.mpf(10) ** -15
            right[i] = weights[place] * values[place]
        solved = mp.lu_solve(rows, right)
        coefficients = [solved[k] for k in range(fit.terms)]
        errors = [
            w * (sum(c * p for c, p in zip(coefficients, row, strict=True)) - v)
            for w, v, row in zip(weights, values, powers, strict=True)
        ]
        if max(abs(e) for e in errors) <= abs(solved[fit.terms]) * mp.mpf("1.001e-15"):
            break
        places = _extremes(errors, fit.terms + 1, places)
    return coefficients


def points(fit: Fit, count: int) -> list[mp.mpf]:
    """Return Chebyshev points of the interval."""
    low, high = mp.mpf(fit.low), mp.mpf(fit.high)
    half = mp.mpf(1) / 2
    turns = (mp.cos(mp.pi * (i + half) / count) for i in range(count))
    return [(low + high) / 2 + (low - high) / 2 * t for t in turns]


def _extremes(errors: Sequence[mp.mpf], count: int, before: list[int]) -> list[int]:
    """Return the places of the largest errors of alternating sign."""
    found: list[int] = []
    for i, e in enumerate(errors):
        if not found or (e > 0) != (errors[found[-1]] > 0):
            found.append(i)
        elif abs(e) > abs(errors[found[-1]]):
            found[-1] = i
    while len(found) > count:
        # Leave out the weakest end, or the weakest pair inside.
        if len(found) == count + 1:
            found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
            continue
        pairs = [max(abs(errors[a]), abs(errors[b])) for a, b in itertools.pairwise(found)]
        at = pairs.index(min(pairs))
        del found[at : at + 2]
    return found if len(found) == count else before


def rounded(x: mp.mpf, bits: int) -> mp.mpf:
    """Return the nearest number of that many bits."""
    if x == 0:
        return x
    unit = mp.mpf(2) ** (mp.floor(mp.log(abs(x), 2)) - bits + 1)
    return mp.nint(x / unit) * unit


def solve(fit: Fit) -> tuple[list[float], float]:
    """Return the rounded coefficients, constant first, and the weighted error they leave."""
    wanted = exchange(fit)
    grid = points(fit, 200)
    fixed: list[mp.mpf] = []
    while len(fixed) < fit.terms:
        fixed.append(rounded(wanted[len(fixed)], fit.bits))
        off = wanted[len(fixed) - 1] - fixed[-1]
        free = range(len(fixed), fit.terms)
        if not free:
            break
        # The later coefficients take up what this one was rounded by, in the mean.
        rows = mp.matrix(len(grid), len(free))
        right = mp.matrix(len(grid), 1)
        for i, x in enumerate(grid):
            weight = fit.weight(x)
            for k, power in enumerate(free):
                rows[i, k] = weight * x ** (fit.power * power)
            right[i] = weight * off * x ** (fit.power * (len(fixed) - 1))
        normal = rows.T * rows
        change = mp.lu_solve(normal, rows.T * right)
        for k, power in enumerate(free):
            wanted[power] += change[k]
    worst = max(
        abs(
            fit.weight(x)
            * (sum(c * x ** (fit.power * k) for k, c in enumerate(fixed)) - fit.function(x))
        )
        for x in points(fit, 999)
    )
    return [float(c) for c in fixed], float(worst)


def parts(x: mp.mpf, count: int, bits: int) -> list[float]:
    """Return a number as a sum of numbers of that many bits each."""
    made: list[float] = []
    for _ in range(count):
        made.append(float(rounded(x, bits)))
        x -= mp.mpf(made[-1])
    return made


def away(x: mp.mpf, digits: int = 12) -> mp.mpf:
    """Return x, or a small number where it is 0."""
    least = mp.mpf(10) ** -digits
    return x if abs(x) > least else least


def text_of(name: str, meaning: str, tables: Sequence[Sequence[float]]) -> str:
    """Return the assignment of a table as the library has it."""
    lines = textwrap.wrap(meaning, 96, initial_indent="# ", subsequent_indent="# ")
    lines += [f"{name.upper()}: Final[Table] = ("]
    for table in tables:
        if not table:
            lines.append("    (),")
            continue
        words = ", ".join(map(repr, table))
        lines += textwrap.wrap(f"({words},),", 96, initial_indent="    ", subsequent_indent="     ")
    return "\n".join([*lines, ")  # fmt: skip"])


def shortest(x: float, bits: int) -> float:
    """Return the float whose text is the shortest that rounds to x in the type it is used in."""
    return float(str(np.float32(x))) if bits == 24 else x


def main() -> None:
    """Make the tables that are named, or all, and write the library's module."""
    from minimax_fits import FITS

    known = runpy.run_path(str(MODULE)) if MODULE.exists() else {}
    made: list[str] = []
    for name, (meaning, fits) in FITS.items():
        if sys.argv[1:] and name not in sys.argv[1:] and name.upper() in known:
            made.append(text_of(name, meaning, known[name.upper()]))
            continue
        tables: list[list[float]] = [[]] if fits[0].bits == 53 else []
        for fit in fits:
            coefficients, error = solve(fit)
            tables.append([shortest(c, fit.bits) for c in coefficients])
            print(f"{name} {fit.bits}: error {error:.3g}, {error * 2**fit.bits:.3g} units")
        # A polynomial that one of the types does not need has fits for the other only.
        tables += [[]] * (2 - len(tables))
        made.append(text_of(name, meaning, tables))
    MODULE.write_text(HEADER + "\n".join(made) + "\n")


if __name__ == "__main__":
    main()
