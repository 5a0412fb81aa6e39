"""Discrete Fourier transforms, unscaled in both directions.

Requirements: float32 and complex64 stay in single precision; the caller scales.
"""

from __future__ import annotations

import numpy as np

from calor.reference.precision import Array


def fft(x: Array, *, kind: str, axes: tuple[int, ...], length: int | None = None) -> Array:
    """Return the transform of x over the axes.

    ``kind`` is "forward" (exponent −2πi) or "inverse" (+2πi) on complex arrays, "r2c", the first
    n // 2 + 1 bins of the last of the axes of a real array's forward transform, or "c2r", the real
    inverse transform of such bins, whose last axis then has ``length`` elements. Raises ValueError
    for another kind, and for a transform of length 0.
    """
    if kind == "forward":
        return np.fft.fftn(x, axes=axes)
    if kind == "inverse":
        return np.fft.ifftn(x, axes=axes, norm="forward")
    if kind == "r2c":
        return np.fft.rfftn(x, axes=axes)
    if kind != "c2r":
        raise ValueError(f"fft kind {kind!r} is none of forward, inverse, r2c, c2r")
    last = 2 * (x.shape[axes[-1]] - 1) if length is None else length
    sizes = [*(x.shape[a] for a in axes[:-1]), last]
    return np.fft.irfftn(x, s=sizes, axes=axes, norm="forward")
