"""Kernels of transforms in steps: tables, steps, chirp convolutions, and bins of real numbers.

Requirements: a length with small primes takes one pass over the data per factor, with results in
order (Stockham's method; Cochran et al., "What is the fast Fourier transform?", 1967); loads are
contiguous, and stores too if the product of the earlier factors is at least a vector. The table has
an error of about an ulp: angles are integers down to the octant. A transform of an even number of
real numbers is a complex one of half the length: elements 2j and 2j + 1 are one complex number, and
the bins are sums and differences of its bins k and −k (Sorensen et al., "Real-valued fast Fourier
transform algorithms", 1987).
"""

from __future__ import annotations

from calor.dtypes import DType, float32, float64
from calor_kernel import language as kl
from calor_kernel.library.fft.codelets import Pair, add, multiply, transform
from calor_kernel.library.fft.step_layout import (
    Read,
    RowLayout,
    Rows,
    Storage,
    Vectors,
    Written,
    deinterleave,
    interleave,
    load_apart,
    store_apart,
    twice,
)
from calor_kernel.library.math import cos, sin
from calor_kernel.library.math.base import exactly

# π / 4 in two parts.
_EIGHTH = {
    float32: (0.785398185253143310546875, -2.1855694143368964e-08),
    float64: (0.7853981633974483, 3.061616997868383e-17),
}


@kl.kernel
def turns(table: kl.Out, n: kl.Size, count: kl.Size, *, chirp: bool) -> None:
    """Write exp(−2πi · j / n) for j below ``count``, real parts first; for a chirp, j² / 2n."""
    j = kl.absolute_position()
    if j < count:
        c, s = turn_of(j * j % (2 * n), 2 * n, table.dtype) if chirp else turn_of(j, n, table.dtype)
        table[j] = c
        table[count + j] = s


@kl.helper
def turn_of(index: kl.Number, n: kl.Number, dtype: DType) -> Pair:
    """Return exp(−2πi · index / n) for an index below n."""
    octant, rest = index * 8 // n, index * 8 % n
    rest = kl.select(octant % 2 == 1, n - rest, rest)
    c, s = small_turn(*ratio(rest.to(dtype), n.to(dtype)))
    return in_octant(octant, c, s)


