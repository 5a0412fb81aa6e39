"""Special functions over their whole domains beside SciPy: sizes of every decade, poles and ones.

A function joins formulas of several parts of its domain, each with its own digits. Arguments are
drawn by decades of either sign, at distances of every octave from zeros, poles and ends, and in
between; results are compared relative to themselves, with what a few roundings of an argument
change.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import DType, float32, float64

from ..rows.language import limits_of
from .base import Array, Check, Place

CONTRACT: Final = "a special function keeps its digits over its whole domain"
PACKAGE: Final = "calor_special"
_COUNT: Final = 60
_ROOM: Final = 96
_STEPS: Final = 16
Rng = np.random.Generator
Draw = Callable[[Rng, int], Array]


def _sizes(low: float, high: float, *, signs: bool = False) -> Draw:
    """Draw sizes between powers of 10."""

    def draw(rng: Rng, n: int) -> Array:
        size = 10 ** rng.uniform(low, high, n)
        return np.asarray(size * rng.choice((-1, 1), n) if signs else size)

    return draw


def _between(low: float, high: float) -> Draw:
    return lambda rng, n: rng.uniform(low, high, n)


def _beside(*places: float, sides: tuple[int, ...] = (-1, 1)) -> Draw:
    """Draw numbers at distances of every octave from places."""

    def draw(rng: Rng, n: int) -> Array:
        far = np.ldexp(rng.uniform(1, 2, n), -rng.integers(2, 40, n))
        return np.asarray(rng.choice(places, n) + far * rng.choice(sides, n))

    return draw


def _whole(low: int, high: int) -> Draw:
    return lambda rng, n: rng.integers(low, high + 1, n).astype(float)


def _shapes(low: float, high: float) -> Callable[[Rng, int], list[Array]]:
    """Draw shapes, and arguments beside and far from them."""

    def draw(rng: Rng, n: int) -> list[Array]:
        a = 10 ** rng.uniform(low, high, n)
        far = 10 ** rng.uniform(-3, 1.3, n)
        ways = [a * far, np.maximum(a, 0.05) * far, rng.uniform(0, 3, n)]
        return [a, np.asarray(np.choose(rng.integers(3, size=n), ways))]

    return draw


class _Of(NamedTuple):
    """A function: its name in SciPy, and the ways to draw each of its arguments."""

    due: str
    draws: tuple[tuple[Draw, ...], ...]
    order: tuple[int, int] | None = None


_ALL: Final = (_sizes(-8, 2, signs=True), _between(-6, 6))
_UP: Final = (_sizes(-8, 2), _between(0.1, 9))
_SHARE: Final = (_sizes(-30, -0.4), _beside(1.0, sides=(-1,)), _between(0.02, 0.98))
_ENDS: Final = (_between(-1, 1), _beside(-1.0, 0.0, 1.0), _between(-1.3, 1.3))
_GAMMA: Final = (
    _sizes(-8, 5), _beside(1.0, 2.0), _beside(-1.0, -2.0, -3.0), _between(-9, 9), _between(0.5, 4),
)  # fmt: skip
FUNCTIONS: Final[dict[str, _Of]] = {
    "betaln": _Of("betaln", ((_sizes(-6, 2), _between(0.1, 9)),) * 2),
    "digamma": _Of("digamma", (_GAMMA,)),
    # Beside its zeros at 1 and 2 SciPy loses digits.
    "gammaln": _Of("gammaln", (_GAMMA[:1] + _GAMMA[2:],)),
    "entr": _Of("entr", ((*_UP, _beside(1.0)),)),
    "erf": _Of("erf", (_ALL,)), "erfc": _Of("erfc", ((_between(-5, 9), *_ALL),)),
    "erfcx": _Of("erfcx", ((_sizes(-8, 8), _between(-4, 30)),)),
    "erfinv": _Of("erfinv", ((_sizes(-20, -0.1, signs=True), _beside(1.0, sides=(-1,)),
                              _beside(-1.0, sides=(1,)), _between(-0.99, 0.99)),)),
    "i0": _Of("i0", (_ALL,)), "i0e": _Of("i0e", ((*_ALL, _sizes(0, 6)),)),
    "i1": _Of("i1", (_ALL,)), "i1e": _Of("i1e", ((*_ALL, _sizes(0, 6)),)),
    "j0": _Of("j0", ((_sizes(-8, 0.5), _between(-30, 30)),)),
    "j1": _Of("j1", ((_sizes(-8, 0.5), _between(-30, 30)),)),
    "k0": _Of("k0", ((_sizes(-20, 1.7), _between(0.5, 9)),)),
    "k1": _Of("k1", ((_sizes(-20, 1.7), _between(0.5, 9)),)),
    "k0e": _Of("k0e", ((_sizes(-20, 6), _between(0.5, 9)),)),
    "k1e": _Of("k1e", ((_sizes(-20, 6), _between(0.5, 9)),)),
    "y0": _Of("y0", ((_sizes(-20, 0.5), _between(0.1, 30)),)),
    "y1": _Of("y1", ((_sizes(-20, 0.5), _between(0.1, 30)),)),
    "log_ndtr": _Of("log_ndtr", ((_between(-9, 9), _sizes(-8, 4, signs=True)),)),
    "logit": _Of("logit", (_SHARE,)), "ndtri": _Of("ndtri", (_SHARE,)),
    "ndtr": _Of("ndtr", ((_between(-9, 9), _sizes(-8, 1, signs=True)),)),
    "spherical_j0": _Of("", (_ALL,)),
    "xlog1py": _Of("xlog1py", (_ALL, (_sizes(-20, 5), _beside(-1.0, sides=(1,)), _beside(0.0)))),
    "xlogy": _Of("xlogy", (_ALL, (_sizes(-20, 5), _beside(1.0)))),
    "zeta": _Of("zeta", ((_beside(1.0, sides=(1,)), _between(1.2, 30), _whole(2, 9)),
                         (_sizes(-2, 4), _between(0.5, 9)))),
    "multigammaln": _Of("multigammaln", ((_between(2.1, 40), _sizes(1, 5)),), (1, 4)),
    "polygamma": _Of("polygamma", ((_sizes(-1, 0.7), _between(0.2, 9), _between(-4, 0)),), (0, 26)),
    **{f"{kind}_polynomial_{letter}": _Of(due, (_ENDS,), (0, 24)) for kind, letter, due in (
        ("chebyshev", "t", "eval_chebyt"), ("chebyshev", "u", "eval_chebyu"),
        ("hermite", "h", "eval_hermite"), ("hermite", "he", "eval_hermitenorm"),
        ("laguerre", "l", "eval_laguerre"), ("legendre", "p", "eval_legendre"),
        ("shifted_chebyshev", "t", "eval_sh_chebyt"),
        ("shifted_chebyshev", "u", "eval_sh_chebyu"))},
}  # fmt: skip
# Pairs of which the second argument follows the first.
_PAIRS: Final = {"gammainc": _shapes(-8, 3.5), "gammaincc": _shapes(-8, 3.5)}
# Polynomials, whose sums of terms of both signs lose what a term has more than the sum.
_ENDINGS: Final = tuple(f"_polynomial_{letter}" for letter in ("t", "u", "h", "he", "l", "p"))


def _drawn(name: str, rng: Rng) -> list[Array]:
    if name in _PAIRS:
        return _PAIRS[name](rng, _COUNT)
    made = []
    for draws in FUNCTIONS[name].draws:
        way = rng.integers(len(draws), size=_COUNT)
        every = np.stack([draw(rng, _COUNT) for draw in draws])
        made.append(np.take_along_axis(every, way[None], 0)[0])
    return made


def _due(name: str, order: int | None, given: list[Array]) -> Array:
    special = import_module("scipy.special")
    wide = [x.astype(np.float64) for x in given]
    with np.errstate(all="ignore"):
        if name == "spherical_j0":
            return np.asarray(np.sinc(wide[0] / np.pi))
        function = getattr(special, FUNCTIONS[name].due if name in FUNCTIONS else name)
        if order is None:
            return np.asarray(function(*wide))
        return np.asarray(function(wide[0], order) if name == "multigammaln"
                          else function(order, wide[0]))  # fmt: skip


def _call(name: str, order: int | None, *given: Any) -> Any:
    function = getattr(calor.special, name)
    if order is None:
        return function(*given)
    return function(order, *given) if name == "polygamma" else function(*given, order)


def _run(name: str, dtype: DType, place: Place) -> None:
    rng = np.random.default_rng([place.seed, crc32(name.encode()), dtype.itemsize])
    limits, orders = limits_of(dtype.numpy), FUNCTIONS[name].order if name in FUNCTIONS else None
    eps = float(limits.eps)
    for _ in range(12 if orders else 2):
        order = None if orders is None else int(rng.integers(orders[0], orders[1] + 1))
        given = [x.astype(dtype.numpy) for x in _drawn(name, rng)]
        exact = _due(name, order, given)
        moved = np.zeros_like(exact)
        for k, x in enumerate(given):
            wide = [*map(np.asarray, given)]
            # Sums of terms begin with a sum of the argument and a number of the order of 1.
            by = np.maximum(np.abs(x), 1.0) if name.endswith(_ENDINGS) else np.abs(x)
            wide[k] = x.astype(np.float64) + 2 * eps * by.astype(np.float64)
            with np.errstate(invalid="ignore"):
                moved += np.abs(_due(name, order, wide) - exact) / 2
        size = np.abs(exact)
        kept = np.isfinite(exact) & np.isfinite(moved) & (size < float(limits.max) / 64)
        kept &= size > 64 * float(limits.tiny)
        tensors = map(calor.asarray, given)
        got = place.call(partial(_call, name, order), *tensors).numpy().astype(np.float64)
        given, exact, got = [x[kept] for x in given], exact[kept], got[kept]
        size = size[kept]
        scale = np.maximum(size, np.median(size)) if name.endswith(_ENDINGS) else size
        # A logarithm of an exponent has roundings of its own, and SciPy rounds as well.
        within = (_ROOM + 2 * np.abs(np.log(size))) * eps * scale + _STEPS * moved[kept]
        within += 4e-12 * scale
        if name in _PAIRS:
            # An exponent is a small difference of terms of the size of the arguments.
            within += 8 * eps * np.maximum(*map(np.abs, given)).astype(np.float64) * scale
        off = np.abs(got - exact)
        if not (off <= within).all():
            at = int(np.argmax(np.where(np.isfinite(off), off / within, np.inf)))
            arguments = ", ".join(repr(x[at]) for x in given)
            told = "" if order is None else f" of order {order}"
            raise AssertionError(
                f"{name}{told} in {dtype} at {arguments} is {got[at]!r}, not {exact[at]!r}: "
                f"{off[at] / size[at]:.2g} of it, {within[at] / size[at]:.2g} allowed"
            )


def special_decades() -> Iterator[Check]:
    """Yield a check of each function in both wide dtypes, if both packages are installed."""
    if find_spec(PACKAGE) is None or find_spec("scipy") is None:
        return
    for name in (*FUNCTIONS, *_PAIRS):
        for dtype in (float32, float64):
            yield Check(
                kind="accuracy",
                subject=f"decades-{name}",
                tier="full",
                contract=CONTRACT,
                run=partial(_run, name, dtype),
                text=partial(inspect.getsource, _run),
                dtype=dtype,
                dtypes=(dtype,),
                looks=True,
            )
