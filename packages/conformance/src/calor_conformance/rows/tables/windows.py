"""Rows of reductions over sliding windows, and of what their gradients read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..domains import chosen, normal, repeated, well_separated
from ..language import REAL_FLOATS, REALS, Array, Case, case, ulp

TERMS = ulp(4, scale="terms")


def _windows(
    shape: tuple[int, ...], window: Any, stride: Any, padding: Any, dilation: Any
) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
    """Yield the place of each window's result and the places that it sees, in row-major order."""
    rank = len(window)
    lead, sizes = shape[: len(shape) - rank], shape[len(shape) - rank :]
    output = _output(sizes, window, stride, padding, dilation)
    for first in np.ndindex(*lead):
        for at in np.ndindex(*output):
            seen = []
            for k in np.ndindex(*window):
                place = tuple(
                    a * s - lo + d * i
                    for a, s, (lo, _), d, i in zip(at, stride, padding, dilation, k, strict=True)
                )
                if all(0 <= p < n for p, n in zip(place, sizes, strict=True)):
                    seen.append((*first, *place))
            yield (*first, *at), seen


def _output(sizes: Any, window: Any, stride: Any, padding: Any, dilation: Any) -> tuple[int, ...]:
    made = []
    for n, k, s, (lo, hi), d in zip(sizes, window, stride, padding, dilation, strict=True):
        span = n + lo + hi - (d * (k - 1) + 1)
        made.append(span // s + 1 if span >= 0 else 0)
    return tuple(made)


def _result_shape(shape: tuple[int, ...], a: Any) -> tuple[int, ...]:
    rank = len(a["window"])
    lead = shape[: len(shape) - rank]
    return lead + _output(
        shape[len(shape) - rank :], a["window"], a["stride"], a["padding"], a["dilation"]
    )


def _geometry(a: Any) -> tuple[Any, ...]:
    return a["window"], a["stride"], a["padding"], a["dilation"]


def _chosen(x: Array, kind: str, seen: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The places of a window that count: all for sums, the first extreme (or NaN) otherwise."""
    if kind == "sum" or not seen:
        return seen
    best = seen[0]
    for place in seen[1:]:
        v, now = x[place], x[best]
        beats = v > now if kind == "max" else v < now
        if now == now and (v != v or beats):
            best = place
    return [best]


def reduced(x: Array, *, kind: str, **a: Any) -> Array:
    """Each window by itself."""
    made = np.zeros(_result_shape(x.shape, a), x.dtype)
    for at, seen in _windows(x.shape, *_geometry(a)):
        made[at] = sum((x[p] for p in _chosen(x, kind, seen)), start=x.dtype.type(0))
    return made


def _gradient(g: Array, x: Array, *, kind: str, **a: Any) -> Array:
    made = np.zeros(x.shape, g.dtype)
    for at, seen in _windows(x.shape, *_geometry(a)):
        for place in _chosen(x, kind, seen):
            made[place] += g[at]
    return made


def _pick(u: Array, x: Array, *, kind: str, **a: Any) -> Array:
    made = np.zeros(_result_shape(x.shape, a), u.dtype)
    for at, seen in _windows(x.shape, *_geometry(a)):
        made[at] = sum((u[p] for p in _chosen(x, kind, seen)), start=u.dtype.type(0))
    return made


def _wide_sum(function: Any) -> Any:
    """Integers of Python start sums at their own zero."""

    def with_zero(*arrays: Array, **a: Any) -> Array:
        if arrays[0].dtype != object:
            return np.asarray(function(*arrays, **a))
        return np.asarray(function(*[x.astype(np.int64) for x in arrays], **a), object)

    return with_zero


def _terms(first: Array, *_: Array, window: Any, **__: Any) -> Any:
    """The most that a result may be a sum of; which terms those are hangs on the signs."""
    return np.max(np.abs(first), initial=0) * math.prod(window)


def _rows(
    name: str, shape: tuple[int, ...], window: Any, stride: Any, padding: Any, dilation: Any
) -> list[Case]:
    rows = []
    for kind in ("max", "min", "sum"):
        a: dict[str, Any] = {
            "window": window,
            "stride": stride,
            "padding": padding,
            "dilation": dilation,
        }
        g = _result_shape(shape, a)
        common: dict[str, Any] = {
            **a,
            "kind": kind,
            "dtypes": REALS,
            "tol": ulp(4, scale=_terms),
            "name": f"{kind}-{name}",
        }
        rows += [
            case("window_reduce", well_separated(*shape), oracle=_wide_sum(reduced), **common),
            case("window_gradient", normal(*g), well_separated(*shape), oracle=_wide_sum(_gradient),
                 **common),
            case("window_pick", normal(*shape), well_separated(*shape), oracle=_wide_sum(_pick),
                 **common),
        ]  # fmt: skip
    return rows


def _ties(kind: str) -> list[Case]:
    a: dict[str, Any] = {
        "window": (2, 2),
        "stride": (1, 1),
        "padding": ((0, 0),) * 2,
        "dilation": (1, 1),
    }
    common: dict[str, Any] = {
        **a,
        "kind": kind,
        "dtypes": REALS,
        "tol": TERMS,
        "name": f"{kind}-ties",
    }
    reason = "at ties the first is chosen by convention"
    return [
        case("window_gradient", normal(3, 4), repeated(4, 5), oracle=_wide_sum(_gradient),
             no_gradient=reason, **common),
        case("window_pick", normal(4, 5), repeated(4, 5), oracle=_wide_sum(_pick),
             no_gradient=reason, **common),
    ]  # fmt: skip


def _special() -> Iterator[Case]:
    """Numbers that are none stay in the windows that see them."""
    geometry: dict[str, Any] = {"window": (2,), "stride": (1,), "padding": ((1, 1),),
                                "dilation": (1,)}  # fmt: skip
    for kind in ("max", "min", "sum"):
        yield case("window_reduce", chosen(_NONE), oracle=_wide_sum(reduced), kind=kind,
                   dtypes=REAL_FLOATS, tol=TERMS, name=f"{kind}-special",
                   no_gradient="the numbers are not finite", **geometry)  # fmt: skip
    # Of several that are none, and of equal ones, a window takes the first.
    plane: dict[str, Any] = {"window": (2, 3), "stride": (1, 1), "padding": ((1, 0), (0, 1)),
                             "dilation": (1, 1)}  # fmt: skip
    for kind in ("max", "min"):
        common: dict[str, Any] = {
            **plane, "kind": kind, "dtypes": REAL_FLOATS, "tol": TERMS, "name": f"{kind}-several",
            "no_gradient": "the numbers are not finite",
        }  # fmt: skip
        yield case("window_pick", normal(5, 7), chosen(_SEVERAL), oracle=_pick, **common)
        shape = _result_shape((5, 7), plane)
        yield case("window_gradient", normal(*shape), chosen(_SEVERAL), oracle=_gradient, **common)


_N, _I = np.nan, np.inf
_SEVERAL = [[_N, 1.0, _N, 2.0, 2.0, -_I, -_I], [1.0, _N, _N, -_I, 0.0, -_I, -_I],
            [_I, _I, 0.0, -0.0, 0.0, -_I, -_I], [-_I, _I, -0.0, 0.0, _N, _I, _N],
            [3.0, 3.0, -_I, -_I, _I, _N, _N]]  # fmt: skip
_NONE = [[1.0, np.nan, 2.0, 3.0, 4.0, 5.0], [1.0, np.inf, 2.0, -np.inf, 3.0, 4.0],
         [1e4, 1.0, -1e4, 2.0, 3.0, -2.0]]  # fmt: skip

CASES: list[Case] = [
    *_rows("2d", (2, 4, 5), (2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)),
    *_rows("1d", (2, 7), (3,), (2,), ((1, 1),), (1,)),
    *_rows("overlapping", (5, 5), (3, 2), (1, 1), ((1, 1), (0, 1)), (1, 1)),
    *_rows("dilated", (7, 6), (2, 3), (1, 2), ((0, 0), (2, 1)), (3, 2)),
    *_rows("3d", (3, 3, 4), (2, 2, 2), (1, 2, 2), ((0, 1),) * 3, (1, 1, 1)),
    *_rows("lead", (2, 1, 2, 4), (2,), (1,), ((0, 0),), (1,)),
    *_rows("all", (1, 4), (4,), (1,), ((0, 0),), (1,)),
    *_rows("no-places", (1, 0), (3,), (1,), ((0, 0),), (1,)),
    *_rows("empty", (0, 4), (2,), (2,), ((0, 0),), (1,)),
    *_ties("max"),
    *_ties("min"),
    *_special(),
]
