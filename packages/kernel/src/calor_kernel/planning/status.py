"""Blocks of status words, in which kernels report failures, where the host reads them at once."""

from __future__ import annotations

from collections.abc import Iterable
from ctypes import c_int32
from typing import NamedTuple

from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.device.pool import Pool


class Words(NamedTuple):
    """A block, and the words in it."""

    block: KernelBuffer
    words: tuple[c_int32, ...]

    @property
    def clean(self) -> bool:
        """Whether all words are zero."""
        return not [word for word in self.words if word.value]


def zeroed(pool: Pool, nbytes: int) -> KernelBuffer:
    """Return a fresh block of zeros."""
    block = pool.uncounted(nbytes)
    pool.memory.write(block.handle, bytes(nbytes))
    return block


def words_at(pool: Pool, nbytes: int, places: Iterable[int]) -> Words:
    """Return a fresh block of zeros with words at these byte offsets."""
    block = zeroed(pool, nbytes)
    address = pool.memory.address(block.handle)
    assert address is not None
    return Words(block, tuple(c_int32.from_address(address + at) for at in places))
