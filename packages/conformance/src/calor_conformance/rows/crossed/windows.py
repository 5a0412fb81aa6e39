"""Convolutions and windows: stride, padding, dilation and groups by pairs, in every rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from calor.dtypes import DType, bfloat16, float16, float32, float64, int8
from calor.ops.base import find

from ..language import NUMBERS, REALS, Array, Tolerance
from .drawing import whole
from .language import Problem, Subject, one, wide
from .orders import ORDERS
from .pairwise import Scenario

_EXACT = Tolerance(0.5, 1)


def _geometry(
    scenario: Scenario, rng: np.random.Generator
) -> tuple[tuple[int, ...], dict[str, Any]] | None:
    """Return the spatial sizes and the attributes; one axis has the scenario's, others their own.

    None if no window fits.
    """
    rank = scenario["spatial"]
    main = int(rng.integers(rank))
    sizes, window, stride, padding, dilation = [], [], [], [], []
    for a in range(rank):
        if a == main:
            n, k = scenario["length"], scenario["window"]
            s, d, p = scenario["stride"], scenario["dilation"], scenario["padding"]
        else:
            n, k = int(rng.integers(3, 9)), int(rng.integers(1, 4))
            s, d = (int(v) for v in rng.integers(1, 4, 2))
            p = tuple(int(v) for v in rng.integers(0, 3, 2))
        if n + sum(p) < (k - 1) * d + 1:
            return None
        sizes.append(n)
        window.append(k)
        stride.append(s)
        padding.append(tuple(p))
        dilation.append(d)
    return tuple(sizes), {
        "window": tuple(window),
        "stride": tuple(stride),
        "padding": tuple(padding),
        "dilation": tuple(dilation),
    }


def _taps(sizes: tuple[int, ...], how: dict[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield each place in the window, the windows that see an element, and what they see."""
    counts = outputs(sizes, how)
    for tap in product(*map(range, how["window"])):
        seeing, seen = [], []
        for k, n, m, s, (low, _), d in zip(
            tap, sizes, counts, how["stride"], how["padding"], how["dilation"], strict=True
        ):
            # Window i sees element i · s + k · d − low.
            off = k * d - low
            first = max(-(off // s), 0)
            last = min((n - 1 - off) // s, m - 1)
            stop = max(last + 1, first)
            seeing.append(slice(first, stop))
            start = first * s + off
            seen.append(slice(start, start + (stop - first) * s, s) if stop > first else slice(0))
        yield tap, tuple(seeing), tuple(seen)


def outputs(sizes: tuple[int, ...], how: dict[str, Any]) -> tuple[int, ...]:
    """Return how many windows there are along each axis."""
    every = zip(sizes, how["window"], how["stride"], how["padding"], how["dilation"], strict=True)
    return tuple((n + lo + hi - (k - 1) * d - 1) // s + 1 for n, k, s, (lo, hi), d in every)


def _at(places: Any) -> Any:
    return (..., *places)


def _tap(tap: Any) -> Any:
    return (slice(None), slice(None), *tap)


def _made(x: Array) -> Array:
    return x.astype(np.int64) if x.dtype.kind in "biu" else wide(x)


def convolved(x: Array, w: Array, how: dict[str, Any], groups: int) -> Array:
    """Return sums of products of windows of the last axes with weights of groups of channels."""
    batch, sizes = x.shape[0], x.shape[2:]
    made = np.zeros((batch, w.shape[0], *outputs(sizes, how)), _made(x).dtype)
    parts = zip(*(np.split(a, groups, axis) for a, axis in ((_made(x), 1), (_made(w), 0),
                                                           (made, 1))), strict=True)  # fmt: skip
    for a, b, c in parts:
        for tap, seeing, seen in _taps(sizes, how):
            c[_at(seeing)] += np.einsum("nc...,oc->no...", a[_at(seen)], b[_tap(tap)])
    return made


def _input_gradient(
    g: Array, w: Array, shape: tuple[int, ...], how: dict[str, Any], groups: int
) -> Array:
    made = np.zeros(shape, _made(g).dtype)
    parts = zip(*(np.split(a, groups, axis) for a, axis in ((_made(g), 1), (_made(w), 0),
                                                           (made, 1))), strict=True)  # fmt: skip
    for a, b, c in parts:
        for tap, seeing, seen in _taps(shape[2:], how):
            c[_at(seen)] += np.einsum("no...,oc->nc...", a[_at(seeing)], b[_tap(tap)])
    return made


def _weight_gradient(
    x: Array, g: Array, shape: tuple[int, ...], how: dict[str, Any], groups: int
) -> Array:
    made = np.zeros(shape, _made(x).dtype)
    parts = zip(*(np.split(a, groups, axis) for a, axis in ((_made(x), 1), (_made(g), 1),
                                                           (made, 0))), strict=True)  # fmt: skip
    for a, b, c in parts:
        for tap, seeing, seen in _taps(x.shape[2:], how):
            seen_by, told = a[_at(seen)], b[_at(seeing)]
            c[_tap(tap)] += np.einsum(
                "nck,nok->oc",
                seen_by.reshape(*seen_by.shape[:2], -1),
                told.reshape(*told.shape[:2], -1),
            )
    return made


def _layer(scenario: Scenario) -> tuple[tuple[int, ...], dict[str, Any], tuple[int, int, int]]:
    """Return the sizes, attributes and groups of a layer of a network: alike along each axis."""
    rank, k, d = scenario["spatial"], scenario["window"], scenario["dilation"]
    # Three axes have as many elements as two.
    side = scenario["side"] if rank < 3 else max(scenario["side"] // 4, k * d)
    room = (k - 1) * d // 2 if scenario["same"] else 0
    sides = (side,) * (rank - 1) + (side + (k - 1) * d,)
    how = {
        "window": (k,) * rank,
        "stride": (scenario["stride"],) * rank,
        "padding": ((room, room),) * rank,
        "dilation": (d,) * rank,
    }
    inner, outer = scenario["channels"]
    if scenario["grouping"] == "depthwise":
        return sides, how, (inner, 1, 1 if outer <= inner else 2)
    groups = 2 if scenario["grouping"] == "two" and inner % 2 == 0 and outer % 2 == 0 else 1
    return sides, how, (groups, inner // groups, outer // groups)


def _conv(which: str) -> Any:
    def build(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem | None:
        if "channels" in scenario:
            sizes, how, (groups, inner, outer) = _layer(scenario)
            if any(
                n + sum(p) < (k - 1) * d + 1
                for n, k, d, p in zip(
                    sizes, how["window"], how["dilation"], how["padding"], strict=True
                )
            ):
                return None
        else:
            found = _geometry(scenario, rng)
            if found is None:
                return None
            sizes, how = found
            groups, inner, outer = scenario["groups"]
        x_shape = (scenario["batch"], groups * inner, *sizes)
        w_shape = (groups * outer, inner, *how["window"])
        g_shape = (scenario["batch"], groups * outer, *outputs(sizes, how))
        most = 1e8 if "channels" in scenario and dtype is float32 else 4e7
        if np.prod([float(n) for n in g_shape]) * np.prod(w_shape[1:]) > most:
            return None
        given = {k: v for k, v in how.items() if k != "window"} | {"groups": groups}
        x, w, g = (whole(rng, dtype, s, 2) for s in (x_shape, w_shape, g_shape))
        if which == "conv":
            return one([x, w], lambda a, b: find(which)(a, b, **given),
                       lambda a, b: convolved(a, b, how, groups), tol=_EXACT,
                       zeros=False)  # fmt: skip
        if which == "conv_input_gradient":
            return one([g, w], lambda a, b: find(which)(a, b, input_shape=x_shape, **given),
                       lambda a, b: _input_gradient(a, b, x_shape, how, groups), tol=_EXACT,
                       zeros=False)  # fmt: skip
        return one([x, g], lambda a, b: find(which)(a, b, weight_shape=w_shape, **given),
                   lambda a, b: _weight_gradient(a, b, w_shape, how, groups), tol=_EXACT,
                   zeros=False)  # fmt: skip

    return build


_BEATS: dict[str, Callable[[Array, Array], Array]] = {
    "max": lambda a, b: a > b,
    "min": lambda a, b: a < b,
}


def _chosen(x: Array, how: dict[str, Any], kind: str) -> tuple[Array, Array]:
    """Return the extreme of each window and the number of its place, −1 where all is padding."""
    spatial = len(how["window"])
    sizes = x.shape[x.ndim - spatial :]
    shape = (*x.shape[: x.ndim - spatial], *outputs(sizes, how))
    best, number = np.zeros(shape, x.dtype), np.full(shape, -1)
    for n, (_, seeing, seen) in enumerate(_taps(sizes, how)):
        at = _at(seeing)
        value, now = x[_at(seen)], best[at]
        better = (number[at] < 0) | _BEATS[kind](value, now) | ((value != value) & (now == now))
        best[at] = np.where(better, value, now)
        number[at] = np.where(better, n, number[at])
    return best, number


def _reduce(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem | None:
    found = _windows(scenario, rng, dtype)
    if found is None:
        return None
    x, how, kind = found

    return one([x], lambda t: find("window_reduce")(t, kind=kind, **how),
               lambda a: pooled(a, how, kind), tol=_EXACT, zeros=False)  # fmt: skip


def pooled(a: Array, how: dict[str, Any], kind: str) -> Array:
    """Return the sum or an extreme of each window of the last axes."""
    if kind != "sum":
        best, number = _chosen(a, how, kind)
        least = _identity(kind, a.dtype)
        return np.where(number < 0, least, best).astype(a.dtype)
    spatial = len(how["window"])
    sizes = a.shape[a.ndim - spatial :]
    made = np.zeros((*a.shape[: a.ndim - spatial], *outputs(sizes, how)), _made(a).dtype)
    for _, seeing, seen in _taps(sizes, how):
        made[_at(seeing)] += _made(a)[_at(seen)]
    return made


def _identity(kind: str, dtype: Any) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if kind == "max" else np.iinfo(dtype).max
    return np.asarray(-np.inf if kind == "max" else np.inf).astype(dtype)


def _windows(
    scenario: Scenario, rng: np.random.Generator, dtype: DType
) -> tuple[Array, dict[str, Any], str] | None:
    found = _geometry(scenario, rng)
    if found is None:
        return None
    sizes, how = found
    # A window of nothing but padding has no extreme.
    if any(max(p) > (k - 1) * d for p, k, d in zip(how["padding"], how["window"],
                                                 how["dilation"], strict=True)):  # fmt: skip
        return None
    lead = [int(k) for k in rng.integers(1, 4, (scenario["lead"],))]
    return whole(rng, dtype, (*lead, *sizes), 40), how, scenario["kind"]


def _window_gradient(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem | None:
    found = _windows(scenario, rng, dtype)
    if found is None:
        return None
    x, how, kind = found
    spatial = len(how["window"])
    sizes = x.shape[x.ndim - spatial :]
    g = whole(rng, dtype, (*x.shape[: x.ndim - spatial], *outputs(sizes, how)), 3)

    def meaning(u: Array, a: Array) -> Array:
        made = np.zeros(a.shape, _made(u).dtype)
        number = None if kind == "sum" else _chosen(a, how, kind)[1]
        for n, (_, seeing, seen) in enumerate(_taps(sizes, how)):
            part = _made(u)[_at(seeing)]
            if number is not None:
                part = np.where(number[_at(seeing)] == n, part, 0)
            made[_at(seen)] += part
        return made

    return one([g, x], lambda u, t: find("window_gradient")(u, t, kind=kind, **how), meaning,
               tol=_EXACT, zeros=False)  # fmt: skip


def _window_pick(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem | None:
    found = _windows(scenario, rng, dtype)
    if found is None:
        return None
    x, how, kind = found
    if kind == "sum":
        return None
    u = whole(rng, dtype, x.shape, 40)
    spatial = len(how["window"])
    sizes = x.shape[x.ndim - spatial :]

    def meaning(v: Array, a: Array) -> Array:
        _, number = _chosen(a, how, kind)
        made = np.zeros(number.shape, v.dtype)
        for n, (_, seeing, seen) in enumerate(_taps(sizes, how)):
            at = _at(seeing)
            made[at] = np.where(number[at] == n, v[_at(seen)], made[at])
        return made

    return one([u, x], lambda v, t: find("window_pick")(v, t, kind=kind, **how), meaning)


_WINDOW: dict[str, Any] = {
    "spatial": (2, 1, 3),
    "length": (9, 7, 33, 130),
    "window": (3, 1, 2, 5),
    "stride": (1, 2, 3),
    "padding": ((0, 0), (1, 1), (2, 0), (0, 3), (4, 4)),
    "dilation": (1, 2, 3),
    "order": ORDERS,
}
_CONV: dict[str, Any] = {
    **_WINDOW,
    "batch": (1, 3),
    "groups": ((1, 3, 4), (1, 16, 16), (2, 2, 3), (5, 1, 1), (4, 1, 3), (1, 1, 1)),
}
# Layers of networks: many channels, and windows, strides and images alike along each axis.
_LAYER: dict[str, Any] = {
    "spatial": (2, 1, 3),
    "side": (14, 7, 28, 33, 56),
    "window": (3, 1, 5, 7, 2),
    "stride": (1, 2),
    "dilation": (1, 2),
    "same": (True, False),
    "channels": ((16, 32), (3, 16), (64, 64), (32, 8), (24, 40), (1, 8), (96, 130)),
    "grouping": ("none", "depthwise", "two"),
    "batch": (1, 2, 5),
}
_LAYERS = tuple(d for d in (float32, bfloat16, float16, int8, float64) if d in NUMBERS)
_POOL: dict[str, Any] = {**_WINDOW, "lead": (2, 0, 1, 3), "kind": ("max", "min", "sum")}
_FAR: dict[str, Any] = {"length": (1025, 65_537)}
_NUMBERS = tuple(sorted(NUMBERS, key=lambda d: d.name != "float32"))
_REALS = tuple(sorted(REALS, key=lambda d: d.name != "float32"))

SUBJECTS: list[Subject] = [
    *(
        Subject(op, _conv(op), _NUMBERS, _CONV, _FAR, differentiable=True)
        for op in ("conv", "conv_input_gradient", "conv_weight_gradient")
    ),
    *(
        Subject(op, _conv(op), _LAYERS, _LAYER, name="layer")
        for op in ("conv", "conv_input_gradient", "conv_weight_gradient")
    ),
    Subject("window_reduce", _reduce, _REALS, _POOL, _FAR),
    Subject("window_gradient", _window_gradient, _REALS, _POOL, _FAR),
    Subject("window_pick", _window_pick, _REALS, _POOL, _FAR),
]
