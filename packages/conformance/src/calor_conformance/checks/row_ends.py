"""Movements of few long rows: every element of a result is written, to its last one.

Kernels write whole vectors, lines or tiles, and what is left at a row's end needs work of its own;
memory that was used before may hold the right numbers by chance. So a result of the same size and
another pattern is computed and dropped before each call, and lengths are no multiples of anything.
NumPy says what is due.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, as_dtype

from .base import Array, Check, Place

CONTRACT: Final = "a movement writes every element of its result, whatever the memory held before"
_DTYPES: Final = ("float32", "int8", "float16", "float64")
_PATTERN: Final = 99
Rng = np.random.Generator
# A function of a tensor, and NumPy's meaning of an array.
Move = tuple[Callable[[Any], Any], Callable[[Array], Array]]


def _length(rng: Rng) -> int:
    """Return an odd length, or twice or four times one."""
    return (int(2 ** rng.uniform(9, 14)) | 1) * int(rng.choice((1, 1, 2, 4)))


def _cuts(rng: Rng, n: int) -> tuple[int, int, int]:
    """Return the start, the stop and the step of a part of a long axis."""
    start, stop = sorted(int(k) for k in rng.integers(0, n, 2))
    return start, max(stop, start + 1), int(rng.choice((1, 1, 2, 3, 5)))


def _written(x: Any, key: Any, value: Any) -> Any:
    made = x.copy()
    made[key] = value
    return made


def moves(rng: Rng, shape: tuple[int, int]) -> dict[str, Move]:
    """Return drawn movements of a matrix."""
    axis = int(rng.integers(2))
    long = int(np.argmax(shape))
    n = shape[long]
    widths: Any = tuple(tuple(int(k) for k in rng.integers(0, 40, 2)) for _ in range(2))
    start, stop, step = _cuts(rng, n)
    key = tuple(slice(start, stop, step) if k == long else slice(None) for k in range(2))
    back = tuple(slice(None, None, -step) if k == long else slice(None) for k in range(2))
    by = int(rng.integers(-n, n))
    times = int(rng.integers(2, 4))
    places = rng.integers(0, n, int(rng.integers(1, n)))
    cut = sorted({0, start, stop, n})
    inner = int(rng.integers(2, 4))

    def parts(x: Any) -> list[Any]:
        ends = pairwise(cut)
        return [x[(slice(None),) * long + (slice(a, b),)] for a, b in ends][::-1]

    return {
        f"pad by {widths}": (
            lambda x: calor.pad(x, widths, value=3),
            lambda x: np.pad(x, widths, constant_values=3)),
        f"concat with itself along {axis}": (
            lambda x: calor.concat([x, x[:, :1] if axis else x[:1], x], axis=axis),
            lambda x: np.concatenate([x, x[:, :1] if axis else x[:1], x], axis)),
        f"concat of the parts {cut} along {long} from the end": (
            lambda x: calor.concat(parts(x), axis=long), lambda x: np.concatenate(parts(x), long)),
        f"flip along {long}": (lambda x: calor.flip(x, axis=long), lambda x: np.flip(x, long)),
        f"roll by {by}": (lambda x: calor.roll(x, by, axis=long), lambda x: np.roll(x, by, long)),
        f"repeat {times} along {axis}": (
            lambda x: calor.repeat(x, times, axis=axis), lambda x: np.repeat(x, times, axis)),
        f"tile {times}": (
            lambda x: calor.tile(x, (times, times)), lambda x: np.tile(x, (times, times))),
        f"take {places.size} along {long}": (
            lambda x: calor.take(x, calor.asarray(places), axis=long),
            lambda x: np.take(x, places, long)),
        f"slice {start}:{stop}:{step} along {long}": (lambda x: x[key], lambda x: x[key]),
        f"slice ::-{step} along {long}": (lambda x: x[back], lambda x: x[back]),
        "transpose": (lambda x: calor.permute_dims(x, (1, 0)), lambda x: x.T),
        f"stack of {inner} in the middle": (
            lambda x: calor.stack([x] * inner, axis=1), lambda x: np.stack([x] * inner, 1)),
        f"stack of {inner} at the end": (
            lambda x: calor.stack([x] * inner, axis=2), lambda x: np.stack([x] * inner, 2)),
        f"set {start}:{stop}:{step} along {long}": (
            lambda x: _written(x, key, 5), lambda x: _written(x, key, 5)),
        f"broadcast to {inner} of them": (
            lambda x: calor.broadcast_to(x, (inner, *shape)) * 1,
            lambda x: np.broadcast_to(x, (inner, *shape))),
        f"triangle from {by}": (lambda x: calor.tril(x, k=by), lambda x: np.tril(x, by)),
    }  # fmt: skip


def _dirty(want: Array, dtype: DType) -> None:
    """Leave the memory of a result of this size filled with a pattern."""
    other = calor.full(want.shape, _PATTERN - 1, dtype=dtype)
    (other + calor.asarray(np.ones((), dtype.numpy))).numpy()


def _run(dtype: DType, place: Place) -> None:
    rows_rng = np.random.default_rng([place.seed, 307, dtype.itemsize])
    count = 0
    for turn in range(2):
        rng = np.random.default_rng([place.seed, 308, turn, dtype.itemsize, dtype.is_integer])
        rows, n = int(rng.integers(1, 4)), _length(rng)
        shape = (rows, n) if rows_rng.random() < 0.6 else (n, rows)
        x = rng.integers(0, 90, shape).astype(dtype.numpy)
        for name, (call, meaning) in moves(rng, shape).items():
            count += 1
            if not place.tries(count, 4):
                continue
            want = np.ascontiguousarray(meaning(x))
            run = calor.jit(call) if count % 2 else partial(place.call, call)
            tensor = calor.asarray(x)
            if place.interactive:
                _dirty(want, dtype)
            got = run(tensor).numpy()
            told = f"{name} of {dtype} {shape}"
            assert got.shape == want.shape, f"{told} has shape {got.shape}, not {want.shape}"
            if got.tobytes() != want.tobytes():
                off = np.argwhere(np.asarray(got != want))
                first = tuple(off[0].tolist())
                raise AssertionError(
                    f"{told}: {len(off)} elements of {want.size} are off, first that at {first}: "
                    f"{got[first]!r}, not {want[first]!r}"
                )


def row_ends() -> Iterator[Check]:
    """Yield a check of movements in dtypes of each size."""
    for name in _DTYPES:
        dtype = as_dtype(name)
        yield Check(
            kind="sizes",
            subject="written-everywhere",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, dtype),
            text=partial(inspect.getsource, moves),
            op="pad",
            dtype=dtype,
            dtypes=(dtype,),
            looks=True,
        )
