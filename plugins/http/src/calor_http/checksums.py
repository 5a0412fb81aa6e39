"""Checksums of contents: CRC-32, as zlib has it.

Requirements: a checksum is no reason for contents to wait. By the extra "isal" it is made by the
processor's instructions for it; without, several threads make those of the parts of large contents,
which are joined as polynomials modulo that of CRC-32 (as zlib's `crc32_combine` does), while others
are sent or received.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Final

Content = bytes | bytearray | memoryview

# None where the extra "isal" is not installed.
_quick: Final[Callable[[Content, int], int] | None] = (
    import_module("isal.isal_zlib").crc32 if find_spec("isal") else None
)
# Parts are as large at least: a hand from thread to thread takes as long as some of that.
_PART: Final = 1 << 19
_MOST: Final = 4
# The polynomial without its highest term, and 1, both with the bits in zlib's order.
_POLYNOMIAL: Final = 0xEDB88320
_ONE: Final = 1 << 31


def crc32(content: Content, value: int = 0) -> int:
    """Return the checksum of content, behind content whose checksum is known.

    Parameters
    ----------
    content : bytes-like
        The content.
    value : int, optional
        The checksum of what stands before it.

    Returns
    -------
    int
        The checksum of both, 32 bits.
    """
    if _quick is not None:
        return _quick(content, value)
    count = min(len(content) // _PART, _threads())
    if count < 2:
        return zlib.crc32(content, value)
    return by_parts(content, value, count)


def begun(content: Content, value: int = 0) -> Callable[[], int]:
    """Begin to make a checksum, and return what waits for it.

    Parameters
    ----------
    content : bytes-like
        The content, which does not change meanwhile.
    value : int, optional
        The checksum of what stands before it.

    Returns
    -------
    callable
        Returns the checksum of both.
    """
    # What the processor's instructions make of a piece takes no longer than to tell a thread of it.
    count = 1 if _quick is not None else min(len(content) // _PART, _threads())
    if count < 2:
        found = crc32(content, value)
        return lambda: found
    return _parts_begun(content, value, count)


def by_parts(content: Content, value: int, count: int) -> int:
    """Return the checksum of content, of which several threads take a part each.

    Parameters
    ----------
    content : bytes-like
        The content.
    value : int
        The checksum of what stands before it.
    count : int
        How many parts there are, at least 1.

    Returns
    -------
    int
        The checksum.
    """
    return _parts_begun(content, value, count)()


def _parts_begun(content: Content, value: int, count: int) -> Callable[[], int]:
    view = memoryview(content)
    size = -(-len(view) // count)
    parts = [view[place : place + size] for place in range(0, len(view), size)]
    before = [value, *[0] * (len(parts) - 1)]
    begun = [_submitted(*given) for given in zip(parts, before, strict=True)]

    def ended() -> int:
        found = begun[0]()
        for part, other in zip(parts[1:], begun[1:], strict=True):
            found = _times(_shift(len(part)), found) ^ other()
        return found

    return ended


def _submitted(part: Content, value: int) -> Callable[[], int]:
    try:
        return _pool().submit(zlib.crc32, part, value).result
    except RuntimeError:
        # The interpreter ends, and no thread takes more work.
        found = zlib.crc32(part, value)
        return lambda: found


@cache
def processors() -> int:
    """Return how many processors this process may use."""
    known = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return known or 1


def _threads() -> int:
    """Return how many threads make checksums; of few processors both ends need one each."""
    return min(processors() // 2, _MOST)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MOST, "calor-http-checksums")


# A child of a fork has none of its parent's threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _times(a: int, b: int) -> int:
    """Return the product of two polynomials modulo that of CRC-32."""
    made = 0
    for place in range(31, -1, -1):
        if a >> place & 1:
            made ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return made


@cache
def _power(exponent: int) -> int:
    """Return x to the power of 2 to the exponent."""
    return _ONE >> 1 if exponent == 0 else _times(_power(exponent - 1), _power(exponent - 1))


@cache
def _shift(nbytes: int) -> int:
    """Return x to the power of the bits of so many bytes, which come behind what is shifted."""
    found, bits = _ONE, 8 * nbytes
    for place in range(bits.bit_length()):
        if bits >> place & 1:
            found = _times(_power(place), found)
    return found
