"""Numbers without operands: ramps, random bits at any counter."""

from __future__ import annotations

import numpy as np

from calor.dtypes import DType, uint8, uint16, uint32, uint64
from calor.ops.base import find

from ..language import Array
from .language import Problem, Subject
from .pairwise import Scenario

_MASK = (1 << 32) - 1
_LOW64 = (1 << 64) - 1
_ROUNDS = 10


def philox(counters: Array, key: Array) -> Array:
    """Return the blocks of Philox4x32-10 for counters ``(n, 4)``, by the paper's definition.

    Parameters
    ----------
    counters : array of uint64
        Four words of 32 bits for each block.
    key : array of uint64
        Two words of 32 bits.

    Returns
    -------
    array of uint64
        Four words for each block.

    References
    ----------
    Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    c = [counters[:, i].astype(np.uint64) for i in range(4)]
    k = [int(key[0]), int(key[1])]
    low = np.uint64(_MASK)
    for _ in range(_ROUNDS):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        high, rest = a >> np.uint64(32), a & low
        other, last = b >> np.uint64(32), b & low
        c = [other ^ c[1] ^ np.uint64(k[0]), last, high ^ c[3] ^ np.uint64(k[1]), rest]
        k = [(k[0] + 0x9E3779B9) & _MASK, (k[1] + 0xBB67AE85) & _MASK]
    return np.stack(c, 1)


def _random(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    bits, start = 8 * dtype.itemsize, scenario["counter"]
    shape = scenario["lead"] + (scenario["length"],)
    key = rng.integers(0, 1 << 32, 2, dtype=np.uint32)
    words = [(start >> (32 * i)) & _MASK for i in range(4)]
    counter = np.array(words, np.uint32)

    def want() -> list[Array]:
        count = int(np.prod(shape))
        blocks = -(-count * (2 if bits == 64 else 1) // 4)
        first, rest = np.uint64(start & _LOW64), start >> 64
        numbers = np.arange(blocks, dtype=np.uint64) + first
        # The upper half counts where the lower one wraps.
        uppers = np.array([rest, (rest + 1) & _LOW64], np.uint64)
        upper = uppers[(numbers < first).astype(np.intp)]
        low, half = np.uint64(_MASK), np.uint64(32)
        counters = np.stack([numbers & low, numbers >> half, upper & low, upper >> half], 1)
        flat = philox(counters, key).reshape(-1)
        if bits == 64:
            flat = flat[::2] | flat[1::2] << np.uint64(32)
        with np.errstate(all="ignore"):
            return [flat[:count].astype(dtype.numpy).reshape(shape)]

    return Problem(
        [key, counter],
        lambda k, c: find("random_bits")(k, c, shape=shape, bits=bits),
        want,
        [dtype],
    )


_COUNTERS = (0, 1, _MASK - 1, _MASK, (1 << 64) - 2, (1 << 128) - 3)

SUBJECTS: list[Subject] = [
    Subject("random_bits", _random, (uint32, uint64, uint8, uint16),
            {"length": (7, 1, 33, 257, 1500, 65_537, (1 << 18) + 3), "lead": ((), (3,), (2, 1, 2)),
             "counter": _COUNTERS, "order": ("plain", "cut")},
            {"length": ((1 << 20) + 3,)}),
]  # fmt: skip
