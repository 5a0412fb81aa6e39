"""The steps of a long transform, and the table of turns that they share.

Requirements: any length whose primes are small takes a pass over the data per factor, with results
in order (Stockham's method; Cochran et al., "What is the fast Fourier transform?", 1967); reads are
contiguous, and writes where the factors before are as long as a vector; the table is right to about
an ulp, by integers up to the last octant.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType, float32, float64
from calor_kernel.language import (
    absolute_position,
    constant,
    fma,
    helper,
    kernel,
    select,
    splat,
)
from calor_kernel.library.fft.codelets import Pair, multiply, transform
from calor_kernel.library.fft.step_layout import Form, Place
from calor_kernel.library.math import cos, sin
from calor_kernel.library.math.base import exactly

# π / 4 in two parts.
_EIGHTH = {
    float32: (0.785398185253143310546875, -2.1855694143368964e-08),
    float64: (0.7853981633974483, 3.061616997868383e-17),
}


@kernel
def turns(table: Any, n: Any, count: Any, *, chirp: bool) -> None:
    """Write exp(−2πi · j / n) for j below ``count``, real parts first; of a chirp, j² / 2n."""
    j = absolute_position()
    if j < count:
        c, s = turn_of(j * j % (2 * n), 2 * n, table.dtype) if chirp else turn_of(j, n, table.dtype)
        table[j] = c
        table[count + j] = s


@helper
def turn_of(place: Any, n: Any, dtype: DType) -> Pair:
    """Return exp(−2πi · place / n) for a place below n."""
    octant, rest = place * 8 // n, place * 8 % n
    rest = select(octant % 2 == 1, n - rest, rest)
    c, s = small_turn(*ratio(rest.to(dtype), n.to(dtype)))
    exchanged = (octant + 1) // 2 % 2 == 1
    real, imaginary = select(exchanged, s, c), select(exchanged, c, s)
    return (
        select((octant + 2) // 4 % 2 == 1, -real, real),
        select(octant >= 4, imaginary, -imaginary),
    )


@exactly
def ratio(rest: Any, n: Any) -> Pair:
    """Return the quotient of two numbers, and what rounding lost."""
    part = rest / n
    return part, fma(-part, n, rest) / n


@exactly
def small_turn(part: Any, lost: Any) -> Pair:
    """Return cosine and sine of π / 4 · (part + lost), both within about an ulp."""
    high, low = _EIGHTH[part.dtype]
    angle = part * high
    more = fma(part, high, -angle) + fma(part, low, lost * high)
    c, s = cos(angle), sin(angle)
    return fma(-more, s, c), fma(more, c, s)


@kernel
def step(
    first: Any,
    second: Any,
    to_first: Any,
    to_second: Any,
    table: Any,
    rows: Any,
    n: Any,
    inner: Any,
    before: Any,
    *,
    radix: int,
    width: int,
    share: int,
    whole: bool,
    last: bool,
    read: Form,
    write: Form,
    swap_read: bool,
    swap_write: bool,
) -> None:
    """Do one factor of rows of n · inner elements; ``before`` is the product of those done.

    A unit does ``share`` vectors. Elements t, t + n · inner / radix, … of a row give results that
    are ``before * inner`` apart. ``whole``: that is a multiple of the width. ``last``: nothing
    comes after, and nothing is turned.
    """
    source = Place(first, second, read, swap_read, n, inner)
    target = Place(to_first, to_second, write, swap_write, n, inner)
    span = before * inner
    count = n * inner // radix
    blocks = (count + width - 1) // width
    start = absolute_position() * share
    for u in range(start, min(start + share, rows * blocks)):
        row, t = u // blocks, u % blocks * width
        lanes = along(t, width)
        inside = lanes < count
        base = source.row(row)
        values = [source.load(base, t + j * count, width, inside) for j in range(radix)]
        place = t if whole else lanes
        group, within = place // span, place % span
        made = transform(values)
        base = target.row(row)
        for k in range(radix):
            value = made[k]
            if k > 0 and not last:
                value = multiply(value, turn_at(table, group * (before * k), n, width, inside))
            at = group * (span * radix) + within + k * span
            target.store(base, at, value, width, inside)


def along(t: Any, width: int) -> Any:
    """Return the numbers of a vector's elements, of which the first is t."""
    return t + constant(tuple(range(width)), t.dtype) if width > 1 else t


