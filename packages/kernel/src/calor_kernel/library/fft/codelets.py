"""Short transforms in registers: the butterflies of a step of a long transform.

Requirements: constants are known when the kernel is built, and rounded once; products with 1, −1, i
and −i cost nothing; lengths are products of small primes. Numbers are pairs (real, imaginary),
scalars or vectors, and the transform is the forward one, with the exponent −2πi.
"""

from __future__ import annotations

from fractions import Fraction
from math import cos, pi, sin

from calor_kernel import language as kl

Pair = tuple[kl.Number, kl.Number]


def turn(part: Fraction) -> complex:
    """Return exp(−2πi · part), exact in the quarters and eighths of a turn.

    >>> turn(Fraction(1, 4)), turn(Fraction(5, 4))
    (-1j, -1j)
    """
    eighths, rest = divmod(part % 1 * 8, 1)
    # An angle of at most an eighth, from the nearer axis.
    near = rest if eighths % 2 == 0 else 1 - rest
    angle = pi / 4 * float(near)
    c, s = cos(angle), sin(angle)
    if near == 1:
        c = s = 0.5**0.5
    axis = (int(eighths) + 1) // 2 % 4
    if eighths % 2:
        s = -s
    real, imaginary = ((c, s), (-s, c), (-c, -s), (s, -c))[axis]
    return complex(real + 0.0, 0.0 - imaginary)


def add(a: Pair, b: Pair) -> Pair:
    """Return the sum."""
    return a[0] + b[0], a[1] + b[1]


def subtract(a: Pair, b: Pair) -> Pair:
    """Return the difference."""
    return a[0] - b[0], a[1] - b[1]


def multiply(a: Pair, b: Pair) -> Pair:
    """Return the product of two numbers of the device."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def scale(a: Pair, factor: complex) -> Pair:
    """Return the product with a number that the build knows."""
    real, imaginary = factor.real, factor.imag
    if imaginary == 0:
        if real == 1:
            return a
        return (-a[0], -a[1]) if real == -1 else (a[0] * real, a[1] * real)
    if real == 0:
        if imaginary == -1:
            return a[1], -a[0]
        return (-a[1], a[0]) if imaginary == 1 else (a[1] * -imaginary, a[0] * imaginary)
    if real == -imaginary:
        return (a[0] + a[1]) * real, (a[1] - a[0]) * real
    if real == imaginary:
        return (a[0] - a[1]) * real, (a[0] + a[1]) * real
    return a[0] * real - a[1] * imaginary, a[0] * imaginary + a[1] * real


def transform(values: list[Pair]) -> list[Pair]:
    """Return the discrete Fourier transform of some numbers."""
    count = len(values)
    if count == 1:
        return values
    if count == 2:
        return [add(*values), subtract(*values)]
    split = 4 if count % 4 == 0 and count > 4 else _divisor(count)
    if split == count:
        return _prime(values)
    # Cooley and Tukey, 1965: transforms of columns, twiddle factors, transforms of rows.
    rest = count // split
    columns = [transform(values[i::rest]) for i in range(rest)]
    results: list[Pair] = [values[0]] * count
    for k in range(split):
        row = [scale(columns[i][k], turn(Fraction(i * k, count))) for i in range(rest)]
        results[k::split] = transform(row)
    return results


def _divisor(count: int) -> int:
    return next(p for p in range(2, count + 1) if count % p == 0)


def _prime(values: list[Pair]) -> list[Pair]:
    """Return the transform of an odd number of values: elements k and −k share their products."""
    count = len(values)
    half = count // 2
    first = values[0]
    sums = [add(values[j], values[count - j]) for j in range(1, half + 1)]
    differences = [subtract(values[j], values[count - j]) for j in range(1, half + 1)]
    results: list[Pair] = [first] * count
    for each in sums:
        results[0] = add(results[0], each)
    for k in range(1, half + 1):
        even, odd = first, None
        for j in range(1, half + 1):
            w = turn(Fraction(j * k, count))
            even = add(even, scale(sums[j - 1], complex(w.real)))
            part = scale(differences[j - 1], complex(w.imag))
            odd = part if odd is None else add(odd, part)
        assert odd is not None
        # Plus i · odd, and minus.
        results[k] = even[0] - odd[1], even[1] + odd[0]
        results[count - k] = even[0] + odd[1], even[1] - odd[0]
    return results
