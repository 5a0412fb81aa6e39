"""Additional results that are right on a device that declares to flush denormals to zero.

Requirements: only declared flushing (``Info.flushes``) is accepted, and only if denormals of a
dtype can be the cause. A device may keep some of them, so each element is compared with the nearest
right result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import numpy as np

from calor.dtypes import DType, as_dtype, real_of

from .language import Array, limits_of

# Accepted error, in smallest normal numbers, of a result with a flushed part: exp(−x) is denormal
# from x = 87 on, and x times that is a part of x · sigmoid(x).
LOST: Final = 128


@np.errstate(all="ignore")
def flushed(x: Array, flushes: Collection[DType]) -> Array:
    """Return an array with its dtype's denormals replaced by zeros of the same sign."""
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
    """Return operands as a device may see them: unchanged, flushed, and of two also one flushed.

    An op may read the bits of one operand and compute with the other.
    """
    pairs = [(a, flushed(a, flushes)) for a in arrays]
    changed = [n for n, (a, b) in enumerate(pairs) if a.tobytes() != b.tobytes()]
    whole = [list(arrays), [b for _, b in pairs]]
    if len(changed) != 2:
        return whole[: 1 + bool(changed)]
    return whole + [[pair[n == m] for n, pair in enumerate(pairs)] for m in changed]


def lost(dtype: DType, flushes: Collection[DType]) -> float:
    """Return the additional error that flushing may cause in a result of a dtype."""
    return LOST * float(limits_of(real_of(dtype).numpy).tiny) if dtype in flushes else 0.0


@np.errstate(all="ignore")
def zeros(want: Any, dtype: DType, flushes: Collection[DType]) -> list[Array]:
    """Return results with zeros in place of denormals; zeros may have any sign."""
    if dtype not in flushes:
        return []
    want = np.asarray(want)
    if dtype.is_complex:
        parts = real_of(dtype)
        real, imag = (zeros(part, parts, {parts}) for part in (want.real, want.imag))
        return [_joined(a, b, want.dtype) for a in (want.real, *real) for b in (want.imag, *imag)]
    small = (np.abs(want) <= lost(dtype, flushes)) & (want != 0)
    return [np.where(small, zero, want) for zero in (0.0, -0.0)]


def _joined(real: Array, imag: Array, kind: np.dtype[Any]) -> Array:
    """Return complex numbers of two parts, whose zeros keep their signs."""
    made = np.empty(real.shape, kind)
    made.real, made.imag = real, imag
    return made


def nearest(got: Array, wants: Iterable[Any]) -> Array:
    """Return for each element of a result the nearest one among the right results.

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


def right(got: Array, wants: Sequence[Any], dtype: DType, flushes: Collection[DType]) -> Array:
    """Return the nearest right result, with and without zeros in place of its denormals."""
    every = [z for w in wants for z in (w, *zeros(w, dtype, flushes))]
    return nearest(got, every).astype(np.asarray(wants[0]).dtype)


@np.errstate(all="ignore")
def _distance(got: Array, want: Array) -> Array:
    """Return the distance of results from right ones; signs of zeros count a little."""
    kind = np.dtype(np.complex128 if "c" in (got.dtype.kind, want.dtype.kind) else np.longdouble)
    a, b = got.astype(kind), want.astype(kind)
    # Integer results wrap, which their check handles.
    rounded = b if got.dtype.kind in "iu" else want.astype(got.dtype).astype(kind)
    same = (a == rounded) | (np.isnan(a) & np.isnan(b))
    signs = np.signbit(a.real) != np.signbit(b.real)
    signs |= np.signbit(a.imag) != np.signbit(b.imag)
    off = np.where(same, 0.0, np.abs(np.subtract(a, b)))
    return np.asarray(np.where(np.isnan(off), np.inf, off) + np.where(same & signs, 1e-300, 0.0))
