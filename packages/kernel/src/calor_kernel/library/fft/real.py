"""Long transforms of real numbers, as complex ones of half the length.

Requirements: an even length costs half of a complex transform: elements 2j and 2j + 1 are one
complex number, and the bins are sums and differences of its bins k and −k (Sorensen et al.,
"Real-valued fast Fourier transform algorithms", 1987).
"""

from __future__ import annotations

from calor_kernel.language import (
    In,
    Number,
    Out,
    Pointer,
    Size,
    absolute_position,
    constant,
    helper,
    kernel,
    min,
    range,
    shuffle,
)
from calor_kernel.library.fft.codelets import Pair, add, multiply
from calor_kernel.library.fft.kernels import along
from calor_kernel.library.fft.step_layout import (
    Read,
    Vectors,
    Written,
    deinterleave,
    interleave,
    load_apart,
    twice,
)


@kernel
def bins_of_half(
    source: Read[Pointer],
    target: Out,
    table: In,
    rows: Size,
    half: Size,
    *,
    vectors: Vectors,
) -> None:
    """Write half + 1 bins of rows of 2 · half real numbers, from transforms of the form "apart".

    ``table`` has the twiddle factors of the whole length.
    """
    first, second, width = source.first, source.second, vectors.width
    blocks = (half + width - 1) // width
    start = absolute_position() * vectors.share
    for u in range(start, min(start + vectors.share, rows * blocks)):
        row, k = u // blocks, u % blocks * width
        base, to = row * half, 2 * row * (half + 1)
        if k == 0:
            target[to] = first[base] + second[base]
            target[to + 1] = constant(0, target.dtype)
            target[to + 2 * half] = first[base] - second[base]
            target[to + 2 * half + 1] = constant(0, target.dtype)
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


@kernel
def half_of_bins(
    source: In,
    target: Written[Pointer],
    table: In,
    rows: Size,
    half: Size,
    *,
    vectors: Vectors,
) -> None:
    """Write the input of the inverse transform to 2 · half real numbers, from half + 1 bins.

    The imaginary parts of the first and the last bin are ignored.
    """
    first, second, width = target.first, target.second, vectors.width
    blocks = (half + width - 1) // width
    start = absolute_position() * vectors.share
    for u in range(start, min(start + vectors.share, rows * blocks)):
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


@helper
def mirrored(memory: Pointer, base: Number, half: Number, k: Number, width: int) -> Number:
    """Return elements half − k, half − k − 1, … of a row, without its first one."""
    at = half - k - (width - 1)
    return backwards(memory.load(base + at, width, mask=along(at, width) > 0))


def backwards(x: Number) -> Number:
    """Return the lanes in reverse order."""
    return shuffle(x, range(x.width - 1, -1, -1)) if x.width > 1 else x


def turn_of_bins(table: Pointer, k: Number, half: Number, width: int, inside: Number) -> Pair:
    """Return the twiddle factors of bins from k on."""
    return (
        table.load(k, width, mask=inside),
        table.load(2 * half + k, width, mask=inside),
    )
