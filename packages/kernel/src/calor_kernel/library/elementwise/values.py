"""Values of every dtype in a kernel: their storage, and their type in registers.

Requirements: the language has no complex numbers and no 8-bit floats. A complex value is a pair of
numbers whose parts alternate in memory; an 8-bit float is the byte of its storage. Half types are
numbers of their own type, computed in float32 and rounded after each op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from calor.dtypes import DType, bfloat16, float16, float32, real_of, uint8
from calor_kernel import language as kl

HALVES: Final = (float16, bfloat16)


class Complex(NamedTuple):
    """A complex value: its two parts, of one floating type."""

    real: kl.Number
    imag: kl.Number

    def __neg__(self) -> Complex:
        return Complex(-self.real, -self.imag)

    def __add__(self, other: Complex) -> Complex:  # type: ignore[override]
        return Complex(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: Complex) -> Complex:
        return Complex(self.real - other.real, self.imag - other.imag)

    def __mul__(self, other: Complex) -> Complex:  # type: ignore[override]
        real = self.real * other.real - self.imag * other.imag
        return Complex(real, self.real * other.imag + self.imag * other.real)


Value = kl.Number | Complex


def by_parts(function: Callable[..., kl.Number], *values: Value) -> Value:
    """Return a function of numbers, applied to both parts of complex values."""
    parts = [v for v in values if isinstance(v, Complex)]
    if not parts:
        return function(*values)
    return Complex(function(*(v.real for v in parts)), function(*(v.imag for v in parts)))


def stored(dtype: DType) -> DType:
    """Return the element type of the memory of a dtype.

    >>> from calor.dtypes import complex64, float8_e5m2
    >>> stored(complex64).name, stored(float8_e5m2).name
    ('float32', 'uint8')
    """
    return uint8 if dtype.kind == "storage" else real_of(dtype)


def parts(dtype: DType) -> int:
    """Return the number of memory elements of a value."""
    return 2 if dtype.is_complex else 1


def wide(value: Value) -> Value:
    """Return a value of a half type as float32, other values unchanged."""
    if isinstance(value, Complex) or value.dtype not in HALVES:
        return value
    return kl.cast(value, float32)


def settled(value: Value, dtype: DType) -> Value:
    """Return a float32 result rounded to its half type; other values unchanged."""
    if dtype not in HALVES or isinstance(value, Complex) or value.dtype is dtype:
        return value
    return kl.cast(value, dtype)


def lanes(width: int, like: kl.Number) -> kl.Number:
    """Return 0, 1, 2 … with the dtype of an index."""
    return kl.constant(tuple(range(width)), like.dtype)


def _mask(rest: kl.Index | None, width: int, each: int) -> kl.Number | None:
    """Return which of the elements of ``width`` values exist, if ``rest`` values do."""
    if rest is None:
        return None
    assert isinstance(rest, kl.Number)
    return lanes(width * each, rest) < rest * each


def load(
    source: kl.Pointer,
    dtype: DType,
    index: kl.Index,
    width: int,
    *,
    step: kl.Index = 1,
    rest: kl.Index | None = None,
    align: int = 0,
) -> Value:
    """Return ``width`` values from value ``index`` on, ``step`` values apart.

    A vector of indices, one for each lane, is used as it is. ``step`` 0 is one value in every lane.
    ``rest``: how many of the values exist, None for all. ``align``: the alignment of the address in
    bytes, a power of two, if all values are read.
    """
    if isinstance(step, int) and step == 0:
        one = load(source, dtype, index, 1)
        if isinstance(one, Complex):
            return Complex(kl.splat(one.real, width), kl.splat(one.imag, width))
        return kl.splat(one, width)
    if width == 1 or (isinstance(index, kl.Number) and index.width > 1):
        mask = _mask(rest, width, 1) if width > 1 else None
        if not dtype.is_complex:
            return source.load(index, mask=mask)
        return Complex(source.load(index * 2, mask=mask), source.load(index * 2 + 1, mask=mask))
    if not (isinstance(step, int) and step == 1):
        return _spread(source, dtype, index, width, step, rest)
    align = _align(width, dtype, align)
    if not dtype.is_complex:
        return source.load(index, width, mask=_mask(rest, width, 1), align=align)
    pairs = source.load(index * 2, 2 * width, mask=_mask(rest, width, 2), align=align)
    even = range(0, 2 * width, 2)
    return Complex(kl.shuffle(pairs, even), kl.shuffle(pairs, range(1, 2 * width, 2)))


def _align(width: int, dtype: DType, align: int) -> int:
    """Return the alignment of ``width`` values, at most their size."""
    size: int = width * dtype.itemsize
    return min(size & -size, align)


@kl.helper
def _spread(
    source: kl.Pointer,
    dtype: DType,
    index: kl.Index,
    width: int,
    step: kl.Index,
    rest: kl.Index | None,
) -> Value:
    """Return strided values, read one by one; gathering them is rarely faster."""
    last = width if rest is None else rest - 1
    lanes_ = [lane if rest is None else kl.min(lane, last) for lane in range(width)]
    places = [index + lane * step for lane in lanes_]
    if not dtype.is_complex:
        return kl.pack([source[place] for place in places])
    real = kl.pack([source[place * 2] for place in places])
    return Complex(real, kl.pack([source[place * 2 + 1] for place in places]))


def store(
    target: kl.Pointer,
    dtype: DType,
    index: kl.Index,
    value: Value,
    *,
    rest: kl.Index | None = None,
    align: int = 0,
    nontemporal: bool = False,
) -> None:
    """Write a value's lanes to adjacent elements from value ``index`` on, as load reads them.

    An index of lanes is the position of each.
    """
    width = (value.real if isinstance(value, Complex) else value).width
    align = _align(width, dtype, align)
    if isinstance(value, Complex):
        if width == 1:
            target[index * 2] = value.real
            target[index * 2 + 1] = value.imag
            return
        if isinstance(index, kl.Number) and index.width > 1:
            apart = _mask(rest, width, 1)
            target.store(index * 2, value.real, mask=apart)
            target.store(index * 2 + 1, value.imag, mask=apart)
            return
        order = [i // 2 + (i % 2) * width for i in range(2 * width)]
        number = kl.shuffle(value.real, order, value.imag)
        index = index * 2
    else:
        number = value
    mask = _mask(rest, width, parts(dtype)) if width > 1 else None
    target.store(index, number, mask=mask, align=align, nontemporal=nontemporal)
