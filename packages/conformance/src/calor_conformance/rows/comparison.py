"""Widening of operands for an oracle, and comparison of results in units in the last place."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import DType, real_of

from .language import Array, Case, Tolerance, limits_of

_QUIET = np.errstate(all="ignore")


@_QUIET
def widen(x: Array) -> Array:
    """Return an array in the oracle's type, which is exact and wider than the dtype."""
    if x.dtype.kind == "b":
        return x
    if x.dtype.kind in "iu":
        return np.array(x.tolist(), object).reshape(x.shape)
    if x.dtype.kind == "c":
        return x.astype(np.complex128 if x.dtype == np.complex64 else np.clongdouble)
    return x.astype(np.longdouble if x.dtype == np.float64 else np.float64)


@_QUIET
def expected(c: Case, operands: list[Array], dtype: DType) -> tuple[Any, ...]:
    """Return the oracle's results in the types that it computes in."""
    given = operands if c.raw else [widen(x) for x in operands]
    made = c.oracle(*given, **c.attributes_for(dtype))
    return made if isinstance(made, tuple) else (made,)


def _wrapped(values: Array, dtype: np.dtype[Any]) -> Array:
    if np.asarray(values).dtype.kind in "iu":
        return np.asarray(values).astype(dtype)  # NumPy wraps integers, and objects are slow.
    limits = np.iinfo(dtype)
    low, span = int(limits.min), int(limits.max) - int(limits.min) + 1
    flat = [(int(v) - low) % span + low for v in np.asarray(values, object).reshape(-1)]
    return np.array(flat, dtype).reshape(np.shape(values))


def _spacing(size: Array, dtype: DType) -> Array:
    """Return the distance between neighbours of the dtype at a magnitude."""
    limits = limits_of(dtype.numpy)
    least = np.asarray(limits.tiny).astype(size.dtype)
    inside = np.minimum(np.maximum(size, least), np.asarray(limits.max).astype(size.dtype))
    exponent = np.frexp(np.where(np.isfinite(inside), inside, least))[1] - 1
    unit = np.ldexp(np.asarray(float(limits.eps)).astype(size.dtype), exponent)
    return np.asarray(np.maximum(unit, np.asarray(limits.smallest_subnormal).astype(size.dtype)))


@_QUIET
def check(
    got: Array,
    want: Any,
    dtype: DType,
    tol: Tolerance,
    scale: Any = None,
    *,
    what: str = "",
    least: float = 0.0,
) -> None:
    """Raise AssertionError with the worst element unless got is within the tolerance of want.

    ``least`` is an error that is accepted whatever the tolerance.
    """
    want = np.asarray(want)
    assert got.dtype == dtype.numpy, f"{what}: dtype {got.dtype}, not {dtype.name}"
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    if dtype.kind == "bool":
        wrong = np.ascontiguousarray(got).view(np.uint8) > 1
        assert not wrong.any(), f"{what}: true is a byte of 1, here are others"
    if dtype.is_integer or dtype.kind == "bool":
        target = want.astype(bool) if dtype.kind == "bool" else _wrapped(want, dtype.numpy)
        wrong = got != target
        if wrong.any():
            at = np.unravel_index(np.argmax(wrong), got.shape)
            raise AssertionError(f"{what}: {got[at]!r} at {at}, not {target[at]!r}")
        return
    if not dtype.is_inexact or (tol.ulps == 0 and want.dtype == got.dtype):
        _check_bits(got, want.astype(dtype.numpy), what)
        return
    if want.dtype == object:
        want = want.astype(np.float64)
    _check_near(got, want, dtype, tol, scale, what, least)


def _check_bits(got: Array, want: Array, what: str) -> None:
    """Compare bits; all NaNs are equal."""
    if got.tobytes() == want.tobytes():
        return
    a, b = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (got, want))
    nan = np.isnan(a) & np.isnan(b)
    same = nan | ((a == b) & (np.signbit(a.real) == np.signbit(b.real)))
    if a.dtype.kind == "c":
        same &= nan | (np.signbit(a.imag) == np.signbit(b.imag))
    if not same.all():
        at = np.unravel_index(np.argmin(same), got.shape)
        raise AssertionError(f"{what}: {got[at]!r} at {at}, not {want[at]!r}")


def _check_near(
    got: Array,
    want: Array,
    dtype: DType,
    tol: Tolerance,
    scale: Any,
    what: str,
    least: float,
) -> None:
    narrow = want.astype(dtype.numpy)
    off = _unlike(got, narrow)
    count = np.count_nonzero(off)
    if not count:
        return
    part = real_of(dtype)
    size = np.abs(want)
    reach = size if scale is None else np.maximum(size, np.asarray(scale).astype(size.dtype))
    reach = np.broadcast_to(reach, want.shape)
    units = max(tol.ulps, tol.half) if dtype.itemsize == 2 else max(tol.ulps, 0.5)
    units = max(units, 1.0) if dtype.is_complex else units

    def fine(got: Array, want: Array, narrow: Array, reach: Array) -> Any:
        have = got.astype(np.result_type(want.dtype, np.float64))
        rounded = narrow.astype(have.dtype)
        near = np.abs(have - want) <= np.maximum(units * _spacing(reach, part), least)
        if dtype.is_complex:
            good = near | ((np.isinf(np.abs(rounded))) & (np.isinf(np.abs(have))))
            return good | np.isnan(np.abs(rounded)) & np.isnan(np.abs(have))
        good = np.where(np.isfinite(rounded), near, have == rounded)
        good &= ~((want == 0) & (have == 0) & (np.signbit(want) != np.signbit(have)))
        return good | np.isnan(want) & np.isnan(have)

    # Of what is rounded as the oracle's number is, nothing can be wrong.
    made = fine(*(a[off] for a in (got, want, narrow, reach)))
    if np.all(made):
        return
    wrong = off.copy()
    wrong[off] = ~made
    at = np.unravel_index(np.argmax(wrong), wrong.shape)
    error = np.abs(got[at].astype(np.result_type(want.dtype, np.float64)) - want[at])
    ratio = float(error / _spacing(reach[at], part))
    raise AssertionError(
        f"{what}: {got[at]!r} at {tuple(map(int, at))}, not {want[at]!r}: {ratio:.4g} ulp, "
        f"{units} allowed; {np.count_nonzero(wrong)} of {wrong.size} are off"
    )


def _unlike(a: Array, b: Array) -> Array:
    """Return the elements of which any bit differs."""
    size = a.dtype.itemsize
    word, count = (np.uint64, size // 8) if size > 8 else (np.dtype(f"u{size}"), 1)
    one, other = (np.ascontiguousarray(x).view(word).reshape(*x.shape, count) for x in (a, b))
    return np.asarray(np.any(one != other, axis=-1))
