"""Reads and writes at indices: each integer dtype, both signs, axes that its range just holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import DType
from calor.ops.base import find

from ..language import NUMBERS, Array, ulp
from .drawing import whole
from .language import Problem, Subject, one
from .movement import _MAIN as EVERY
from .movement import bits
from .orders import ORDERS
from .pairwise import Scenario

INDEX_TYPES = ("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
# Axes around the ends of the narrow dtypes.
_AXES = (7, 1, 33, 120, 127, 128, 200, 255, 256, 1500, 40_000)


def _indices(
    scenario: Scenario, rng: np.random.Generator, size: int, shape: tuple[int, ...]
) -> Array:
    """Return valid indices of a dtype for an axis, its first and last place among them."""
    kind = np.dtype(scenario["index"])
    limits: Any = np.iinfo(scenario["index"])
    low = max(-size, int(limits.min)) if scenario["sign"] != "positive" else 0
    high = min(size - 1, int(limits.max)) if scenario["sign"] != "negative" else -1
    if low > high:
        low, high = 0, min(size - 1, int(limits.max))
    made = rng.integers(low, high, shape, endpoint=True)
    flat = made.reshape(-1)
    ends = [e for e in (low, high, 0, -1) if low <= e <= high][: flat.size]
    flat[: len(ends)] = ends
    return made.astype(kind)


def _whole(indices: Array, size: int) -> Array:
    made = indices.astype(object)
    return np.where(made < 0, made + size, made).astype(np.int64)


def _shape(scenario: Scenario, rng: np.random.Generator) -> tuple[tuple[int, ...], int]:
    rank, n = scenario["rank"], scenario["length"]
    axis = rank - 1 - scenario["axis"] % rank
    if scenario.get("cube"):
        return (n,) * rank, axis
    sizes = [int(rng.integers(1, 4)) for _ in range(rank)]
    sizes[axis] = n
    return tuple(sizes), axis


def _gather(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, axis = _shape(scenario, rng)
    picks = (scenario["picks"],) if rng.random() < 0.5 else (2, scenario["picks"])
    indices = _indices(scenario, rng, shape[axis], picks)
    return one(
        [bits(rng, dtype, shape), indices],
        lambda t, i: find("gather")(t, i, axis=axis),
        lambda a, i: a[(slice(None),) * axis + (_whole(i, shape[axis]),)],
    )


def _spread(rng: np.random.Generator, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Return a shape that broadcasts to another: some axes beside this one have one element."""
    spread = rng.random(len(shape)) < rng.choice((0.0, 0.5))
    return tuple(
        1 if s and a != axis else n for a, (s, n) in enumerate(zip(spread, shape, strict=True))
    )


