"""Sorts and searches of keys in orders that are hard to split, in every dtype.

Random keys are split in halves by any pivot. Rows that rise, fall, rise and fall, repeat, or have
few keys, and rows that were written against the medians of quicksort, take the ways that a sort
has for bad luck, at lengths beyond those that fit registers and caches. Values, places, both, and
the first few are asked for, in both directions, along the last axis and another one; NumPy sorts
the same keys stably. Extremes of such rows are equal in many places, or are NaN in several, and the
first of them is asked for, as are extremes so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import DType, as_dtype, int64

from ..rows.definitions import written
from .base import Array, Check, Place

CONTRACT: Final = "a sort of {} is stable and complete, whatever order the keys come in"
EXTREMES: Final = "of equal extremes of {} the first is found, and NaN before any number"
# Lengths of rows: of a few vectors, beyond registers, and beyond shared memory and caches.
_LENGTHS: Final = ((100, 600), (1000, 9000), (20_000, 50_000))
_DTYPES: Final = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
Rng = np.random.Generator


def _killer(rng: Rng, n: int) -> Array:
    """Return an order in which the median of three is among the least keys again and again."""
    half = n // 2
    made = np.empty(n, np.int64)
    made[:half:2] = np.arange(0, half, 2)
    made[1:half:2] = half + np.arange(len(made[1:half:2]))
    made[half:] = 2 * np.arange(n - half)
    return made


def _late_step(rng: Rng, n: int) -> Array:
    made = np.zeros(n, np.int64)
    made[-int(rng.integers(1, 4)) :] = 1
    return made


def _far(rng: Rng, n: int) -> Array:
    made = rng.integers(0, 9, n)
    made[rng.integers(n)] = 1 << 40
    return made


_ORDERS: Final[dict[str, Callable[[Rng, int], Array]]] = {
    "rising": lambda rng, n: np.arange(n),
    "falling": lambda rng, n: n - np.arange(n),
    "up and down": lambda rng, n: np.minimum(np.arange(n), n - np.arange(n)),
    "down and up": lambda rng, n: np.maximum(np.arange(n), n - np.arange(n)),
    "saws": lambda rng, n: np.arange(n) % int(rng.integers(2, 70)),
    "few keys": lambda rng, n: rng.integers(0, int(rng.integers(1, 5)), n),
    "one key": lambda rng, n: np.full(n, int(rng.integers(-2, 3))),
    "one late step": _late_step,
    "one far key": _far,
    "against medians": _killer,
    "in steps of powers": lambda rng, n: 1 << (np.arange(n) % 62),
    "ends of the dtype": lambda rng, n: rng.choice([-(1 << 62), -1, 0, 1, 1 << 62], n),
    "random": lambda rng, n: rng.permutation(n),
}  # fmt: skip


def _keys(rng: Rng, order: str, n: int, dtype: DType) -> Array:
    """Return keys of a dtype: integers wrap, and floats have both signs, infinities and NaN."""
    made = np.asarray(_ORDERS[order](rng, n), np.int64)
    kind = dtype.numpy
    if dtype.kind == "bool":
        return np.asarray(made % 2 == 1)
    if dtype.kind in ("int", "uint"):
        if order == "ends of the dtype":
            limits = np.iinfo(kind)
            ends = np.array([limits.min, limits.min + 1, limits.max - 1, limits.max], kind)
            return np.asarray(ends[rng.integers(0, 4, n)])
        return made.astype(kind)
    centred = (made - (made.max() // 2 if rng.integers(2) else 0)).astype(np.float64)
    with np.errstate(over="ignore"):
        keys: Array = np.asarray(centred.astype(kind))
    if rng.integers(2):
        some = rng.integers(0, n, 6)
        for place, value in zip(some, (np.nan, -0.0, 0.0, np.inf, -np.inf, np.nan), strict=True):
            keys[place] = value
    return keys


def _places(keys: Array, descending: bool) -> Array:
    """Return the places of keys in their stable order, NaN last in both directions."""
    # Dense ranks are exact in any dtype, and may be negated.
    wide = keys.astype(np.float64) if keys.dtype.kind not in "biu" else keys
    nan = wide != wide
    _, ranks = np.unique(np.where(nan, 0, wide), return_inverse=True)
    ranks = np.asarray(ranks, np.int64).reshape(keys.shape)
    ranks = np.where(nan, len(keys) + 1, -ranks if descending else ranks)
    return np.argsort(ranks, kind="stable")


def _asked(place: Place, rng: Rng, keys: Array, told: str) -> None:
    descending, along = bool(rng.integers(2)), int(rng.integers(4)) > 0
    rows = int(rng.integers(1, 4 if keys.size < 9000 else 2))
    block = np.stack([np.roll(keys, k) for k in range(rows)])
    want = np.stack([_places(row, descending) for row in block])
    held = calor.asarray(block if along else np.ascontiguousarray(block.T))
    axis = 1 if along else 0
    count = int(rng.choice([1, 5, keys.size // 9, keys.size]))
    form = int(rng.integers(4))

    def values(x: Any) -> Any:
        return calor.sort(x, axis=axis, descending=descending)

    def places(x: Any) -> Any:
        return calor.argsort(x, axis=axis, descending=descending)

    def both(x: Any) -> Any:
        at = places(x)
        return calor.take_along_axis(x, at, axis=axis), at

    def front(x: Any) -> Any:
        at = places(x)
        cut = (slice(None), slice(count)) if along else (slice(count),)
        return values(x)[cut], at[cut]

    run = (values, places, both, front)[form]
    made = [t.numpy() for t in calor.tree.leaves(calor.jit(run)(held))]
    size = count if form == 3 else keys.size
    sought = want[:, :size]
    wants = [np.take_along_axis(block, sought, 1)] * (form != 1) + [sought] * (form != 0)
    for result, right in zip(made, wants, strict=True):
        got = result if along else result.T
        # −0 and 0 are one key, and a sort of values alone may give either.
        same = np.asarray(got == right) | ((right != right) & (got != got))
        wrong = np.argwhere(~same)
        assert not len(wrong), (
            f"{told}, {rows} rows {'' if along else 'as columns'}, {descending=}, "
            f"{run.__name__} of {size}: {got[tuple(wrong[0])]} at {wrong[0].tolist()}, "
            f"not {right[tuple(wrong[0])]}; {len(wrong)} are wrong"
        )


def _first(keys: Array, largest: bool) -> int:
    """Return the place of the first NaN, or else of the first extreme."""
    nan = np.flatnonzero(keys != keys)
    if len(nan):
        return int(nan[0])
    extreme = keys.max() if largest else keys.min()
    return int(np.flatnonzero(keys == extreme)[0])


def _sought(place: Place, rng: Rng, keys: Array, told: str) -> None:
    largest, along = bool(rng.integers(2)), int(rng.integers(4)) > 0
    rows = int(rng.integers(1, 4))
    block = np.stack([np.roll(keys, int(rng.integers(keys.size))) for _ in range(rows)])
    held = calor.asarray(block if along else np.ascontiguousarray(block.T))
    axis, name = int(along), "max" if largest else "min"

    def run(x: Any) -> Any:
        at = (calor.argmax if largest else calor.argmin)(x, axis=axis)
        so_far = calor.cumulative_max if largest else calor.cumulative_min
        return at, getattr(calor, name)(x, axis=axis), so_far(x, axis=axis)

    at, extreme, so_far = (t.numpy() for t in calor.jit(run)(held))
    for k, row in enumerate(block):
        first = _first(row, largest)
        said = f"{told}, row {k} of {rows}{'' if along else ', as columns'}"
        assert at[k] == first, f"{said}: arg{name} {at[k]} is {row[at[k]]}, not {first}"
        found = extreme[k]
        assert found == row[first] or (found != found and row[first] != row[first]), (
            f"{said}: {name} is {found}, not {row[first]}"
        )
        with np.errstate(invalid="ignore"):
            want = (np.maximum if largest else np.minimum).accumulate(row)
        got = so_far[k] if along else so_far[:, k]
        wrong = np.flatnonzero(~((got == want) | ((got != got) & (want != want))))
        assert not len(wrong), (
            f"{said}: the {name} up to {wrong[0]} is {got[wrong[0]]}, not {want[wrong[0]]}"
        )


_Ask = Callable[[Place, Rng, Array, str], None]
_ASKS: Final[dict[str, tuple[_Ask, str, str]]] = {
    "hard-orders": (_asked, "sort", CONTRACT), "hard-extremes": (_sought, "argmax", EXTREMES),
}  # fmt: skip


def _run(ask: _Ask, dtype: DType, place: Place) -> None:
    names = list(_ORDERS)
    rng = np.random.default_rng([place.seed, crc32(dtype.name.encode())])
    for k, name in enumerate(names):
        if not place.tries(k, 2) and name != "random":
            continue
        n = int(rng.integers(*_LENGTHS[-1 if name == "random" else rng.integers(3)]))
        ask(place, rng, _keys(rng, name, n, dtype), f"{n} keys {name} as {dtype.name}")


def hard_orders() -> Iterator[Check]:
    """Yield a check of sorts and one of extremes of each dtype that has an order."""
    for subject, (ask, op, contract) in _ASKS.items():
        for name in _DTYPES:
            dtype = as_dtype(name)
            yield Check(
                kind="sizes",
                subject=subject,
                tier="full",
                contract=contract.format(name),
                run=partial(_run, ask, dtype),
                text=partial(_text, ask),
                op=op,
                dtype=dtype,
                dtypes=(dtype, int64),
                looks=True,
            )


def _text(ask: _Ask) -> str:
    return "\n".join(written(f) for f in (_run, ask, _keys, _killer))
