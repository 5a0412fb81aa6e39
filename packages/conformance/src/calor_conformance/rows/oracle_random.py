"""Random numbers by integer arithmetic: the words of a stream, and what is made of them.

Requirements: nothing is shared with calor. Source: Salmon, Moraes, Dror and Shaw, "Parallel random
numbers: as easy as 1, 2, 3", SC 2011, whose ten rounds of Philox4x32 are written out here in Python
integers.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .language import Array

_FACTORS: Final = (0xD2511F53, 0xCD9E8D57)
_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
_WORD: Final = (1 << 32) - 1
# Bits that are drawn for a floating number, and bits of them that it has.
DIGITS: Final = {"float16": (16, 11), "bfloat16": (16, 8), "float32": (32, 24),
                 "float64": (64, 53)}  # fmt: skip


def _block(key: int, counter: int) -> list[int]:
    first, second = key & _WORD, key >> 32
    a, b, c, d = (counter >> (32 * i) & _WORD for i in range(4))
    for _ in range(10):
        left, right = a * _FACTORS[0], c * _FACTORS[1]
        a, b, c, d = (
            (right >> 32) ^ b ^ first, right & _WORD, (left >> 32) ^ d ^ second, left & _WORD,
        )  # fmt: skip
        first, second = (first + _STEPS[0]) & _WORD, (second + _STEPS[1]) & _WORD
    return [a, b, c, d]


def numbers(key: int, count: int, width: int = 32, counter: int = 0) -> Array:
    """Return unsigned integers of a stream.

    Parameters
    ----------
    key : int
        The key, of 64 bits.
    count : int
        How many.
    width : int, default 32
        The bits of each: up to 32 are the low ones of a word; 64 are two words, the low one first.
    counter : int, default 0
        The counter of the first block, of 128 bits.

    Returns
    -------
    array
        The integers, in the unsigned dtype of that width.
    """
    words = count * 2 if width == 64 else count
    made: list[int] = []
    for block in range(-(-words // 4)):
        made += _block(key, counter + block)
    if width == 64:
        made = [low | high << 32 for low, high in zip(made[::2], made[1::2], strict=True)]
    return np.array([n & ((1 << width) - 1) for n in made[:count]], f"u{width // 8}")


def uniform(key: int, count: int, dtype: str, counter: int = 0) -> Array:
    """Return uniform numbers in [0, 1) of a stream, in float64, which has all their digits."""
    drawn, kept = DIGITS[dtype]
    words = numbers(key, count, drawn, counter)
    return np.array([int(w) >> (drawn - kept) for w in words]) * 2.0**-kept


def integers(key: int, count: int, low: int, high: int, counter: int = 0) -> list[int]:
    """Return integers in [low, high) of a stream."""
    span = high - low
    words = numbers(key, count, 32 if span < 1 << 16 else 64, counter)
    return [low + int(w) % span for w in words]


def order(key: int, count: int, counter: int = 0) -> Array:
    """Return a random order of 0 … count − 1 of a stream."""
    return np.argsort(numbers(key, count, 64, counter), kind="stable")


def parts(key: int, count: int) -> list[int]:
    """Return the keys that are split from a key."""
    words = numbers(key, 2 * count, counter=1 << 96)
    return [int(a) | int(b) << 32 for a, b in zip(words[::2], words[1::2], strict=True)]


def after(draws: int) -> int:
    """Return the counter of a generator after some draws."""
    return draws << 32