def turn_at(table: Any, place: Any, n: Any, width: int, inside: Any) -> Pair:
    """Return turns of a table of n: one for all lanes, or one for each."""
    if place.width == width:
        return table.load(place, mask=inside), table.load(n + place, mask=inside)
    return splat(table[place], width), splat(table[n + place], width)


@helper
def factors_along(
    first: Any, second: Any, t: Any, inner: Any, width: int, mask: Any, alone: bool
) -> Pair:
    """Return the factors of elements from t on, of which ``inner`` have the same; or ``alone``."""
    if alone:
        return first.load(t, width, mask=mask), second.load(t, width, mask=mask)
    place = along(t, width) // inner
    return first.load(place, mask=mask), second.load(place, mask=mask)


@kernel
def chirp_in(
    first: Any,
    second: Any,
    to_first: Any,
    to_second: Any,
    table: Any,
    rows: Any,
    n: Any,
    inner: Any,
    long: Any,
    *,
    width: int,
    share: int,
    alone: bool,
    read: Form,
    swap_read: bool,
) -> None:
    """Multiply rows of length n by the chirp, into rows of length ``long`` that end with zeros."""
    source = Place(first, second, read, swap_read, n, inner)
    target = Place(to_first, to_second, "apart", False, long, inner)
    count = long * inner
    blocks = (count + width - 1) // width
    start = absolute_position() * share
    for u in range(start, min(start + share, rows * blocks)):
        row, t = u // blocks, u % blocks * width
        lanes = along(t, width)
        there = lanes < n * inner
        value = source.load(source.row(row), t, width, there)
        made = multiply(value, factors_along(table, table.at(n), t, inner, width, there, alone))
        target.store(target.row(row), t, made, width, lanes < count)


@kernel
def chirp_filter(table: Any, to_first: Any, to_second: Any, n: Any, long: Any, scale: Any) -> None:
    """Write what a chirp is folded with: its conjugate, and the same backwards from the end."""
    j = absolute_position()
    if j < long:
        place = min(j, long - j)
        there = place < n
        place = min(place, n - 1)
        to_first[j] = select(there, table[place] * scale, 0.0)
        to_second[j] = select(there, -table[n + place] * scale, 0.0)


@kernel
def chirp_product(
    first: Any,
    second: Any,
    by_first: Any,
    by_second: Any,
    to_first: Any,
    to_second: Any,
    rows: Any,
    n: Any,
    inner: Any,
    *,
    width: int,
    share: int,
    alone: bool,
) -> None:
    """Multiply rows by one row."""
    count = n * inner
    blocks = (count + width - 1) // width
    start = absolute_position() * share
    for u in range(start, min(start + share, rows * blocks)):
        row, t = u // blocks, u % blocks * width
        lanes = along(t, width)
        inside = lanes < count
        at = row * count + t
        value = first.load(at, width, mask=inside), second.load(at, width, mask=inside)
        factor = factors_along(by_first, by_second, t, inner, width, inside, alone)
        made = multiply(value, factor)
        to_first.store(at, made[0], mask=inside)
        to_second.store(at, made[1], mask=inside)


@kernel
def chirp_out(
    first: Any,
    second: Any,
    to_first: Any,
    to_second: Any,
    table: Any,
    rows: Any,
    n: Any,
    inner: Any,
    long: Any,
    *,
    width: int,
    share: int,
    alone: bool,
    write: Form,
    swap_write: bool,
) -> None:
    """Multiply the first n elements of rows of length ``long`` by the chirp."""
    source = Place(first, second, "apart", False, long, inner)
    target = Place(to_first, to_second, write, swap_write, n, inner)
    count = n * inner
    blocks = (count + width - 1) // width
    start = absolute_position() * share
    for u in range(start, min(start + share, rows * blocks)):
        row, t = u // blocks, u % blocks * width
        lanes = along(t, width)
        inside = lanes < count
        value = source.load(source.row(row), t, width, inside)
        made = multiply(value, factors_along(table, table.at(n), t, inner, width, inside, alone))
        target.store(target.row(row), t, made, width, inside)
