"""Writes ``points.json``: arguments over the whole range of each function, and values by mpmath.

A tool, run by hand (``python make_points.py``). The arguments are exact in float32.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpmath import mp

mp.dps = 50
draw = random.Random(5)
COUNT = 24


def single(x: float) -> float:
    return float(np.float32(x))


def spread(low: float, high: float) -> list[float]:
    """Numbers of all sizes between two positive ones."""
    return [single(low * (high / low) ** draw.random()) for _ in range(COUNT)]


def even(low: float, high: float) -> list[float]:
    return [single(draw.uniform(low, high)) for _ in range(COUNT)]


def both(xs: list[float]) -> list[float]:
    return [*xs, *(-x for x in xs)]


def spherical(x: Any) -> Any:
    return mp.sin(x) / x


def quantile(p: Any) -> Any:
    return -mp.sqrt(2) * mp.erfinv(1 - 2 * p) if p > 1e-30 else -mp.sqrt(2) * root_of_erfc(2 * p)


def root_of_erfc(value: Any) -> Any:
    target = mp.log(value)
    return mp.findroot(lambda x: mp.log(mp.erfc(x)) - target, mp.sqrt(-target))


def gamma(a: Any, x: Any, upper: bool) -> Any:
    if upper:
        return mp.gammainc(a, x, mp.inf, regularized=True)
    return mp.gammainc(a, 0, x, regularized=True)


def shapes() -> list[tuple[float, float]]:
    """Shapes and arguments around them, of which neither tail underflows."""
    pairs = []
    for a in [*spread(1e-3, 30), *spread(10, 3e4)]:
        pairs.append((a, single(max(a + a**0.5 * draw.gauss(0, 3), a * 0.02))))
        pairs.append((a, single(max(a * (1 + draw.uniform(-0.1, 0.1)), 1e-6))))
    return pairs


def by_shape(a: Any, x: Any) -> Any:
    with mp.workdps(60):
        return mp.diff(lambda t: gamma(t, mp.mpf(x), False), mp.mpf(a), h=mp.mpf(10) ** -20)


KINDS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "i0": (lambda x: mp.besseli(0, x), both(spread(1e-4, 80))),
    "i0e": (lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), both(spread(1e-4, 1e4))),
    "i1": (lambda x: mp.besseli(1, x), both(spread(1e-4, 80))),
    "i1e": (lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), both(spread(1e-4, 1e4))),
    "k0": (lambda x: mp.besselk(0, x), spread(1e-6, 80)),
    "k0e": (lambda x: mp.besselk(0, x) * mp.exp(x), spread(1e-6, 1e4)),
    "k1": (lambda x: mp.besselk(1, x), spread(1e-6, 80)),
    "k1e": (lambda x: mp.besselk(1, x) * mp.exp(x), spread(1e-6, 1e4)),
    "j0": (lambda x: mp.besselj(0, x), both([*spread(1e-3, 500), *even(0, 8)])),
    "j1": (lambda x: mp.besselj(1, x), both([*spread(1e-3, 500), *even(0, 8)])),
    "y0": (lambda x: mp.bessely(0, x), [*spread(1e-3, 500), *even(0, 8)]),
    "y1": (lambda x: mp.bessely(1, x), [*spread(1e-3, 500), *even(0, 8)]),
    "spherical_j0": (spherical, both(spread(1e-3, 500))),
    "airy_ai": (mp.airyai, [*even(-30, 5), *even(-6, 4), *even(0, 12)]),
    "ndtri": (quantile, [*spread(1e-37, 0.5), *even(0.001, 0.999)]),
    "entr": (lambda x: -x * mp.log(x), spread(1e-9, 1e4)),
    "zeta": (
        mp.zeta,
        [*zip(even(1.01, 9), spread(1e-2, 99), strict=True), (4.0, -2.5), (4.0, -7.25)],
    ),
    "polygamma1": (lambda x: mp.polygamma(1, x), [*spread(1e-2, 1e3), *even(-6, 0)]),
    "polygamma4": (lambda x: mp.polygamma(4, x), [*spread(1e-2, 1e3), *even(-6, 0)]),
    "betaln": (
        lambda a, b: mp.log(mp.beta(a, b)),
        [*zip(spread(1e-3, 1e4), spread(1e-3, 1e4), strict=True)],
    ),
    "gammainc": (lambda a, x: gamma(a, x, False), shapes()),
    "gammaincc": (lambda a, x: gamma(a, x, True), shapes()),
    "gammainc_slope": (by_shape, shapes()),
}


def row(f: Callable[..., Any], operands: Any) -> list[float]:
    given = operands if isinstance(operands, tuple) else (operands,)
    return [*given, float(f(*map(mp.mpf, given)))]


if __name__ == "__main__":
    made = {name: [row(f, x) for x in xs] for name, (f, xs) in KINDS.items()}
    text = ",\n".join(f'"{name}": {json.dumps(rows)}' for name, rows in made.items())
    Path(__file__).with_name("points.json").write_text(f"{{\n{text}\n}}\n", "utf-8")
