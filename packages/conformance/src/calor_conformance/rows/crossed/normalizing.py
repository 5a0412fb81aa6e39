"""Kept composites along rows: large numbers in the last lanes, masks, rows beyond registers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType
from calor.ops.base import find

from ..language import REAL_FLOATS, Array, Tolerance
from ..tables import attention as oracle
from .drawing import places
from .language import LENGTHS, Problem, Subject, one, shape_of, wide
from .orders import ORDERS
from .pairwise import Scenario

_DTYPES = tuple(sorted(REAL_FLOATS, key=lambda d: d.name != "float32"))


def _rows(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> tuple[Array, int]:
    shape, axis = shape_of(scenario, rng)
    x = rng.normal(0.0, 2.0, shape) + scenario["offset"]
    large = scenario["large"]
    if large != 0.0:
        at = places(scenario["position"], shape[axis], rng)
        x = np.moveaxis(x, axis, 0).copy()
        x[at] = large
        x = np.moveaxis(x, 0, axis)
    return np.ascontiguousarray(x).astype(dtype.numpy), axis


def _exponentials(x: Array, axis: int) -> tuple[Array, Array]:
    moved = wide(x)
    moved = moved - np.max(moved, axis, keepdims=True)
    powers = np.exp(moved)
    return moved, powers / powers.sum(axis, keepdims=True)


def _softmax(op: str) -> Any:
    def build(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
        x, axis = _rows(scenario, rng, dtype)

        def meaning(a: Array) -> Array:
            moved, shares = _exponentials(a, axis)
            if op == "softmax":
                return np.asarray(shares)
            return np.asarray(moved - np.log(np.exp(moved).sum(axis, keepdims=True)))

        def scale(a: Array) -> Array:
            if op == "log_softmax":
                return np.asarray(np.maximum(1.0, np.abs(meaning(a))))
            # Beside the largest share, an exponent's rounding counts as often as it is large.
            near = np.maximum(1.0, np.abs(_exponentials(a, axis)[0]))
            return np.asarray(meaning(a) * near)

        return one([x], lambda t: find(op)(t, axis=axis), meaning, tol=Tolerance(16, 2),
                   scale=scale, zeros=False)  # fmt: skip

    return build


def _norm(op: str) -> Any:
    def build(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
        x, axis = _rows({**scenario, "large": 0.0}, rng, dtype)
        eps = 1e-3

        def meaning(a: Array) -> Array:
            v = wide(a)
            if op == "standardize":
                v = v - v.mean(axis, keepdims=True)
            return np.asarray(v / np.sqrt((v * v).mean(axis, keepdims=True) + eps))

        def scale(a: Array) -> Array:
            # The mean is rounded as a number of the size of the elements is.
            size = np.abs(wide(a)).max(axis, keepdims=True, initial=0.0)
            v = wide(a) - wide(a).mean(axis, keepdims=True)
            spread = np.sqrt((v * v).mean(axis, keepdims=True) + eps)
            return np.asarray(np.maximum(np.abs(meaning(a)), size / spread) * np.ones(a.shape))

        return one([x], lambda t: find(op)(t, axes=(axis,), eps=eps)[0], meaning,
                   tol=Tolerance(32, 4), scale=scale, zeros=False)  # fmt: skip

    return build


def _slope(rise: str, count: int) -> Array:
    """Return whole numbers, as small as bfloat16 holds, that rise, fall or go up and down."""
    at = np.arange(count)
    if rise == "waves":
        return np.asarray(np.rint(60 * np.sin(at * 0.19)))
    line = np.rint(at * (120 / max(count - 1, 1)) - 60)
    return np.asarray(line if rise == "rising" else -line)


def _attention(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    n, keys = scenario["queries"], scenario["keys"]
    heads, width = scenario["heads"], scenario["width"]
    q, k, v = (
        rng.integers(-2, 3, (2, heads, rows, width)).astype(dtype.numpy) for rows in (n, keys, keys)
    )
    causal, scale = scenario["causal"], scenario["scale"]
    # One key of the last block that takes almost everything.
    k[:, :, -1 if not causal else 0] *= dtype.numpy.type(scenario["large"])
    if scenario["rise"] != "none":
        # Every query sees scores that rise or fall from key to key, or both by turns, so that
        # what is kept of the keys before is scaled again at each block.
        q[..., 0] = 2
        k[..., 0] = _slope(scenario["rise"], keys).astype(dtype.numpy)

    def meaning(a: Array, b: Array, c: Array) -> Array:
        scores = np.einsum("nhle,nhse->nhls", wide(a), wide(b)) * scale
        if causal:
            scores = np.where(np.tri(n, keys, dtype=bool), scores, -np.inf)
        return np.asarray(np.einsum("nhls,nhsv->nhlv", _exponentials(scores, -1)[1], wide(c)))

    return one(
        [q, k, v],
        lambda a, b, c: find("attention")(a, b, c, causal=causal, scale=scale)[0],
        meaning,
        tol=Tolerance(64, 8),
        scale=lambda a, b, c: np.full((2, heads, n, width), 2.0),
        zeros=False,
    )


def _heads(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem | None:
    """Attention and its gradient: heads that share keys, values of their own width, masks."""
    causal, n, keys = scenario["causal"], scenario["queries"], scenario["keys"]
    heads, shared = scenario["groups"]
    width, across = scenario["width"]
    q, k, v, g = (
        (rng.integers(-4, 5, (2, h, rows, e)) / 4).astype(dtype.numpy)
        for h, rows, e in (
            (heads, n, width), (shared, keys, width), (shared, keys, across), (heads, n, across))
    )  # fmt: skip
    extras: list[Array] = []
    if scenario["extra"] == "mask":
        mask = rng.random((1, heads if scenario["apart"] else 1, n, keys)) < 0.8
        mask[..., 0] = True
        extras.append(mask)
    elif scenario["extra"] == "bias":
        shape = (2, heads if scenario["apart"] else 1, n, keys)
        extras.append((rng.integers(-8, 9, shape) / 4).astype(dtype.numpy))

    def run(a: Any, b: Any, c: Any, d: Any, *more: Any) -> list[Any]:
        made, pull = calor.vjp(
            lambda *three: find("attention")(*three, *more, causal=causal, scale=0.25)[0], a, b, c
        )
        return [made, *pull(d)]

    @cache
    def want() -> list[Array]:
        given = [wide(a) for a in (q, k, v)]
        more = [a if a.dtype.kind == "b" else wide(a) for a in extras]
        made, total = oracle.attention(*given, *more, causal=causal, scale=0.25)
        # The gradient reads the result in the dtype that it was rounded to.
        delta = (wide(g) * made).sum(-1)
        slopes = oracle.gradient(wide(g), delta, total, *given, *more, causal=causal, scale=0.25)
        return [made, *slopes]

    def scale() -> list[Array]:
        return [np.full(w.shape, max(1.0, float(np.abs(w).max(initial=0.0)))) for w in want()]

    return Problem([q, k, v, g, *extras], run, want, [dtype] * 4, Tolerance(64, 8), scale,
                   zeros=False, slope=False)  # fmt: skip


def _fft(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, axis = shape_of(scenario, rng)
    x = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype.numpy)
    inverse = scenario["inverse"]
    run = calor.fft.ifft if inverse else calor.fft.fft

    def exact(a: Array) -> Array:
        # NumPy's transform of double precision; its error is far below the bound.
        made = np.fft.ifft if inverse else np.fft.fft
        return np.asarray(made(a.astype(np.complex128), axis=axis))

    return one([x], lambda t: run(t, axis=axis), exact, tol=Tolerance(64, 64),
               scale=lambda a: np.full(a.shape, np.abs(exact(a)).max(initial=0.0)),
               zeros=False)  # fmt: skip


_ROW: dict[str, Any] = {
    "length": LENGTHS,
    "rank": (2, 1, 3, 4),
    "axis": (0, 1, 2),
    "order": ORDERS,
    "offset": (0.0, 20.0, -30.0),
    "large": (0.0, 80.0, 300.0, -300.0),
    "position": ("last", "first", "tail", "boundary"),
}
_FAR: dict[str, Any] = {"length": (20_000, 65_537)}

SUBJECTS: list[Subject] = [
    *(Subject(op, _softmax(op), _DTYPES, _ROW, _FAR) for op in ("softmax", "log_softmax")),
    *(
        Subject(op, _norm(op), _DTYPES, {k: v for k, v in _ROW.items() if k != "position"}, _FAR)
        for op in ("standardize", "rms_norm")
    ),
    Subject("attention", _attention, _DTYPES,
            {"queries": (7, 1, 33, 130), "keys": (7, 33, 129, 257), "heads": (1, 3),
             "width": (8, 4, 17, 64), "causal": (False, True), "large": (1, 8),
             "rise": ("none", "rising", "falling", "waves"), "scale": (0.25, 1.0),
             "order": ("plain", "permuted", "flipped")},
            {"keys": (1500,)}),
    Subject("attention", _heads, _DTYPES,
            {"queries": (33, 7, 130, 1), "keys": (33, 7, 129, 257),
             "groups": ((2, 2), (6, 2), (4, 1), (1, 1)), "width": ((16, 16), (64, 64), (40, 24)),
             "causal": (False, True), "extra": ("none", "mask", "bias"), "apart": (True, False),
             "order": ("plain", "permuted")},
            name="heads"),
    Subject("fft", _fft, (calor.complex64, calor.complex128),
            {"length": (8, 1, 7, 33, 257, 360, 1500), "rank": (1, 2, 3), "axis": (0, 1, 2),
             "inverse": (False, True), "order": ORDERS},
            {"length": (65_537, 1 << 18)}),
]  # fmt: skip
