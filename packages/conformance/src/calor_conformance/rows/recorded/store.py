"""The file of recorded calls: arguments' marks, heads, numbers, and how far these may be off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np

from ..language import Array

STORED: Final = Path(__file__).with_name("calls.npz")
# The exponent of a bound of 0, and the least and greatest.
_EXACT, _LEAST, _MOST = -128, -127, 127


@dataclass(frozen=True)
class Recorded:
    """A call and what it gave.

    Parameters
    ----------
    number : int
        The number of the call of its subject.
    mark : int
        The mark of its arguments.
    slopes : bool
        Whether derivatives are among its results.
    heads : tuple of str
        What its results are.
    values, bounds : ndarray
        The numbers of its results and how far each may be off, of shape (n,).
    """

    number: int
    mark: int
    slopes: bool
    heads: tuple[str, ...]
    values: Array = field(repr=False)
    bounds: Array = field(repr=False)


def write(path: Path, calls: dict[str, Sequence[Recorded]]) -> None:
    """Write calls by the label of their subject."""
    index: dict[str, list[Any]] = {}
    values, bounds = [np.zeros(0)], [np.zeros(0)]
    for label, own in sorted(calls.items()):
        index[label] = [[c.number, c.mark, c.slopes, c.values.size, c.heads] for c in own]
        values += [c.values for c in own]
        bounds += [c.bounds for c in own]
    text = json.dumps(index, separators=(",", ":"), ensure_ascii=False).encode()
    np.savez_compressed(
        path,
        index=np.frombuffer(text, np.uint8),
        streams=np.uint32(streams()),
        values=np.concatenate(values),
        bounds=_exponents(np.concatenate(bounds)),
    )
    read.cache_clear()


@cache
def streams() -> int:
    """Return a number that another stream of NumPy's random numbers most likely has not."""
    rng = np.random.default_rng(7)
    drawn = (
        rng.integers(-9, 9, 5), rng.random(5), rng.normal(size=5), rng.permutation(5),
        rng.choice((1.5, 2.5, 3.5), 5), rng.choice((0, 1, 2), p=(0.2, 0.3, 0.5)), rng.uniform(1, 2),
        rng.integers(0, 2**63, 3), rng.choice(("a", "b", "c"), 3).astype("S1"),
    )  # fmt: skip
    made = 0
    for one in drawn:
        made = crc32(np.asarray(one).tobytes(), made)
    return made


@cache
def drawn_alike(path: Path = STORED) -> bool:
    """Return whether this release of NumPy draws the numbers of the record."""
    with np.load(path) as held:
        return int(held["streams"]) == streams()


def _exponents(bounds: Array) -> Array:
    with np.errstate(divide="ignore"):
        made = np.clip(np.ceil(np.log2(bounds)), _LEAST, _MOST)
    return np.where(bounds == 0, _EXACT, made).astype(np.int8)


@cache
def read(path: Path = STORED) -> dict[str, list[Recorded]]:
    """Return the calls by the label of their subject."""
    if not path.exists():
        return {}
    with np.load(path) as held:
        index = json.loads(held["index"].tobytes())
        values, exponents = held["values"], held["bounds"].astype(np.float64)
    bounds = np.where(exponents == _EXACT, 0.0, 2.0**exponents)
    made: dict[str, list[Recorded]] = {}
    at = 0
    for label, own in index.items():
        made[label] = []
        for number, mark, slopes, size, heads in own:
            cut = slice(at, at + size)
            made[label].append(
                Recorded(number, mark, slopes, tuple(heads), values[cut], bounds[cut])
            )
            at += size
    return made
