"""GELU by the binary logarithm of a tail: few instructions, and digits for negative arguments.

Requirements: the epilogues of products evaluate an activation for each sum, so its instructions
count. Only correctly rounded operations are used, so every device gives the same bits. Results for
negative arguments do not lose their digits, as they do in 1 + erf.

GELU is max(x, 0) − a · q(a) with a = |x|, where q is the upper tail of the distribution. Its binary
logarithm is smooth, so it is a polynomial of a, and 2 to its power one of the fraction. Half types
need shorter polynomials: their results are within 0.501 units of bfloat16 and 0.59 of float16,
those of float32 within 2 units for positive arguments and 3, 8 and 70 down to −1, −2 and −6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from calor_kernel import language as kl
from calor_kernel.library.math.base import bits_of, format_of, polynomial
from calor_kernel.library.math.coefficients import EXP2


class Tail(NamedTuple):
    """The binary logarithm of a tail for arguments up to ``end``, and 2 ** r for |r| ≤ 1/2.

    Coefficients are constants first; those of the power have no constant, which is 1.
    """

    end: float
    logarithm: tuple[float, ...]
    power: tuple[float, ...]


SHORT: Final = (0.6931218, 0.24024744, 0.055917878, 0.0095700985)
# Least maximum errors relative to q up to 5.6 (5 for float32); beyond, errors count less and less.
NORMAL: Final = Tail(
    10.0,
    (-1.0, -1.1511046, -0.45922104, -0.0524272, 0.006898695, 7.158195e-05, -0.00033751727,
     0.000104229715, -1.9167965e-05, 2.3458626e-06, -1.8743357e-07, 8.859494e-09, -1.8772109e-10),
    tuple(EXP2[0]),
)  # fmt: skip
NORMAL_OF_HALVES: Final = Tail(
    12.0,
    (-0.99999756, -1.1512319, -0.45850983, -0.053913604, 0.008483939, -0.0009240112,
     6.070779e-05, -1.7866648e-06),
    SHORT,
)  # fmt: skip
BY_TANH_OF_HALVES: Final = Tail(
    9.0,
    (-0.99993694, -1.15288, -0.45115957, -0.06462887, 0.016637279, -0.0016648046,
     -0.0014008582, 0.0004224085, -4.678578e-05, 1.8998447e-06),
    SHORT,
)  # fmt: skip


def by_tail(x: kl.Number, tail: Tail) -> kl.Number:
    """Return max(x, 0) − |x| · q(|x|) for float32, NaN at −∞."""
    size = kl.min(abs(x), kl.constant(tail.end, x.dtype))
    scaled = short_exp2(polynomial(size, tail.logarithm), tail.power)
    # max(x, 0), with the sign of a zero, and NaN at −∞ as the product of x and 0.
    above = x * kl.select(x > 0.0, kl.constant(1.0, x.dtype, x.width), 0.0)
    return kl.fma(-size, scaled, above)


def short_exp2(x: kl.Number, power: Sequence[float]) -> kl.Number:
    """Return 2 ** x for float32 from −126 to 127; any number for NaN.

    ``power``: the coefficients of 2 ** r for |r| ≤ 1/2 without the constant, which is 1.
    """
    form = format_of(x)
    # The integer nearest to x is in the low bits of the total.
    total = x + form.magic
    rest = x - (total - form.magic)
    made = kl.fma(rest, polynomial(rest, power), kl.constant(1.0, x.dtype, x.width))
    return kl.bitcast(bits_of(made) + (bits_of(total) << form.fraction), x.dtype)
