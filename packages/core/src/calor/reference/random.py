"""Random bits from a counter: Philox4x32-10.

Requirements: the bits are a function of key and counter alone, the same on every device, and each
element's can be computed apart. Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
easy as 1, 2, 3", SC 2011; the tests hold Random123's known answers.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from calor.reference.precision import Array

Words = np.ndarray[Any, np.dtype[np.uint64]]

_FIRST: Final = np.uint64(0xD2511F53)
_SECOND: Final = np.uint64(0xCD9E8D57)
_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_UNSIGNED: Final[dict[int, type[np.unsignedinteger[Any]]]] = {
    8: np.uint8,
    16: np.uint16,
    32: np.uint32,
    64: np.uint64,
}
# Counter blocks that are computed at a time, so that the words stay in the cache.
_CHUNK: Final = 1 << 13


def random_bits(key: Array, counter: Array, *, shape: tuple[int, ...], bits: int) -> Array:
    """Return random unsigned integers of 8, 16, 32 or 64 bits.

    ``key`` is uint32[2], ``counter`` uint32[4], its least significant word first. Element i in
    row-major order is word i % 4 of the block counter + i // 4, counted modulo 2**128; elements of
    8 and 16 bits take the low bits of a word of their own, those of 64 bits two words, the low one
    first.
    """
    count = prod(shape)
    words = count * 2 if bits == 64 else count
    blocks = -(-words // 4)
    result = np.empty((blocks, 4), np.uint32)
    keys = [int(k) for k in key]
    low = int(counter[0]) | int(counter[1]) << 32
    high = int(counter[2]) | int(counter[3]) << 32
    for start in range(0, blocks, _CHUNK):
        part = result[start : start + _CHUNK]
        numbers = np.arange(start, start + len(part), dtype=np.uint64) + np.uint64(low)
        # The low half wrapped where it is below its start; then one is carried.
        carried = np.array([high, (high + 1) & (2**64 - 1)], np.uint64)
        upper = carried[(numbers < np.uint64(low)).astype(np.intp)]
        _philox(part, numbers, upper, keys)
    flat = result.reshape(-1)
    if bits == 64:
        flat = flat.view("<u8")
    return flat[:count].astype(_UNSIGNED[bits], copy=False).reshape(shape)


def _philox(result: Array, numbers: Words, upper: Words, keys: list[int]) -> None:
    """Write the words of the counter blocks (numbers, upper), ten rounds of them."""
    a, b = numbers & _LOW, numbers >> _HALF
    c, d = upper & _LOW, upper >> _HALF
    for _ in range(10):
        left, right = a * _FIRST, c * _SECOND
        b ^= right >> _HALF
        b ^= np.uint64(keys[0])
        d ^= left >> _HALF
        d ^= np.uint64(keys[1])
        a, b, c, d = b, right & _LOW, d, left & _LOW
        keys = [(k + step) & 0xFFFFFFFF for k, step in zip(keys, _STEPS, strict=True)]
    for i, words in enumerate((a, b, c, d)):
        result[:, i] = words
