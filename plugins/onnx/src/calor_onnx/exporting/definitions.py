"""Ops without an ONNX operator, defined by functions of tensors.

Each is accurate to a few units in the last place of float32.
"""

from __future__ import annotations

import math
from typing import Any

from calor.dtypes import DType, as_dtype
from calor.ops import elementwise as e
from calor.ops.composites import like, wide
from calor.ops.movement import concat, fill, slice_
from calor_onnx.exporting.graphs import DEFINITIONS


def _exp2(x: Any) -> Any:
    return like(e.power(fill(wide(x), 2.0), wide(x)), x)


def _expm1(x: Any) -> Any:
    # Near 0 through tanh, which is exact there: expm1(x) = 2 t / (1 − t) with t = tanh(x / 2).
    y = wide(x)
    near = e.abs(y) < 0.5
    t = e.tanh(e.where(near, y, fill(y, 0)) * 0.5)
    return like(e.where(near, (t * 2) / (1 - t), e.exp(y) - 1), x)


def _log1p(x: Any) -> Any:
    # Higham, "Accuracy and Stability of Numerical Algorithms", 1.14.1: errors of 1 + x cancel.
    y = wide(x)
    u = y + 1
    same = e.equal(u, fill(u, 1))
    bent = e.log(u) * (y / e.where(same, fill(u, 1), u - 1))
    straight = e.bit_or(same, e.bit_not(e.isfinite(u)))
    return like(e.where(same, y, e.where(straight, e.log(u), bent)), x)


def _logarithm(base: float) -> Any:
    return lambda x: like(e.log(wide(x)) / math.log(base), x)


def _hypot(a: Any, b: Any) -> Any:
    a_wide, b_wide = e.abs(wide(a)), e.abs(wide(b))
    large, small = e.maximum(a_wide, b_wide), e.minimum(a_wide, b_wide)
    plain = e.bit_and(large > 0, e.isfinite(large))
    ratio = e.where(plain, small / e.where(plain, large, fill(large, 1)), fill(large, 0))
    return like(large * e.sqrt(ratio * ratio + 1), a)


def _atan2(a: Any, b: Any) -> Any:
    y, x = wide(a), wide(b)
    steep = e.abs(y) > e.abs(x)
    low, high = e.where(steep, x, y), e.where(steep, y, x)
    none = e.equal(high, fill(high, 0))
    both = e.bit_and(e.isinf(low), e.isinf(high))
    ratio = e.where(none, fill(high, 0), e.abs(low) / e.abs(e.where(none, fill(high, 1), high)))
    angle = e.atan(e.where(both, fill(ratio, 1), ratio))
    angle = e.where(steep, math.pi / 2 - angle, angle)
    angle = e.where(e.signbit(x), math.pi - angle, angle)
    return like(e.copysign(angle, y), a)


def _logaddexp(a: Any, b: Any) -> Any:
    x, y = wide(a), wide(b)
    large = e.maximum(x, y)
    # The distance of infinities of one sign is 0.
    apart = e.where(e.equal(x, y), fill(x, 0), e.abs(x - y))
    return like(large + e.log1p(e.exp(-apart)), a)


def _copysign(a: Any, b: Any) -> Any:
    size = e.abs(a)
    return e.where(e.signbit(b), -size, size)


def _unsigned(x: Any) -> DType:
    return as_dtype(x.dtype.name if x.dtype.kind == "uint" else f"u{x.dtype.name}")


def _shift_left(x: Any, by: Any) -> Any:
    kind = _unsigned(x)
    return like(e.shift_left(e.cast(x, dtype=kind), e.cast(by, dtype=kind)), x)


def _shift_right(x: Any, by: Any) -> Any:
    kind = _unsigned(x)
    below = x < 0
    # For a negative number, the result is the complement of that of its complement.
    flipped = e.where(below, e.bit_not(x), x)
    made = like(e.shift_right(e.cast(flipped, dtype=kind), e.cast(by, dtype=kind)), x)
    return e.where(below, e.bit_not(made), made)


