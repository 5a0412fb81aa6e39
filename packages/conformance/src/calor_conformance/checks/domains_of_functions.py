"""Special functions where arguments of each sign and kind cross: numbers, infinities or NaN.

A function of several arguments is defined by cases: of signs, of whole and fractional numbers, of
zeros of either sign, of ends and of values that are no number. Each argument has some of each kind,
drawn, and all are crossed with all of the others; a result is NaN, an infinity or a number where it
should be, and roughly that number. The accuracy of numbers is asked elsewhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import DType, float32, float64

from .base import Array, Check, Place
from .special_decades import _PAIRS, FUNCTIONS, PACKAGE, _call, _due

CONTRACT: Final = "a special function is a number, infinite or NaN where its definition says so"
_NEAR: Final = 2e-3
# Orders whose polynomials and derivatives are small numbers at all drawn arguments.
_ORDERS: Final = 4
# Zeros, and what lies at the ends of domains.
_ENDS: Final = (-1.0, -0.0, 0.0, 1.0, 2.0)
_SPECIAL: Final = (-np.inf, np.inf, np.nan)
Rng = np.random.Generator
Meaning = Callable[..., Any]


def _found(name: str) -> Any:
    return getattr(import_module("scipy.special"), name)


def _third(x: Array, n: int) -> Array:
    below = _found("eval_chebyu")(n - 1, x) if n else np.zeros_like(x)
    return np.asarray(_found("eval_chebyu")(n, x) - below)


def _fourth(x: Array, n: int) -> Array:
    below = _found("eval_chebyu")(n - 1, x) if n else np.zeros_like(x)
    return np.asarray(_found("eval_chebyu")(n, x) + below)


def _multigammaln(x: Array, d: int) -> Array:
    terms = sum(_found("gammaln")(x - j / 2) for j in range(d))
    return np.asarray(terms + d * (d - 1) / 4 * np.log(np.pi))


# Functions that have no decades: how many arguments they have besides an order, and their meaning.
OTHERS: Final[dict[str, tuple[int, bool, Meaning]]] = {
    "airy_ai": (1, False, lambda x: _found("airy")(x)[0]),
    "logaddexp2": (2, False, np.logaddexp2),
    "sinc": (1, False, np.sinc),
    "multigammaln": (1, True, _multigammaln),
    "chebyshev_polynomial_v": (1, True, _third), "chebyshev_polynomial_w": (1, True, _fourth),
    "shifted_chebyshev_polynomial_v": (1, True, lambda x, n: _third(2 * x - 1, n)),
    "shifted_chebyshev_polynomial_w": (1, True, lambda x, n: _fourth(2 * x - 1, n)),
}  # fmt: skip
# Limits at −∞ and ∞ where SciPy has NaN or another pole.
_LIMITS: Final[dict[str, tuple[float, float]]] = {
    "airy_ai": (0, 0), "gammaln": (np.inf, np.inf), "i0": (np.inf, np.inf),
    "i1": (-np.inf, np.inf), "j0": (0, 0), "j1": (0, 0), "spherical_j0": (0, 0),
    "y0": (np.nan, 0), "y1": (np.nan, 0),
}  # fmt: skip
# A derivative by a shape has no domain of its own: it is that of the function.
WITHOUT: Final = frozenset(("gammainc_slope",))


def _drawn(rng: Rng, limits: bool) -> Array:
    """Return numbers of each kind: whole and fractional, of either sign, small, ends and limits."""
    whole = rng.permutation(np.arange(2, 9))[:2]
    parts = rng.integers(0, 7, 3) + rng.uniform(0.1, 0.9, 3)
    halves = rng.integers(0, 7, 1) + 0.5
    inside = rng.uniform(0.02, 0.98, 2)
    sized = np.concatenate([whole, parts, halves, inside])
    special = _SPECIAL if limits else (np.nan,)
    return np.concatenate([sized, -sized, _ENDS, special])


def _wanted(name: str, order: int | None, given: list[Array]) -> Array:
    with np.errstate(all="ignore"):
        if name in OTHERS:
            made = OTHERS[name][2](*given, *(() if order is None else (order,)))
        else:
            made = _due(name, order, given)
    if name in _LIMITS:
        low, high = _LIMITS[name]
        made = np.where(np.isinf(given[0]), np.where(given[0] < 0, low, high), made)
    return np.asarray(made)


def _kinds(values: Array) -> Array:
    """Return 0 of numbers, 2 of NaN, and the sign of infinities."""
    return np.where(np.isnan(values), 2, np.where(np.isinf(values), np.sign(values), 0))


def _orders(name: str) -> list[int | None]:
    if name in OTHERS:
        first = 1 if name == "multigammaln" else 0
        return [*range(first, _ORDERS)] if OTHERS[name][1] else [None]
    found = FUNCTIONS[name].order if name in FUNCTIONS else None
    return [None] if found is None else [*range(found[0], _ORDERS)]


def _count(name: str) -> int:
    return OTHERS[name][0] if name in OTHERS else 2 if name in _PAIRS else len(
        FUNCTIONS[name].draws)  # fmt: skip


def _run(name: str, dtype: DType, place: Place) -> None:
    rng = np.random.default_rng([place.seed, 417, crc32(name.encode()), dtype.itemsize])
    for order in _orders(name):
        # A polynomial of an infinity is no limit: its terms of both signs are infinite.
        drawn = [_drawn(rng, name != "betaln" and order is None).astype(dtype.numpy)
                 for _ in range(_count(name))]  # fmt: skip
        given = [x.ravel() for x in np.meshgrid(*drawn, indexing="ij")]
        if name == "zeta":
            # Two limits in one have no order.
            given = [x[np.isfinite(given[1]) & np.isfinite(given[0])] for x in given]
        elif name == "betaln":
            known = ~np.isnan(given[0]) & ~np.isnan(given[1])
            given = [x[known] for x in given]
        want = _wanted(name, order, [x.astype(np.float64) for x in given])
        with np.errstate(over="ignore"):
            want = want.astype(dtype.numpy).astype(np.float64)
        made = place.call(partial(_call, name, order), *map(calor.asarray, given))
        got = made.numpy().astype(np.float64)
        finite = np.isfinite(want) & np.isfinite(got)
        off = np.where(finite, np.abs(np.where(finite, got, 0) - np.where(finite, want, 0)), 0)
        wrong = (_kinds(got) != _kinds(want)) | (off > _NEAR * np.maximum(np.abs(want), 1))
        if order == 0:
            # The polynomial of degree 0 is 1, whatever its argument is.
            wrong &= ~np.isnan(given[0])
        if wrong.any():
            at = int(np.argmax(wrong))
            arguments = ", ".join(repr(x[at]) for x in given)
            told = "" if order is None else f" of order {order}"
            raise AssertionError(
                f"{name}{told} in {dtype} at {arguments} is {got[at]!r}, not {want[at]!r}; "
                f"so are {int(wrong.sum())} of {wrong.size}"
            )


def names() -> list[str]:
    """Return the functions that are asked."""
    return [*FUNCTIONS, *_PAIRS, *(n for n in OTHERS if n not in FUNCTIONS)]


def domains_of_functions() -> Iterator[Check]:
    """Yield a check of each function in both wide dtypes, if both packages are installed."""
    if find_spec(PACKAGE) is None or find_spec("scipy") is None:
        return
    for name in names():
        for dtype in (float32, float64):
            yield Check(
                kind="accuracy",
                subject=f"domains-{name}",
                tier="full",
                contract=CONTRACT,
                run=partial(_run, name, dtype),
                text=partial(inspect.getsource, _run),
                dtype=dtype,
                dtypes=(dtype,),
                looks=True,
            )
