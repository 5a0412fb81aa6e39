"""Rows of functions of signal processing."""

from __future__ import annotations

from math import pi

from calor_kernel import language
from calor_kernel.language import Number, select
from calor_kernel.library import math
from calor_kernel.library.elementwise.operations import row
from calor_kernel.library.math.base import INFINITY
from calor_kernel.library.math.bounds import Bound


@row("rsqrt", weight=3, bound=Bound(1.5, 1.5))
def _rsqrt(x: Number) -> Number:
    return 1.0 / language.sqrt(x)


@row("heaviside", bound=Bound(0.0, 0.0))
def _heaviside(a: Number, b: Number) -> Number:
    # NaN has a comparison of its own, because Vulkan drivers fold the last case of the others.
    step = select(a > 0.0, 1.0, select(a < 0.0, 0.0, b))
    return select(a == a, step, a)


@row("lerp", weight=14)
def _lerp(a: Number, b: Number, weight: Number) -> Number:
    gap, rest = b - a, 1.0 - weight
    near = select(weight < 0.5, a + weight * gap, b - gap * rest)
    # Finite ends whose distance exceeds the largest number.
    far = (abs(gap) == INFINITY) & (abs(a) < INFINITY) & (abs(b) < INFINITY)
    return select(far, a * rest + b * weight, near)


@row("sinc", weight=80, bound=Bound(3.0, 3.0))
def _sinc(x: Number) -> Number:
    size = abs(x)
    whole = language.rint(size)
    odd = whole - language.floor(whole * 0.5) * 2.0
    wave = (1.0 - odd * 2.0) * math.sin((size - whole) * pi)
    return select(size == 0.0, 1.0, wave / (size * pi))
