"""exp(x) − 1 and log(1 + x), whose complex forms NumPy leaves to the arithmetic of their parts.

Source: Python Array API standard 2024.12, expm1: the imaginary part is 0 where that of x is 0, and
an infinite real part decides where the imaginary part is infinite or NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.reference.precision import Array, quiet


@quiet
def expm1(x: Array) -> Array:
    """Return exp(x) − 1 with full precision near 0."""
    x = np.asarray(x)
    if x.dtype.kind != "c":
        return np.asarray(np.expm1(x))
    a, b = x.real, x.imag
    half = np.sin(b / 2)
    real: Any = np.expm1(a) * np.cos(b) - 2 * half * half
    imag: Any = np.exp(a) * np.sin(b)
    # On the real axis the result is real; −0 becomes +0, as the standard has it.
    on_axis = b == 0
    real, imag = np.where(on_axis, np.expm1(a) + 0, real), np.where(on_axis, b, imag)
    turning = ~np.isfinite(b)
    vanishes, grows = turning & (a == -np.inf), turning & (a == np.inf)
    result = np.empty_like(x)
    result.real = np.where(vanishes, -1, np.where(grows, np.inf, real))
    result.imag = np.where(vanishes, np.copysign(0, b), np.where(grows, np.nan, imag))
    return result


@quiet
def log1p(x: Array) -> Array:
    """Return log(1 + x) with full precision near 0."""
    x = np.asarray(x)
    if x.dtype.kind != "c":
        return np.asarray(np.log1p(x))
    a, b = x.real, x.imag
    near = (np.abs(a) < 0.5) & (np.abs(b) < 0.5)
    result = np.asarray(np.log1p(x))
    # |1 + x|² − 1 without the 1, which would swallow the digits of a small x.
    result.real = np.where(near, np.log1p(a * (2 + a) + b * b) / 2, result.real)
    return result
