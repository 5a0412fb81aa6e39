"""Special functions at extremes: denormal, tiny, huge, beside poles and ends of domains, at ±0.

Rows compare functions with series and integrals where these converge. Elsewhere functions keep
properties: parity by bits, a line through the origin, order, recurrences and reflections beside
poles, Wronskians, and the slopes that others of these functions are.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, float32, float64

from .base import Array, Check, Place

CONTRACT: Final = "a function keeps its parity, order, recurrences and slopes at any extreme"
_NEAR: Final = 1e-9
_ODD: Final = ("sin", "tan", "sinh", "tanh", "asin", "asinh", "atan", "atanh", "erf", "erfinv",
               "cbrt", "i1", "i1e", "j1")  # fmt: skip
_EVEN: Final = ("cos", "cosh", "abs", "square", "i0", "i0e", "j0", "sinc", "spherical_j0")
# The slope at the origin of functions that are 0 there.
_LINES: Final = {
    "sin": 1.0, "tan": 1.0, "sinh": 1.0, "tanh": 1.0, "asin": 1.0, "asinh": 1.0, "atan": 1.0,
    "atanh": 1.0, "expm1": 1.0, "log1p": 1.0, "erf": 2 / math.sqrt(math.pi),
    "erfinv": math.sqrt(math.pi) / 2, "i1": 0.5, "i1e": 0.5, "j1": 0.5,
}  # fmt: skip
# Functions that grow, with the ends of their domains; those that fall are negated.
_GROW: Final[dict[str, tuple[float, float]]] = {
    "asinh": (-np.inf, np.inf), "atan": (-np.inf, np.inf), "tanh": (-np.inf, np.inf),
    "expm1": (-np.inf, np.inf), "log1p": (-1, np.inf), "erf": (-np.inf, np.inf),
    "-erfc": (-np.inf, np.inf), "-erfcx": (-20, np.inf), "ndtr": (-np.inf, np.inf),
    "log_ndtr": (-np.inf, np.inf), "ndtri": (0, 1), "logit": (0, 1), "erfinv": (-1, 1),
    "sigmoid": (-np.inf, np.inf), "softplus": (-np.inf, np.inf), "i0": (0, np.inf),
    "-i0e": (0, np.inf), "-k0": (0, np.inf), "-k0e": (0, np.inf), "-k1e": (0, np.inf),
    "-k1": (0, np.inf), "digamma": (0, np.inf), "cbrt": (-np.inf, np.inf),
}  # fmt: skip
Rng = np.random.Generator
# A relation: how points are drawn, and its two sides.
Side = Callable[[Any], Any]


def _points(rng: Rng, dtype: DType, low: float, high: float) -> Array:
    """Return points of all sizes in a domain, its ends and their neighbours among them."""
    info = np.finfo(dtype.numpy)
    least, most = math.log10(float(info.smallest_subnormal)), math.log10(float(info.max))
    sizes = 10.0 ** rng.uniform(max(least, -320), most, 40)
    some = [*sizes, *rng.uniform(0, 5, 20), *rng.uniform(0, 60, 20), float(info.tiny),
            float(info.smallest_subnormal), float(info.max), 0.0, np.inf]  # fmt: skip
    made = np.array([*some, *np.negative(some)], dtype.numpy)
    for end in (low, high):
        if np.isfinite(end):
            gaps = 10.0 ** rng.uniform(math.log10(float(info.eps)), 0, 8)
            inside = end + gaps if end == low else end - gaps
            made = np.append(made, inside.astype(dtype.numpy))
    # At -0.0 a pole at the end of a domain has its other sign.
    made = made[(made >= low) & (made <= high) & ~(np.signbit(made) & (low == 0))]
    return np.asarray(np.sort(made))


def _beside_poles(rng: Rng) -> Array:
    """Return numbers beside 0, -1, -2, ... at gaps of all sizes."""
    poles = -rng.integers(0, 9, 30)
    gaps = rng.choice((-1.0, 1.0), 30) * 10.0 ** rng.uniform(-9, -0.4, 30)
    tiny = rng.choice((-1.0, 1.0), 10) * 10.0 ** rng.uniform(-300, -9, 10)
    return np.concatenate([poles + gaps, tiny])


def _positive(rng: Rng, most: float = 4.0, least: float = -12.0) -> Array:
    return np.asarray(10.0 ** rng.uniform(least, most, 40))


def _found(name: str) -> Any:
    return getattr(calor, name.lstrip("-"), None) or getattr(calor.special, name.lstrip("-"), None)


def _call(name: str) -> Callable[[Any], Any]:
    """Return a function that is looked up when it is called."""
    return lambda t: _found(name)(t)


def _flushed(place: Place, dtype: DType, points: Array) -> Array:
    if dtype not in place.flushes:
        return points
    return np.asarray(points[(points == 0) | (np.abs(points) >= np.finfo(dtype.numpy).tiny * 4)])


def _forms(dtype: DType, place: Place) -> None:
    """Parity, lines through the origin, and order."""
    rng = np.random.default_rng([place.seed, 191, dtype.itemsize])
    for name in (*_ODD, *_EVEN):
        call = _found(name)
        points = _flushed(place, dtype, _points(rng, dtype, -np.inf, np.inf))
        made, other = (call(calor.asarray(x)).numpy() for x in (points, -points))
        other = -other if name in _ODD else other
        known = ~np.isnan(made)
        wrong = np.isnan(other) == known
        wrong[known] |= made[known].view(f"u{made.itemsize}") != other[known].view(
            f"u{made.itemsize}")  # fmt: skip
        assert not wrong.any(), f"{name} of ±{points[wrong][:3]}: {made[wrong]}, {other[wrong]}"
    for name, slope in _LINES.items():
        points = _points(rng, dtype, -1e-9, 1e-9)
        points = points[np.abs(points) >= np.finfo(dtype.numpy).tiny * 4]
        x = calor.asarray(points)
        ratio = _found(name)(x).numpy().astype(np.float64) / points.astype(np.float64)
        # The square of a point is less than half a last place of 1.
        close = 8e-9 if dtype is float64 else 4e-7
        assert np.allclose(ratio, slope, rtol=close), f"{name} near 0: {ratio}, not {slope}"
        back = _slope(_found(name), x).numpy()
        assert np.allclose(back, slope, rtol=close), (
            f"the slope of {name} near 0: {back}, not {slope}"
        )
    for name, (low, high) in _GROW.items():
        points = _flushed(place, dtype, _points(rng, dtype, low, high))
        made = _found(name)(calor.asarray(points)).numpy()
        made = -made if name.startswith("-") else made
        assert not np.isnan(made).any(), f"{name} of {points[np.isnan(made)]} is NaN"
        # Two neighbours may be a rounding of each other.
        room = (
            np.where(np.isfinite(made[:-1]), np.abs(made[:-1]), 0) * np.finfo(made.dtype).eps * 32
        )
        with np.errstate(all="ignore"):
            falls = made[1:] < made[:-1] - room
        assert not falls.any(), f"{name} falls after {points[:-1][falls]}: {made[:-1][falls]}"


_RELATIONS: Final[dict[str, tuple[Callable[[Rng], Array], Side, Side]]] = {
    "gammaln recurs": (
        _beside_poles, lambda t: calor.special.gammaln(t),
        lambda t: calor.special.gammaln(t + 1) - calor.log(calor.abs(t)),
    ),
    "digamma recurs": (
        _positive, lambda t: calor.special.digamma(t) * t + 1 + t,
        lambda t: calor.special.digamma(t + 1) * t + t,
    ),
    "polygamma recurs": (
        lambda rng: _positive(rng, 3, -3), lambda t: calor.special.polygamma(1, t) * t * t,
        lambda t: calor.special.polygamma(1, t + 1) * t * t + 1,
    ),
    "erf and erfc": (
        lambda rng: rng.normal(size=40) * 3, lambda t: calor.special.erf(t),
        lambda t: 1 - calor.special.erfc(t),
    ),
    "erfcx far out": (
        lambda rng: _positive(rng, 150, 8), lambda t: calor.special.erfcx(t) * t,
        lambda t: t * 0 + 1 / math.sqrt(math.pi),
    ),
    "log_ndtr far out": (
        lambda rng: -_positive(rng, 100, 6), lambda t: calor.special.log_ndtr(t) / t / t,
        lambda t: t * 0 - 0.5,
    ),
    "ndtri and ndtr": (
        lambda rng: -_positive(rng, 1.5, -3), lambda t: calor.special.ndtri(calor.special.ndtr(t)),
        lambda t: t,
    ),
    "Wronskian of i and k": (
        lambda rng: _positive(rng, 6, -8),
        lambda t: (calor.special.i0e(t) * calor.special.k1e(t)
                   + calor.special.i1e(t) * calor.special.k0e(t)) * t,
        lambda t: t * 0 + 1,
    ),
    "Wronskian of j and y": (
        lambda rng: _positive(rng, 2, -8),
        lambda t: (calor.special.j1(t) * calor.special.y0(t)
                   - calor.special.j0(t) * calor.special.y1(t)) * t,
        lambda t: t * 0 + 2 / math.pi,
    ),
    "gammainc and gammaincc": (
        lambda rng: _positive(rng, 3, -6),
        lambda t: calor.special.gammainc(calor.flip(t), t) + calor.special.gammaincc(
            calor.flip(t), t),
        lambda t: t * 0 + 1,
    ),
    "zeta recurs": (
        lambda rng: _positive(rng, 2, -2),
        lambda t: calor.special.zeta(2.5, t) * t**2.5,
        lambda t: calor.special.zeta(2.5, t + 1) * t**2.5 + 1,
    ),
}  # fmt: skip

# Slopes that are functions of the same family, each by a factor that keeps both of size 1.
_SLOPES: Final[dict[str, tuple[Callable[[Rng], Array], Side, Side]]] = {
    "gammaln": (_beside_poles, _call("gammaln"), _call("digamma")),
    "digamma": (lambda rng: _positive(rng, 6, -6), _call("digamma"),
                lambda t: calor.special.polygamma(1, t)),
    "erf": (lambda rng: rng.normal(size=40) * 4, _call("erf"),
            lambda t: calor.exp(-t * t) * (2 / math.sqrt(math.pi))),
    "ndtr": (lambda rng: rng.normal(size=40) * 6, _call("ndtr"),
             lambda t: calor.exp(-t * t / 2) / math.sqrt(2 * math.pi)),
    "log_ndtr": (lambda rng: -_positive(rng, 100, 8), _call("log_ndtr"), lambda t: -t),
    "j0": (lambda rng: _positive(rng, 2, -8), _call("j0"), lambda t: -calor.special.j1(t)),
    "y0": (lambda rng: _positive(rng, 2, -8), _call("y0"), lambda t: -calor.special.y1(t)),
    "i0": (lambda rng: _positive(rng, 2, -8), _call("i0"), lambda t: calor.special.i1(t)),
    "k0": (lambda rng: _positive(rng, 2, -8), _call("k0"), lambda t: -calor.special.k1(t)),
    "k1": (lambda rng: _positive(rng, 2, -8), _call("k1"),
           lambda t: -calor.special.k0(t) - calor.special.k1(t) / t),
    "i1": (lambda rng: _positive(rng, 2, -3), _call("i1"),
           lambda t: calor.special.i0(t) - calor.special.i1(t) / t),
    "asinh": (lambda rng: _positive(rng, 150, -150), calor.asinh,
              lambda t: 1 / calor.hypot(t, t * 0 + 1)),
    "log1p": (lambda rng: _positive(rng, 300, -300), calor.log1p, lambda t: 1 / (1 + t)),
    "entr": (lambda rng: _positive(rng, 100, -300), _call("entr"),
             lambda t: -calor.log(t) - 1),
    "logit": (lambda rng: _positive(rng, -0.5, -300), _call("logit"),
              lambda t: 1 / t / (1 - t)),
    "cbrt": (lambda rng: _positive(rng, 300, -300), calor.cbrt,
             lambda t: calor.cbrt(t) / t / 3),
}  # fmt: skip


def _relations(place: Place) -> None:
    """Relations of functions, and slopes that are other functions."""
    every = [(n, *row) for n, row in _RELATIONS.items()]
    every += [(f"the slope of {n}", p, partial(_slope, f), g) for n, (p, f, g) in _SLOPES.items()]
    for number, (name, draw, left, right) in enumerate(every):
        points = draw(np.random.default_rng([place.seed, 192, number]))
        x = calor.asarray(points)
        with np.errstate(all="ignore"):
            got, want = left(x).numpy(), right(x).numpy()
        scale = np.maximum(np.abs(want), 1e-290)
        near = np.abs(got - want) <= _NEAR * scale + _ROOM.get(name, 0.0)
        assert near.all(), f"{name} at {points[~near][:3]}: {got[~near][:3]}, not {want[~near][:3]}"


# What is lost where both sides are differences of larger numbers.
_ROOM: Final = {
    "digamma recurs": 1e-15,
    "gammaln recurs": 1e-7,
    "erf and erfc": 1e-15,
    "the slope of ndtr": 1e-300,
}


def _slope(function: Callable[[Any], Any], x: Any) -> Any:
    return calor.grad(lambda t: calor.sum(function(t)))(x)


def extreme_points() -> Iterator[Check]:
    """Yield a check of forms of functions in each dtype, and one of relations."""
    if find_spec("calor_special") is None:
        return
    for dtype in (float32, float64):
        yield Check(
            kind="points",
            subject="extremes",
            tier="full",
            contract=CONTRACT,
            run=partial(_forms, dtype),
            text=partial(inspect.getsource, _forms),
            dtype=dtype,
            dtypes=(dtype,),
            op="erf",
        )
    yield Check(
        kind="points",
        subject="relations-of-special-functions",
        tier="full",
        contract=CONTRACT,
        run=_relations,
        text=partial(inspect.getsource, _relations),
        dtypes=(float64,),
        op="erf",
    )
