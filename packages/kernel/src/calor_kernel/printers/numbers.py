"""Numbers as literals that every C-like compiler reads back exactly.

Fractions without an exact decimal form are written in hexadecimal. C has no literals of the
smallest integers, so they are written as differences.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from calor.dtypes import DType

_EASY = 8


def decimal_or_hexadecimal(number: float) -> str:
    """Return a finite float as text without a suffix, exact in both forms.

    >>> decimal_or_hexadecimal(0.25), decimal_or_hexadecimal(0.1)
    ('0.25', '0x1.999999999999ap-4')
    """
    short = repr(number)
    plain = len(short) <= _EASY and "e" not in short
    if plain and Fraction(short) == Fraction(number):
        return short
    mantissa, _, exponent = number.hex().partition("p")
    head, _, digits = mantissa.partition(".")
    digits = digits.rstrip("0")
    return f"{head}.{digits}p{exponent}" if digits else f"{head}p{exponent}"


def bits_of(number: Any, dtype: DType) -> int:
    """Return the bits of a number in a dtype, as an unsigned integer.

    >>> from calor.dtypes import float16, int8
    >>> hex(bits_of(1.0, float16)), bits_of(-1, int8)
    ('0x3c00', 255)
    """
    if dtype.kind != "float":
        return int(number) & ((1 << int(dtype.itemsize) * 8) - 1)
    with np.errstate(all="ignore"):
        made = np.asarray(number, np.float64).astype(dtype.numpy)
    return int(made.view(f"u{dtype.itemsize}"))


def integer(number: int, dtype: DType, suffix: str = "") -> str:
    """Return an integer literal; ``suffix`` is that of its type, for numbers beyond C's int.

    >>> from calor.dtypes import int32
    >>> integer(-(2**31), int32)
    '(-2147483647 - 1)'
    """
    if dtype.kind == "int" and number == -(1 << (dtype.itemsize * 8 - 1)) and dtype.itemsize >= 4:
        return f"({number + 1}{suffix} - 1)"
    return f"{number}{suffix}"


def is_special(number: float) -> bool:
    """Return whether a float is an infinity or NaN, which have no literals."""
    return math.isinf(number) or math.isnan(number)
