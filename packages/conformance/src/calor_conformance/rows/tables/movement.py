"""Rows of the ops that move elements; they take every dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import int32, int64

from ..domains import any_bits, chosen, indices, normal
from ..language import EVERY, Array, Case, case, exact


def _slice(x: Array, *, starts: Any, stops: Any, steps: Any) -> Array:
    places = [np.arange(a, b, s) for a, b, s in zip(starts, stops, steps, strict=True)]
    return x[np.ix_(*places)] if places else x


def _pad(x: Array, value: Array, *, low: Any, high: Any, interior: Any) -> Array:
    for axis, (a, b, i) in enumerate(zip(low, high, interior, strict=True)):
        n = x.shape[axis]
        rows: list[Array] = [np.full(_one(x.shape, axis), value)] * a
        for k in range(n):
            rows.append(np.take(x, [k], axis))
            rows += [np.full(_one(x.shape, axis), value)] * (i if k < n - 1 else 0)
        rows += [np.full(_one(x.shape, axis), value)] * b
        empty = np.empty(_one(x.shape, axis, 0), x.dtype)
        x = np.concatenate([empty, *(r.astype(x.dtype) for r in rows)], axis)
    return x


def _one(shape: tuple[int, ...], axis: int, size: int = 1) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _clamped(x: Array, starts: Array, sizes: tuple[int, ...]) -> tuple[slice, ...]:
    first = [min(max(int(a), 0), n - m) for a, n, m in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(a, a + m) for a, m in zip(first, sizes, strict=True))


def _update(x: Array, update: Array, starts: Array) -> Array:
    made = np.array(x)
    made[_clamped(x, starts, update.shape)] = update
    return made


def _reshape(name: str, before: tuple[int, ...], after: tuple[int, ...]) -> Case:
    return case("reshape", normal(*before), shape=after, dtypes=EVERY, raw=True, name=name,
                oracle=lambda x, *, shape: x.reshape(shape))  # fmt: skip


def _permute(*axes: int) -> Case:
    shape = (2, 3, 4, 1, 2)[: len(axes)]
    return case("permute", normal(*shape), axes=axes, oracle=lambda x, *, axes: x.transpose(axes),
                dtypes=EVERY, raw=True, name="-".join(map(str, axes)) or "0d")  # fmt: skip


def _expand(before: tuple[int, ...], after: tuple[int, ...]) -> Case:
    return case("expand", normal(*before), shape=after,
                oracle=lambda x, *, shape: np.broadcast_to(x, shape), dtypes=EVERY, raw=True,
                name=f"{list(before)}-to-{list(after)}")  # fmt: skip


def _sliced(name: str, shape: tuple[int, ...], *bounds: tuple[int, int, int]) -> Case:
    starts, stops, steps = zip(*bounds, strict=True) if bounds else ((), (), ())
    return case("slice", normal(*shape), starts=tuple(starts), stops=tuple(stops),
                steps=tuple(steps), oracle=_slice, dtypes=EVERY, raw=True, name=name)  # fmt: skip


def _padded(name: str, shape: tuple[int, ...], low: Any, high: Any, interior: Any) -> Case:
    return case("pad", normal(*shape), normal(), low=low, high=high, interior=interior, oracle=_pad,
                dtypes=EVERY, raw=True, name=name)  # fmt: skip


def _flip(name: str, shape: tuple[int, ...], *axes: int) -> Case:
    return case("flip", any_bits(*shape) if name == "bits" else normal(*shape), axes=axes,
                oracle=lambda x, *, axes: np.flip(x, axes), dtypes=EVERY, raw=True, name=name,
                no_gradient="the bits may be NaN" if name == "bits" else None)  # fmt: skip


def _concat(name: str, axis: int, *shapes: tuple[int, ...]) -> Case:
    return case("concat", *(normal(*s) for s in shapes), axis=axis,
                oracle=lambda *xs, axis: np.concatenate(xs, axis), dtypes=EVERY, raw=True,
                name=name)  # fmt: skip


def _window(name: str, shape: tuple[int, ...], sizes: tuple[int, ...], starts: Any) -> list[Case]:
    place = chosen(np.array(starts), int32)
    return [
        case("dynamic_slice", normal(*shape), place, sizes=sizes,
             oracle=lambda x, s, *, sizes: x[_clamped(x, s, sizes)], dtypes=EVERY, raw=True,
             name=name),
        case("dynamic_update_slice", normal(*shape), normal(*sizes), place, oracle=_update,
             dtypes=EVERY, raw=True, name=name),
    ]  # fmt: skip


CASES: list[Case] = [
    _reshape("split", (6, 4), (2, 3, 4)),
    _reshape("join", (2, 3, 4), (24,)),
    _reshape("to-0d", (1, 1), ()),
    _reshape("from-0d", (), (1, 1, 1)),
    _reshape("empty", (2, 0, 3), (0, 5)),
    _reshape("rank-5", (12,), (1, 2, 1, 3, 2)),
    _permute(1, 0),
    _permute(),
    _permute(2, 0, 1),
    _permute(4, 2, 0, 3, 1),
    _expand((), (2, 3)),
    _expand((3,), (2, 3)),
    _expand((2, 1), (2, 3)),
    _expand((1, 3, 1), (2, 4, 3, 5)),
    _expand((1,), (0,)),
    _expand((2, 3), (2, 3)),
    _sliced("middle", (5, 6), (1, 4, 1), (2, 5, 1)),
    _sliced("steps", (7, 8), (1, 7, 2), (0, 8, 3)),
    _sliced("backward", (5, 6), (4, -1, -1), (5, 0, -2)),
    _sliced("backward-part", (7,), (5, 1, -3)),
    _sliced("empty", (5, 6), (2, 2, 1), (0, 6, 1)),
    _sliced("empty-backward", (5,), (3, 3, -1)),
    _sliced("of-empty", (0, 3), (0, 0, 1), (0, 3, 2)),
    _sliced("0d", ()),
    _sliced("rank-5", (2, 3, 2, 3, 2), (0, 2, 1), (2, -1, -1), (1, 2, 1), (0, 3, 2), (1, -1, -1)),
    _padded("edges", (2, 3), (1, 0), (2, 3), (0, 0)),
    _padded("interior", (3, 2), (0, 1), (1, 0), (2, 1)),
    _padded("empty", (0, 2), (1, 0), (2, 1), (1, 1)),
    _padded("one", (1,), (0,), (0,), (3,)),
    _padded("0d", (), (), (), ()),
    _padded("nothing", (2, 2), (0, 0), (0, 0), (0, 0)),
    _flip("rows", (3, 4), 0),
    _flip("both", (3, 4), 0, 1),
    _flip("bits", (3, 4), 1),
    _flip("none", (3, 4)),
    _flip("empty", (0, 3), 0, 1),
    _concat("rows", 0, (2, 3), (1, 3), (0, 3)),
    _concat("columns", 1, (2, 3), (2, 1)),
    _concat("one", 0, (3,)),
    _concat("middle", 1, (2, 2, 3), (2, 1, 3), (2, 3, 3)),
    *_window("inside", (4, 5), (2, 3), (1, 2)),
    *_window("clamped", (4, 5), (2, 3), (-3, 9)),
    *_window("whole", (3,), (3,), (1,)),
    *_window("empty", (3, 2), (0, 2), (1, 0)),
    *_window("0d", (), (), np.zeros(0)),
    case("dynamic_slice", normal(6, 5), indices(4, 2), sizes=(2, 2), name="int64-starts",
         oracle=lambda x, s, *, sizes: x[_clamped(x, s, sizes)], dtypes=EVERY, raw=True, tol=exact),
    # Starts that 32 bits do not hold, or hold as others.
    case("dynamic_slice", normal(6, 5), chosen([(1 << 40) + 1, -(1 << 40) - 3], int64),
         sizes=(2, 2), name="far", dtypes=EVERY, raw=True, tol=exact,
         oracle=lambda x, s, *, sizes: x[_clamped(x, s, sizes)]),
    case("dynamic_slice", normal(6, 5), chosen([2**31 - 1, -(2**31)], int32), sizes=(2, 2),
         name="far-32", oracle=lambda x, s, *, sizes: x[_clamped(x, s, sizes)], dtypes=EVERY,
         raw=True, tol=exact),
    case("stop_gradient", any_bits(3, 4), oracle=lambda x: x, dtypes=EVERY, raw=True),
    case("barrier", any_bits(3, 4), oracle=lambda x: x, dtypes=EVERY, raw=True,
         no_gradient="the bits may be NaN"),
    case("barrier", normal(3, 4), oracle=lambda x: x, dtypes=EVERY, raw=True, name="numbers"),
]  # fmt: skip
