"""Long transforms of real numbers, as complex ones of half the length.

Requirements: an even length costs half of a complex transform: elements 2j and 2j + 1 are one
complex number, and the bins are sums and differences of its bins k and −k (Sorensen et al.,
"Real-valued fast Fourier transform algorithms", 1987).
"""

from __future__ import annotations

from typing import Any

from calor_kernel.language import (
    absolute_position,
    constant,
    helper,
    kernel,
    shuffle,
)
from calor_kernel.library.fft.codelets import Pair, multiply
from calor_kernel.library.fft.kernels import along
from calor_kernel.library.fft.step_layout import joined, parted, twice


@kernel
def bins_of_half(
    first: Any,
    second: Any,
    target: Any,
    table: Any,
    rows: Any,
    half: Any,
    *,
    width: int,
    share: int,
) -> None:
    """Write half + 1 bins of rows of 2 · half real numbers, from transforms whose parts lie apart.

    ``table`` has the turns of the whole length. A unit does ``share`` vectors.
    """
    blocks = (half + width - 1) // width
    start = absolute_position() * share
    for u in range(start, min(start + share, rows * blocks)):
        row, k = u // blocks, u % blocks * width
        base, to = row * half, 2 * row * (half + 1)
        if k == 0:
            target[to] = first[base] + second[base]
            target[to + 1] = constant(0, target.dtype)
            target[to + 2 * half] = first[base] - second[base]
            target[to + 2 * half + 1] = constant(0, target.dtype)
        inside = (along(k, width) > 0) & (along(k, width) < half)
        a = first.load(base + k, width, mask=inside), second.load(base + k, width, mask=inside)
        b = mirrored(first, base, half, k, width), mirrored(second, base, half, k, width)
        w = turn_of_bins(table, k, half, width, inside)
        even = (a[0] + b[0]) * 0.5, (a[1] - b[1]) * 0.5
        # −i times half the difference.
        odd = (a[1] + b[1]) * 0.5, (b[0] - a[0]) * 0.5
        turned = multiply(odd, w)
        value = even[0] + turned[0], even[1] + turned[1]
        target.store(to + 2 * k, joined(value, width), mask=twice(inside, width))


@kernel
def half_of_bins(
    source: Any,
    first: Any,
    second: Any,
    table: Any,
    rows: Any,
    half: Any,
    *,
    width: int,
    share: int,
) -> None:
    """Write what transforms backwards to 2 · half real numbers, from half + 1 bins of each row.

    The imaginary parts of the first and the last bin do not count.
    """
    blocks = (half + width - 1) // width
    start = absolute_position() * share
    for u in range(start, min(start + share, rows * blocks)):
        row, k = u // blocks, u % blocks * width
        base, to = 2 * row * (half + 1), row * half
        if k == 0:
            first[to] = source[base] + source[base + 2 * half]
            second[to] = source[base] - source[base + 2 * half]
        inside = (along(k, width) > 0) & (along(k, width) < half)
        a = parted(source.load(base + 2 * k, 2 * width, mask=twice(inside, width)), width)
        at = half - k - (width - 1)
        there = along(at, width) > 0
        both = source.load(base + 2 * at, 2 * width, mask=twice(there, width))
        b = parted(both, width)
        b = backwards(b[0]), backwards(b[1])
        w = turn_of_bins(table, k, half, width, inside)
        even = a[0] + b[0], a[1] - b[1]
        # i times the difference, turned back.
        odd = multiply((-(a[1] + b[1]), a[0] - b[0]), (w[0], -w[1]))
        first.store(to + k, even[0] + odd[0], mask=inside)
        second.store(to + k, even[1] + odd[1], mask=inside)


@helper
def mirrored(memory: Any, base: Any, half: Any, k: Any, width: int) -> Any:
    """Return elements half − k, half − k − 1, … of a row, but not its first one."""
    at = half - k - (width - 1)
    return backwards(memory.load(base + at, width, mask=along(at, width) > 0))


def backwards(x: Any) -> Any:
    """Return the lanes the other way round."""
    return shuffle(x, range(x.width - 1, -1, -1)) if x.width > 1 else x


def turn_of_bins(table: Any, k: Any, half: Any, width: int, inside: Any) -> Pair:
    """Return the turns of bins from k on."""
    return (
        table.load(k, width, mask=inside),
        table.load(2 * half + k, width, mask=inside),
    )
