"""Faults of random bits."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from calor.backends.op_table import Function

from .base import Array, Broken, Fault, afterwards, changing

WORD = 1 << 32


def _moved(counter: Array, blocks: int) -> Array:
    """Return a counter some blocks further on."""
    number = sum(int(w) << (32 * i) for i, w in enumerate(counter)) + blocks
    return np.array([number >> (32 * i) & (WORD - 1) for i in range(4)], np.uint32)


def _a_block_late(right: Function) -> Function:
    def random_bits(key: Array, counter: Array, *, shape: Any, bits: int) -> Any:
        return right(key, _moved(counter, 1), shape=shape, bits=bits)

    return random_bits


def _without_carry(words: int) -> Any:
    """Make the counter's first words one that starts again at 0 without a carry."""

    def changed(right: Function) -> Function:
        def random_bits(key: Array, counter: Array, *, shape: Any, bits: int) -> Any:
            count = int(np.prod(shape)) * (2 if bits == 64 else 1)
            start = sum(int(w) << (32 * i) for i, w in enumerate(counter[:words]))
            left = (1 << 32 * words) - start
            if -(-count // 4) <= left:
                return right(key, counter, shape=shape, bits=bits)
            again = counter.copy()
            again[:words] = 0
            size = 4 * left // (2 if bits == 64 else 1)
            head = right(key, counter, shape=(size,), bits=bits)
            tail = right(key, again, shape=(int(np.prod(shape)) - size,), bits=bits)
            return np.concatenate([head, tail]).reshape(shape)

        return random_bits

    return changed


def _high_first(right: Function) -> Function:
    def random_bits(key: Array, counter: Array, *, shape: Any, bits: int) -> Any:
        made = right(key, counter, shape=shape, bits=bits)
        if bits != 64:
            return made
        return (made >> np.uint64(32)) | (made << np.uint64(32))

    return random_bits


def _high_bits(right: Function) -> Function:
    def random_bits(key: Array, counter: Array, *, shape: Any, bits: int) -> Any:
        if bits > 16:
            return right(key, counter, shape=shape, bits=bits)
        words = right(key, counter, shape=shape, bits=32)
        return (words >> np.uint32(32 - bits)).astype(f"u{bits // 8}")

    return random_bits


def _half_a_key(right: Function) -> Function:
    def random_bits(key: Array, counter: Array, *, shape: Any, bits: int) -> Any:
        return right(np.array([key[0], 0], np.uint32), counter, shape=shape, bits=bits)

    return random_bits


def _in_columns(right: Function) -> Function:
    def random_bits(key: Array, counter: Array, *, shape: Any, bits: int) -> Any:
        return right(key, counter, shape=shape[::-1], bits=bits).T

    return random_bits


def _signed_words(right: Function) -> Function:
    """Take unsigned integers of 64 bits for signed ones."""

    def sort(x: Array, **attributes: Any) -> Any:
        return right(x.view(np.int64) if x.dtype == np.uint64 else x, **attributes)

    return sort


def _signed_remainder(right: Function) -> Function:
    def remainder(x: Array, y: Array) -> Any:
        if x.dtype != np.uint64:
            return right(x, y)
        return right(x.astype(np.int64), np.asarray(y).astype(np.int64)).astype(np.uint64)

    return remainder


class OtherBitsLater(Broken):
    """Random bits depend on how often they were asked for."""

    def table(self, index: int) -> Mapping[str, Function]:
        """Change the random bits of every call."""
        made = super().table(index)
        right, calls = made["random_bits"], itertools.count()

        def random_bits(key: Array, counter: Array, **attributes: Any) -> Any:
            return right(key, _moved(counter, next(calls)), **attributes)

        return {**made, "random_bits": random_bits}


def _three_deviations(made: Any, operands: Any, attributes: Any) -> Any:
    return np.clip(made, made.dtype.type(-2.2), made.dtype.type(2.2))


FAULTS = [
    Fault(
        "random-a-block-late",
        "random bits start one block after the counter",
        changing(random_bits=_a_block_late),
        ("random/known_answers", "random/bits/uint32"),
        ("random_bits",),
    ),
    Fault(
        "random-carry-lost",
        "the first word of the counter starts again without a carry",
        changing(random_bits=_without_carry(1)),
        ("random/bits/uint32",),
        ("random_bits",),
    ),
    Fault(
        "random-late-carry-lost",
        "the first three words of the counter start again without a carry",
        changing(random_bits=_without_carry(3)),
        ("random/bits/uint32",),
        ("random_bits",),
    ),
    Fault(
        "random-words-turned",
        "random numbers of 64 bits have their high word first",
        changing(random_bits=_high_first),
        ("random/bits/uint64",),
        ("random_bits",),
    ),
    Fault(
        "random-high-bits",
        "random bytes are the high bits of their words",
        changing(random_bits=_high_bits),
        ("random/bits/uint8", "random/bits/uint16"),
        ("random_bits",),
    ),
    Fault(
        "random-half-a-key",
        "the second word of the key is not read",
        changing(random_bits=_half_a_key),
        ("random/known_answers",),
        ("random_bits",),
    ),
    Fault(
        "random-in-columns",
        "random numbers fill an array column by column",
        changing(random_bits=_in_columns),
        ("random/shapes_of_bits",),
        ("random_bits",),
    ),
    Fault(
        "random-words-signed",
        "words of 64 bits are sorted as signed integers",
        changing(sort=_signed_words),
        ("random/orders_of_words",),
    ),
    Fault(
        "random-remainders-signed",
        "the remainder of words of 64 bits is that of signed integers",
        changing(remainder=_signed_remainder),
        ("random/ranges_of_integers",),
    ),
    Fault(
        "random-tails-cut",
        "the inverse of the error function ends at three standard deviations",
        changing(erfinv=afterwards(_three_deviations)),
        ("random/extremes/float32",),
    ),
    Fault(
        "random-bits-change",
        "the same key and counter give other bits at each call",
        OtherBitsLater,
        ("transforms/recomputed-with-drawn-masks", "random/drawn_streams"),
        ("random_bits",),
    ),
]
