"""What else is right on a device that declares to take the smallest numbers for zeros.

Requirements: only what is declared (``Info.flushes``) is let pass, and only where the numbers below
the smallest normal one of a dtype can be the cause; a device may keep some of them, so that each
element is held against the result nearest to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import numpy as np

from calor.dtypes import DType, as_dtype, real_of

from .language import Array, limits_of

# What a result may be off by, in smallest normal numbers, where a part of it was taken for zero:
# exp(−x) is, from x = 87 on, and x times that, as in x · sigmoid(x).
LOST: Final = 128


@np.errstate(all="ignore")
def flushed(x: Array, flushes: Collection[DType]) -> Array:
    """Return an array with zeros, of the same sign, for what its dtype's flushing takes for one."""
    dtype = as_dtype(x.dtype)
    if dtype not in flushes:
        return x
    if dtype.is_complex:
        made = x.copy()
        real = real_of(dtype)
        made.real, made.imag = (flushed(part, {real}) for part in (x.real, x.imag))
        return made
    wide = x.astype(np.float64)
    small = np.abs(wide) < float(limits_of(x.dtype).tiny)
    return np.where(small, np.copysign(0.0, wide), wide).astype(x.dtype)


def taken(arrays: Sequence[Array], flushes: Collection[DType]) -> list[list[Array]]:
    """Return operands as a device may take them: as they are, flushed, and of two also one of them.

    An op may look at one operand's bits and compute with the other.
    """
    pairs = [(a, flushed(a, flushes)) for a in arrays]
    changed = [n for n, (a, b) in enumerate(pairs) if a.tobytes() != b.tobytes()]
    whole = [list(arrays), [b for _, b in pairs]]
    if len(changed) != 2:
        return whole[: 1 + bool(changed)]
    return whole + [[pair[n == m] for n, pair in enumerate(pairs)] for m in changed]


def lost(dtype: DType, flushes: Collection[DType]) -> float:
    """Return what a result of a dtype may be off by beyond its tolerance."""
    return LOST * float(limits_of(real_of(dtype).numpy).tiny) if dtype in flushes else 0.0


@np.errstate(all="ignore")
def zeros(want: Any, dtype: DType, flushes: Collection[DType]) -> list[Array]:
    """Return results with zeros for those that may be lost: parts of them may have any sign."""
    if dtype not in flushes:
        return []
    want = np.asarray(want)
    if dtype.is_complex:
        parts = real_of(dtype)
        real, imag = (zeros(part, parts, {parts}) for part in (want.real, want.imag))
        return [a + 1j * b for a in (want.real, *real) for b in (want.imag, *imag)]
    small = (np.abs(want) <= lost(dtype, flushes)) & (want != 0)
    return [np.where(small, zero, want) for zero in (0.0, -0.0)]


def nearest(got: Array, wants: Iterable[Any]) -> Array:
    """Return, for each element of a result, the one that is nearest among what is right.

    >>> nearest(np.array([0.0, 2.0]), [np.array([1e-40, 2.0]), np.array([0.0, 3.0])]).tolist()
    [0.0, 2.0]
    """
    first, *others = (np.asarray(w) for w in wants)
    if first.shape != got.shape:
        return first
    best = first
    for other in others:
        best = np.where(_distance(got, other) < _distance(got, best), other, best)
    return best


@np.errstate(all="ignore")
def _distance(got: Array, want: Array) -> Array:
    """Return how far results are from what they should be; signs of zeros count a little."""
    kind = np.dtype(np.complex128 if "c" in (got.dtype.kind, want.dtype.kind) else np.longdouble)
    a, b = got.astype(kind), want.astype(kind)
    # What an integer cannot hold wraps around, which its check knows.
    rounded = b if got.dtype.kind in "iu" else want.astype(got.dtype).astype(kind)
    same = (a == rounded) | (np.isnan(a) & np.isnan(b))
    signs = np.signbit(a.real) != np.signbit(b.real)
    off = np.where(same, 0.0, np.abs(np.subtract(a, b)))
    return np.asarray(np.where(np.isnan(off), np.inf, off) + np.where(same & signs, 1e-300, 0.0))
