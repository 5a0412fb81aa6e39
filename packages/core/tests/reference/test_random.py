"""Philox4x32-10 against Random123's known answers and a plain integer version."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calor.reference.random import random_bits

# Of Random123's kat_vectors: counter, key, result.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


def words(text: str) -> Any:
    """Return hexadecimal words as uint32."""
    return np.array([int(w, 16) for w in text.split()], np.uint32)


def block(counter: int, key: tuple[int, int]) -> list[int]:
    """Return one block of Philox4x32-10 in Python's integers."""
    x = [counter >> (32 * i) & 0xFFFFFFFF for i in range(4)]
    k0, k1 = key
    for _ in range(10):
        first, second = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [
            second >> 32 ^ x[1] ^ k0,
            second & 0xFFFFFFFF,
            first >> 32 ^ x[3] ^ k1,
            first & 0xFFFFFFFF,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return x


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_known_answers(counter: str, key: str, result: str) -> None:
    got = random_bits(words(key), words(counter), shape=(4,), bits=32)
    assert got.dtype == np.uint32
    np.testing.assert_array_equal(got, words(result))


@pytest.mark.parametrize("start", [0, 5, 2**32 - 2, 2**64 - 1, 2**96 - 2, 2**128 - 3, 2**127 + 7])
def test_the_counter_carries(start: int) -> None:
    counter = np.array([start >> (32 * i) & 0xFFFFFFFF for i in range(4)], np.uint32)
    got = random_bits(np.array([3, 2**32 - 1], np.uint32), counter, shape=(5, 4), bits=32)
    expected = [block((start + i) % 2**128, (3, 2**32 - 1)) for i in range(5)]
    assert got.tolist() == expected


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (2, 3), (7, 5)])
def test_widths(shape: tuple[int, ...]) -> None:
    key, counter = np.array([1, 2], np.uint32), np.array([9, 0, 0, 0], np.uint32)
    size = int(np.prod(shape))
    stream = np.array([block(9 + i, (1, 2)) for i in range(size // 2 + 1)], np.uint64).reshape(-1)
    expected = {
        8: stream[:size] & np.uint64(0xFF),
        16: stream[:size] & np.uint64(0xFFFF),
        32: stream[:size],
        64: stream[0::2][:size] | stream[1::2][:size] << np.uint64(32),
    }
    for bits, values in expected.items():
        got = random_bits(key, counter, shape=shape, bits=bits)
        assert got.dtype == np.dtype(f"u{bits // 8}")
        np.testing.assert_array_equal(got, values.reshape(shape))


def test_long_streams_are_the_same_element_by_element() -> None:
    key, counter = np.array([7, 8], np.uint32), np.array([2**32 - 3, 2**32 - 1, 4, 0], np.uint32)
    long = random_bits(key, counter, shape=(200_001,), bits=32)
    start = (2**32 - 3) + ((2**32 - 1) << 32) + (4 << 64)
    for i in (0, 11, 12, 32767, 32768, 100_000, 200_000):
        assert long[i] == block(start + i // 4, (7, 8))[i % 4]
    assert abs(long.mean() / 2**31 - 1) < 0.01


def test_results_are_arrays_of_their_own() -> None:
    key, counter = np.array([7, 8], np.uint32), np.zeros(4, np.uint32)
    got = random_bits(key, counter, shape=(3,), bits=32)
    got[...] = 0
    assert key.tolist() == [7, 8]
    assert counter.tolist() == [0, 0, 0, 0]