def _running(combine: Any) -> Any:
    """Return a scan by doubling: after k steps each element combines 2ᵏ elements up to it."""

    def scanned(x: Any, *, axis: int, reverse: bool) -> Any:
        size, step = x.shape[axis], 1
        while step < size:
            starts, stops = [0] * x.ndim, list(x.shape)
            kept, rest = (list(starts), list(stops)), (list(starts), list(stops))
            kept[0 if reverse else 1][axis] = size - step if reverse else step
            rest[1 if reverse else 0][axis] = size - step if reverse else step
            ones = (1,) * x.ndim
            shifted = list(starts), list(stops)
            shifted[0 if reverse else 1][axis] = step if reverse else size - step
            edge = slice_(x, starts=tuple(kept[0]), stops=tuple(kept[1]), steps=ones)
            here = slice_(x, starts=tuple(rest[0]), stops=tuple(rest[1]), steps=ones)
            there = slice_(x, starts=tuple(shifted[0]), stops=tuple(shifted[1]), steps=ones)
            moved = combine(here, there)
            x = concat(moved, edge, axis=axis) if reverse else concat(edge, moved, axis=axis)
            step *= 2
        return x

    return scanned


def _lgamma(x: Any) -> Any:
    """Return log-gamma by Lanczos' series (g = 7, n = 9), with the reflection formula below 0.5."""
    y = wide(x)
    mirrored = y < 0.5
    z = e.where(mirrored, 1 - y, y) - 1
    series = fill(z, _LANCZOS[0])
    for i, coefficient in enumerate(_LANCZOS[1:], 1):
        series = series + coefficient / (z + float(i))
    t = z + 7.5
    value = (z + 0.5) * e.log(t) - t + e.log(series) + 0.5 * math.log(2 * math.pi)
    turn = e.abs(e.sin((y - e.floor(y)) * math.pi))
    return like(e.where(mirrored, math.log(math.pi) - e.log(turn) - value, value), x)


_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
    -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
    1.5056327351493116e-7,
)  # fmt: skip


def _digamma(x: Any) -> Any:
    """Return digamma by a shift and the asymptotic series (Abramowitz and Stegun, 6.3)."""
    y = wide(x)
    mirrored = y < 0.5
    z = e.where(mirrored, 1 - y, y)
    below = fill(z, 0)
    for _ in range(6):
        below = below + 1 / z
        z = z + 1
    w = 1 / (z * z)
    series = w * (1 / 12 - w * (1 / 120 - w * (1 / 252 - w * (1 / 240))))
    value = e.log(z) - 0.5 / z - series - below
    angle = y * math.pi
    return like(e.where(mirrored, value - math.pi / e.tan(angle), value), x)


def _erfinv(x: Any) -> Any:
    """Return erfinv (Giles, "Approximating the erfinv function", GPU Computing Gems, 2011)."""
    y = wide(x)
    size = -e.log((1 - y) * (1 + y))
    middle, tail = size - 2.5, e.sqrt(e.maximum(size, fill(size, 5.0))) - 3
    low, high = fill(y, _MIDDLE[0]), fill(y, _TAIL[0])
    for a, b in zip(_MIDDLE[1:], _TAIL[1:], strict=True):
        low, high = low * middle + a, high * tail + b
    end = e.equal(e.abs(y), fill(y, 1))
    return like(e.where(end, y * math.inf, e.where(size < 5, low, high) * y), x)


_MIDDLE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


DEFINITIONS.update(
    erfinv=_erfinv,
    exp2=_exp2,
    expm1=_expm1,
    log1p=_log1p,
    log2=_logarithm(2.0),
    log10=_logarithm(10.0),
    hypot=_hypot,
    atan2=_atan2,
    logaddexp=_logaddexp,
    copysign=_copysign,
    shift_left=_shift_left,
    shift_right=_shift_right,
    cumprod=_running(e.mul),
    cummax=_running(e.maximum),
    cummin=_running(e.minimum),
    lgamma=_lgamma,
    digamma=_digamma,
    real=lambda x: x,
    conj=lambda x: x,
)