def in_octant(octant: kl.Number, c: kl.Number, s: kl.Number) -> Pair:
    """Return exp(−i · angle) of an angle's octant, and its distance's cosine and sine."""
    exchanged = (octant + 1) // 2 % 2 == 1
    real, imaginary = kl.select(exchanged, s, c), kl.select(exchanged, c, s)
    return (
        kl.select((octant + 2) // 4 % 2 == 1, -real, real),
        kl.select(octant >= 4, imaginary, -imaginary),
    )


@exactly
def ratio(rest: kl.Number, n: kl.Number) -> Pair:
    """Return the quotient of two numbers, and its rounding error."""
    part = rest / n
    return part, kl.fma(-part, n, rest) / n


@exactly
def small_turn(part: kl.Number, lost: kl.Number) -> Pair:
    """Return cosine and sine of π / 4 · (part + lost), both within about an ulp."""
    high, low = _EIGHTH[part.dtype]
    angle = part * high
    more = kl.fma(part, high, -angle) + kl.fma(part, low, lost * high)
    c, s = cos(angle), sin(angle)
    return kl.fma(-more, s, c), kl.fma(more, c, s)


@kl.kernel
def step(
    source: Read[kl.Pointer],
    target: Written[kl.Pointer],
    table: kl.In,
    over: Rows[kl.Number],
    before: kl.Size,
    *,
    radix: int,
    vectors: Vectors,
    whole: bool,
    last: bool,
    read: Storage,
    write: Storage,
) -> None:
    """Do one factor of rows of n · inner elements; ``before``: the product of earlier factors.

    Elements t, t + n · inner / radix, … of a row give results that are ``before * inner`` apart.
    ``whole``: this distance is a multiple of the width. The ``last`` step has no twiddle factors.
    """
    n, inner, width = over.n, over.inner, vectors.width
    loads, stores = RowLayout(source, read, n, inner), RowLayout(target, write, n, inner)
    span = before * inner
    count = n * inner // radix
    blocks = (count + width - 1) // width
    start = kl.absolute_position() * vectors.share
    for u in kl.range(start, kl.min(start + vectors.share, over.rows * blocks)):
        row, t = u // blocks, u % blocks * width
        lanes = along(t, width)
        inside = lanes < count
        base = loads.row(row)
        values = [loads.load(base, t + j * count, width, inside) for j in kl.range(radix)]
        index = t if whole else lanes
        group, within = index // span, index % span
        results = transform(values)
        base = stores.row(row)
        for k in kl.range(radix):
            value = results[k]
            if k > 0 and not last:
                value = multiply(value, turn_at(table, group * (before * k), n, width, inside))
            at = group * (span * radix) + within + k * span
            stores.store(base, at, value, width, inside)


def along(t: kl.Number, width: int) -> kl.Number:
    """Return the indices of a vector's elements from t on."""
    return t + kl.constant(tuple(kl.range(width)), t.dtype) if width > 1 else t


def turn_at(
    table: kl.Pointer, index: kl.Number, n: kl.Number, width: int, inside: kl.Number
) -> Pair:
    """Return twiddle factors from a table of n: one for all lanes, or one for each."""
    if index.width == width:
        return table.load(index, mask=inside), table.load(n + index, mask=inside)
    return kl.splat(table[index], width), kl.splat(table[n + index], width)


@kl.helper
def factors_along(
    first: kl.Pointer,
    second: kl.Pointer,
    t: kl.Number,
    inner: kl.Number,
    width: int,
    mask: kl.Number,
    alone: bool,
) -> Pair:
    """Return the factors of elements from t on; ``inner`` elements share one, unless ``alone``."""
    if alone:
        return first.load(t, width, mask=mask), second.load(t, width, mask=mask)
    index = along(t, width) // inner
    return first.load(index, mask=mask), second.load(index, mask=mask)


@kl.kernel
def chirp_rows(
    source: Read[kl.Pointer],
    target: Written[kl.Pointer],
    table: kl.In,
    over: Rows[kl.Number],
    long: kl.Size,
    *,
    vectors: Vectors,
    alone: bool,
    end: Storage,
    out: bool,
) -> None:
    """Multiply rows of length n by the chirp, into rows of length ``long`` padded with zeros.

    ``out``: multiply the first n elements of rows of length ``long``, into rows of length n.
    """
    n, inner, width = over.n, over.inner, vectors.width
    padded = Storage("apart")
    if out:
        loads = RowLayout(source, padded, long, inner)
        stores = RowLayout(target, end, n, inner)
    else:
        loads = RowLayout(source, end, n, inner)
        stores = RowLayout(target, padded, long, inner)
    count = stores.length * inner
    blocks = (count + width - 1) // width
    start = kl.absolute_position() * vectors.share
    for u in kl.range(start, kl.min(start + vectors.share, over.rows * blocks)):
        row, t = u // blocks, u % blocks * width
        lanes = along(t, width)
        inside = lanes < count if out else lanes < n * inner
        value = loads.load(loads.row(row), t, width, inside)
        factors = factors_along(table, table.at(n), t, inner, width, inside, alone)
        product = multiply(value, factors)
        stores.store(stores.row(row), t, product, width, inside if out else lanes < count)


@kl.kernel
def chirp_filter(
    table: kl.In, target: Written[kl.Pointer], n: kl.Size, long: kl.Size, scale: kl.Element
) -> None:
    """Write the filter of the convolution: the conjugate chirp, and its mirror at the end."""
    j = kl.absolute_position()
    if j < long:
        index = kl.min(j, long - j)
        there = index < n
        index = kl.min(index, n - 1)
        target.first[j] = kl.select(there, table[index] * scale, 0.0)
        target.second[j] = kl.select(there, -table[n + index] * scale, 0.0)


@kl.kernel
def chirp_product(
    source: Read[kl.Pointer],
    factors: Read[kl.Pointer],
    target: Written[kl.Pointer],
    over: Rows[kl.Number],
    *,
    vectors: Vectors,
    alone: bool,
) -> None:
    """Multiply rows by one row."""
    width = vectors.width
    count = over.n * over.inner
    blocks = (count + width - 1) // width
    start = kl.absolute_position() * vectors.share
    for u in kl.range(start, kl.min(start + vectors.share, over.rows * blocks)):
        row, t = u // blocks, u % blocks * width
        lanes = along(t, width)
        inside = lanes < count
        at = row * count + t
        value = load_apart(source, at, width, inside)
        factor = factors_along(factors.first, factors.second, t, over.inner, width, inside, alone)
        store_apart(target, at, multiply(value, factor), inside)


@kl.kernel
def bins_of_half(
    source: Read[kl.Pointer],
    target: kl.Out,
    table: kl.In,
    rows: kl.Size,
    half: kl.Size,
    *,
    vectors: Vectors,
) -> None:
    """Write half + 1 bins of rows of 2 · half real numbers, from transforms of the form "apart".

    ``table`` has the twiddle factors of the whole length.
    """
    first, second, width = source.first, source.second, vectors.width
    blocks = (half + width - 1) // width
    start = kl.absolute_position() * vectors.share
    for u in kl.range(start, kl.min(start + vectors.share, rows * blocks)):
        row, k = u // blocks, u % blocks * width
        base, to = row * half, 2 * row * (half + 1)
        if k == 0:
            target[to] = first[base] + second[base]
            target[to + 1] = kl.constant(0, target.dtype)
            target[to + 2 * half] = first[base] - second[base]
            target[to + 2 * half + 1] = kl.constant(0, target.dtype)
        inside = (along(k, width) > 0) & (along(k, width) < half)
        a = load_apart(source, base + k, width, inside)
        b = mirrored(first, base, half, k, width), mirrored(second, base, half, k, width)
        w = turn_of_bins(table, k, half, width, inside)
        even = (a[0] + b[0]) * 0.5, (a[1] - b[1]) * 0.5
        # −i times half the difference.
        odd = (a[1] + b[1]) * 0.5, (b[0] - a[0]) * 0.5
        turned = multiply(odd, w)
        value = add(even, turned)
        target.store(to + 2 * k, interleave(value, width), mask=twice(inside, width))


@kl.kernel
def half_of_bins(
    source: kl.In,
    target: Written[kl.Pointer],
    table: kl.In,
    rows: kl.Size,
    half: kl.Size,
    *,
    vectors: Vectors,
) -> None:
    """Write the input of the inverse transform to 2 · half real numbers, from half + 1 bins.

    The imaginary parts of the first and the last bin are ignored.
    """
    first, second, width = target.first, target.second, vectors.width
    blocks = (half + width - 1) // width
    start = kl.absolute_position() * vectors.share
    for u in kl.range(start, kl.min(start + vectors.share, rows * blocks)):
        row, k = u // blocks, u % blocks * width
        base, to = 2 * row * (half + 1), row * half
        if k == 0:
            first[to] = source[base] + source[base + 2 * half]
            second[to] = source[base] - source[base + 2 * half]
        inside = (along(k, width) > 0) & (along(k, width) < half)
        a = deinterleave(source.load(base + 2 * k, 2 * width, mask=twice(inside, width)), width)
        at = half - k - (width - 1)
        there = along(at, width) > 0
        both = source.load(base + 2 * at, 2 * width, mask=twice(there, width))
        b = deinterleave(both, width)
        b = backwards(b[0]), backwards(b[1])
        w = turn_of_bins(table, k, half, width, inside)
        even = a[0] + b[0], a[1] - b[1]
        # i times the difference, by the conjugate twiddle factors.
        odd = multiply((-(a[1] + b[1]), a[0] - b[0]), (w[0], -w[1]))
        first.store(to + k, even[0] + odd[0], mask=inside)
        second.store(to + k, even[1] + odd[1], mask=inside)


@kl.helper
def mirrored(
    memory: kl.Pointer, base: kl.Number, half: kl.Number, k: kl.Number, width: int
) -> kl.Number:
    """Return elements half − k, half − k − 1, … of a row, without its first one."""
    at = half - k - (width - 1)
    return backwards(memory.load(base + at, width, mask=along(at, width) > 0))


def backwards(x: kl.Number) -> kl.Number:
    """Return the lanes in reverse order."""
    return kl.shuffle(x, kl.range(x.width - 1, -1, -1)) if x.width > 1 else x


def turn_of_bins(
    table: kl.Pointer, k: kl.Number, half: kl.Number, width: int, inside: kl.Number
) -> Pair:
    """Return the twiddle factors of bins from k on."""
    return (
        table.load(k, width, mask=inside),
        table.load(2 * half + k, width, mask=inside),
    )