def _take_along(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, axis = _shape(scenario, rng)
    wanted = (*shape[:axis], scenario["picks"], *shape[axis + 1 :])
    indices = _indices(scenario, rng, shape[axis], _spread(rng, wanted, axis))
    return one(
        [bits(rng, dtype, shape), indices],
        lambda t, i: find("take_along")(t, find("expand")(i, shape=wanted), axis=axis),
        lambda a, i: np.take_along_axis(a, np.broadcast_to(_whole(i, shape[axis]), wanted), axis),
    )


def _many(
    scenario: Scenario, rng: np.random.Generator, sizes: tuple[int, ...]
) -> tuple[Array, tuple[Array, ...]]:
    """Return indices of several axes, and the same counted from the start."""
    parts = [_indices(scenario, rng, n, (scenario["picks"],)) for n in sizes]
    found = tuple(_whole(p, n) for p, n in zip(parts, sizes, strict=True))
    return np.stack(parts, -1), found


def _gather_nd(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, depth = _deep(scenario, rng)
    indices, found = _many(scenario, rng, shape[:depth])
    x = bits(rng, dtype, shape)
    return one([x, indices], lambda t, i: find("gather_nd")(t, i), lambda a, i: a[found])


def _deep(scenario: Scenario, rng: np.random.Generator) -> tuple[tuple[int, ...], int]:
    depth = scenario["depth"]
    if scenario.get("cube"):
        return (scenario["length"],) * (depth + scenario["rest"]), depth
    room = 5 if scenario["picks"] < 5000 else 3
    sizes = [int(rng.integers(1, room)) for _ in range(depth + scenario["rest"])]
    sizes[int(rng.integers(depth))] = scenario["length"]
    return tuple(sizes), depth


def _values(
    scenario: Scenario, rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], most: int
) -> Array:
    """Return numbers whose updates are exact: small ones, of any size where they are compared."""
    if scenario["update"] in ("add", "mul") or scenario["values"] == "small":
        return whole(rng, dtype, shape, most)
    return bits(rng, dtype, shape)


_UPDATES: dict[str, np.ufunc] = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def _written(x: Array, at: Any, updates: Array, update: str) -> Array:
    made = x.astype(np.float64 if x.dtype.kind == "V" or (x.dtype.itemsize == 2 and
                    x.dtype.kind == "f") else x.dtype)  # fmt: skip
    made = made.copy()
    if update == "assign":
        made[at] = updates
    else:
        with np.errstate(all="ignore"):
            _UPDATES[update].at(made, at, updates)
    return made


def _scatter_nd(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem | None:
    update = scenario["update"]
    if dtype.is_complex and update in ("max", "min"):
        return None
    shape, depth = _deep(scenario, rng)
    indices, found = _many(scenario, rng, shape[:depth])
    # Units alone, so that products of thousands stay exact.
    most = 1 if update == "mul" else 3
    wanted = (scenario["picks"], *shape[depth:])
    x, updates = (_values(scenario, rng, dtype, s, most) for s in (shape, wanted))
    return one(
        [x, indices, updates],
        lambda t, i, u: find("scatter_nd")(t, i, u, update=update),
        lambda a, i, u: _written(a, found, u, update),
        tol=ulp(0.5),
        zeros=False,
    )


def _scatter_along(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem | None:
    update = scenario["update"]
    if dtype.is_complex and update in ("max", "min"):
        return None
    shape, axis = _shape(scenario, rng)
    wanted = (*shape[:axis], scenario["picks"], *shape[axis + 1 :])
    indices = _indices(scenario, rng, shape[axis], _spread(rng, wanted, axis))
    at = list(np.indices(wanted, sparse=True))
    at[axis] = np.broadcast_to(_whole(indices, shape[axis]), wanted)
    most = 1 if update == "mul" else 3
    x, updates = (_values(scenario, rng, dtype, s, most) for s in (shape, wanted))
    return one(
        [x, indices, updates],
        lambda t, i, u: find("scatter_along")(
            t, find("expand")(i, shape=wanted), u, axis=axis, update=update
        ),
        lambda a, i, u: _written(a, tuple(at), u, update),
        tol=ulp(0.5),
        zeros=False,
    )


def _refused(op: str) -> Any:
    """One index out of range, just or by far, at any place of any component."""

    def build(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem | None:
        n, picks = scenario["length"], scenario["picks"]
        limits: Any = np.iinfo(scenario["index"])
        wrong = {"just": n, "below": -n - 1, "far": int(limits.max), "deep": int(limits.min)}
        value = wrong[scenario["wrong"]]
        if not int(limits.min) <= value <= int(limits.max) or -n <= value < n:
            return None
        depth = 2 if op == "gather_nd" else 1
        shape = (n, *(int(k) for k in rng.integers(2, 5, depth - 1 + scenario["rest"])))
        if op == "take_along":
            indices = _indices(scenario, rng, n, (picks, *shape[1:]))
        elif op == "gather_nd":
            # The wrong component may be the second, whose row-major number is still inside.
            other = tuple(reversed(shape[:2]))
            shape = (*other, *shape[2:])
            indices, _ = _many(scenario, rng, shape[:2])
            indices[:, 0] = 0
        else:
            indices = _indices(scenario, rng, n, (picks,))
        place = {"first": 0, "last": picks - 1, "middle": picks // 2}[scenario["place"]]
        indices[(place, *([-1] * (indices.ndim - 1)))] = value
        x = bits(rng, dtype, shape)
        more: dict[str, Any] = {} if op == "gather_nd" else {"axis": 0}

        def refused(*tensors: Any) -> Any:
            return find(op)(*tensors, **more)

        return Problem([x, indices], refused, list, [], refused=True)

    return build


_READ: dict[str, Any] = {
    "length": _AXES,
    "rank": (2, 1, 3, 4),
    "axis": (0, 1, 2),
    "picks": (5, 1, 33, 600, 5000),
    "index": INDEX_TYPES,
    "sign": ("positive", "both", "negative"),
    "order": ORDERS,
}
_SEVERAL: dict[str, Any] = {
    "length": _AXES,
    "depth": (1, 2, 3),
    "rest": (0, 1, 2),
    "picks": (5, 1, 33, 600, 5000),
    "index": INDEX_TYPES,
    "sign": ("positive", "both", "negative"),
    "order": ORDERS,
}
_HOW: dict[str, Any] = {
    "update": ("assign", "add", "mul", "max", "min"),
    "values": ("small", "any"),
}
_WRONG: dict[str, Any] = {
    "length": (7, 1, 100, 127, 128, 300),
    "rest": (0, 1, 2),
    "picks": (5, 1, 33, 600),
    "index": INDEX_TYPES,
    "sign": ("positive", "both"),
    "wrong": ("just", "below", "far", "deep"),
    "place": ("last", "first", "middle"),
}
_FAR: dict[str, Any] = {"length": (65_537, (1 << 20) + 3), "picks": (5, 70_000)}
# Assignments of equal indices have an order, sums of whole numbers have none.
_TYPES = tuple(sorted(NUMBERS, key=lambda d: d.name != "float32"))

SUBJECTS: list[Subject] = [
    Subject("gather", _gather, EVERY, _READ, _FAR, differentiable=True),
    Subject("take_along", _take_along, EVERY, _READ, _FAR, differentiable=True),
    Subject("gather_nd", _gather_nd, EVERY, _SEVERAL, _FAR, differentiable=True),
    Subject("scatter_nd", _scatter_nd, _TYPES, {**_SEVERAL, **_HOW}, _FAR),
    Subject("scatter_along", _scatter_along, _TYPES, {**_READ, **_HOW}, _FAR),
    Subject("gather", _refused("gather"), EVERY, _WRONG, name="out-of-range"),
    Subject("gather_nd", _refused("gather_nd"), EVERY, _WRONG, name="out-of-range"),
    Subject("take_along", _refused("take_along"), EVERY, _WRONG, name="out-of-range"),
]
