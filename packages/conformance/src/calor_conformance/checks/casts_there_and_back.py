"""Conversions to a dtype and back in one program, at the first numbers that the other one lacks.

A compiler that leaves out such a pair, or one of its steps, is right for all numbers that the dtype
between has. So asked are those beside: a whole number with a bit too many, the one after an end,
a fraction, a negative number, one too small and one too large, and for all of them a neighbour that
is there. Due is what two programs of one step give, and the exact conversion of each element.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from functools import cache, partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import ALL, DType, real_of

from ..rows.language import limits_of
from ..rows.oracle_casts import cast
from .base import Array, Check, Place

CONTRACT: Final = "two conversions in one program are those of two programs, each with its loss"


def _edges(dtype: DType) -> list[Any]:
    """Return the first numbers that a dtype lacks, and neighbours that it has."""
    if dtype.kind == "bool":
        return [0, 1, 2, -1, 0.5, -0.5]
    if dtype.is_integer:
        ends = np.iinfo(dtype.numpy)
        low, high = int(ends.min), int(ends.max)
        return [high, high + 1, high + 2, low, low - 1, 0.5, 1.5, -0.5, -1.5, -0.0, -1]
    limits = limits_of(real_of(dtype).numpy)
    eps, tiny, most = float(limits.eps), float(limits.tiny), float(limits.max)
    whole = round(2 / eps)
    least = float(limits.smallest_subnormal)
    return [
        whole, whole + 1, -whole - 1, whole + 3, 2 * whole + 2, 1 + eps, 1 + eps / 2, 1 + eps / 4,
        1 + 3 * eps / 4, tiny, tiny * (1 + eps / 4), least, least / 2, least / 4, 3 * least / 2,
        most, most * (1 + eps / 8) if most < 1e300 else most, -0.0,
    ]  # fmt: skip


def _held(value: Any, dtype: DType) -> bool:
    """Return whether a dtype has a number, exactly."""
    if dtype.kind == "bool":
        return value in (0, 1) and math.copysign(1, value) > 0
    if dtype.is_integer:
        ends = np.iinfo(dtype.numpy)
        whole = value == int(value) and (value != 0 or math.copysign(1, value) > 0)
        return bool(whole and int(ends.min) <= int(value) <= int(ends.max))
    with np.errstate(all="ignore"):
        try:
            there = np.asarray(float(value)).astype(real_of(dtype).numpy)
        except OverflowError:
            return False
    back = float(there)
    return math.isfinite(back) and back == value


@cache
def _numbers(outer: DType, middle: DType) -> Array:
    """Return the numbers of a dtype that are asked on the way through another one."""
    held = [v for v in _edges(middle) + _edges(outer)[:4] if _held(v, outer)]
    with np.errstate(all="ignore"):
        return np.array(held if outer.is_integer else [float(v) for v in held]).astype(outer.numpy)


def _flushed(x: Array, place: Place, dtypes: tuple[DType, ...]) -> Array:
    """Leave out what one of the dtypes has as a denormal that the device flushes."""
    small = [float(limits_of(real_of(d).numpy).tiny) for d in dtypes if real_of(d) in place.flushes]
    if not small:
        return x
    size = np.abs(x.astype(np.complex128))
    return np.asarray(x[(size == 0) | (size >= 2 * max(small))])


def _to(dtype: DType, x: Any) -> Any:
    return x.astype(dtype)


def same_bits(got: Array, want: Array) -> Array:
    """Return where numbers are one, signs of zeros included and NaN as one number."""
    if got.dtype.kind == "c":
        return same_bits(got.real, want.real) & same_bits(got.imag, want.imag)
    if got.dtype.kind in "biu":
        return np.asarray(got == want)
    a, b = got.astype(np.float64), want.astype(np.float64)
    return np.asarray(((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b)))


def _run(outer: DType, place: Place) -> None:
    info = place.plain.info
    middles = [
        d for d in ALL
        if d is not outer and info.dtypes.get(d) and info.supports("cast", d)
        and (d.is_complex or not outer.is_complex)
    ]  # fmt: skip
    given = [_flushed(_numbers(outer, d), place, (outer, d)) for d in middles]
    tensors = [calor.asarray(x) for x in given]

    def there_and_back(*xs: Any) -> Any:
        return tuple(x.astype(d).astype(outer) for x, d in zip(xs, middles, strict=True))

    made = [y.numpy() for y in calor.jit(there_and_back)(*tensors)]
    for number, (d, x, t, got) in enumerate(zip(middles, given, tensors, made, strict=True)):
        plain = got
        if place.tries(number, 8):
            between = place.call(partial(_to, d), t).numpy()
            plain = place.call(partial(_to, outer), calor.asarray(between)).numpy()
        with np.errstate(all="ignore"):
            exact = cast(cast(x, dtype=d), dtype=outer)
        for what, want in (("two programs give", plain), ("exact steps give", exact)):
            same = same_bits(got, want)
            if not same.all():
                at = int(np.argmin(same))
                raise AssertionError(
                    f"{x[at]!r} of {outer} by way of {d} is {got[at]!r}; {what} {want[at]!r}"
                )


def casts_there_and_back() -> Iterator[Check]:
    """Yield a check of each dtype by way of all others."""
    for dtype in ALL:
        yield Check(
            kind="accuracy",
            subject="casts-there-and-back",
            tier="compiled",
            contract=CONTRACT,
            run=partial(_run, dtype),
            text=partial(inspect.getsource, _numbers.__wrapped__),
            op="cast",
            dtype=dtype,
            dtypes=(dtype,),
            looks=True,
        )
