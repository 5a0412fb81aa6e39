"""The order of samples: a function of a seed and the epoch, the same on every machine.

Requirements: neither the number of workers nor the version of NumPy may change it, so it is made
from the raw bits of a counter-based generator (Philox, Salmon et al., 2011), whose stream NumPy
guarantees, and not from distributions, whose stream it does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import calor
from calor.errors import ArgumentError
from calor.functions.arguments import integer
from calor.random import Generator

Indices = npt.NDArray[np.int64]


def whole_seed(given: int | Generator | None) -> int:
    """Return a seed as a number: as given, or drawn from a generator (None: the global one)."""
    if given is None or isinstance(given, Generator):
        drawn: Any = calor.random.bits((), width=32, generator=given).item()
        return int(drawn)
    number = integer(given, "a seed")
    if number < 0:
        raise ArgumentError(f"a seed must be at least 0, not {given}")
    return number & 0xFFFFFFFFFFFFFFFF


def epoch_order(count: int, seed: int, epoch: int) -> Indices:
    """Return 0 … count − 1 in the random order of one epoch.

    >>> from calor_train.data.order import epoch_order
    >>> sorted(epoch_order(5, seed=0, epoch=0).tolist())
    [0, 1, 2, 3, 4]
    """
    key = np.array([seed, epoch], np.uint64)
    drawn = np.random.Philox(key=key).random_raw(count)
    return np.argsort(drawn, kind="stable").astype(np.int64)


def batch_generator(seed: int, epoch: int, batch: int) -> np.random.Generator:
    """Return the random generator of one batch, the same in every worker; for augmentation."""
    key = np.array([seed, epoch], np.uint64)
    # The order of the epoch uses the counters below; each batch has 2¹⁹² of its own.
    counter: Any = np.array([0, 0, 0, batch + 1], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
