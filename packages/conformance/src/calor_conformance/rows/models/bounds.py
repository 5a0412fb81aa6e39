"""Operators whose places lie at, before and beyond the ends, by the formulas of ONNX's text.

Each row draws sizes from 0 or 1 on, and places at the first and last element, at the neighbours of
both, and far beyond. What a model gives is counted by the text of the specification: the evaluator
of the package onnx indexes as Python does, which ends otherwise where a step is negative.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..language import Array
from .language import Draw, Node, Rng, axes_of, axis_of, coin, numbers, option, some

_FAR: Final = ((1 << 63) - 1, (1 << 31) - 1, 100)


def _sized(rng: Rng, least: int, most: int, rank: int) -> Array:
    return some(rng, *(int(n) for n in rng.integers(least, most, rank)))


def _place(rng: Rng, size: int) -> int:
    """Return a place at an end, beside one, inside, or beyond, counted from either end."""
    if coin(rng, 0.3):
        far = int(rng.choice(_FAR))
        return far if coin(rng) else -far
    return int(rng.choice((-size, 0, size))) + int(rng.integers(-2, 3))


def _inside(rng: Rng, size: int, shape: Any) -> Array:
    """Return valid places, the first and the last of either sign often among them."""
    ends = rng.choice((-size, -1, 0, size - 1), shape)
    return np.asarray(np.where(rng.random(shape) < 0.6, ends, rng.integers(-size, size, shape)))


def _reached(start: int, end: int, step: int, size: int) -> list[int]:
    """Return the places of a slice: both ends are moved to where the step can be made from."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first, last = (place + size if place < 0 else place for place in (start, end))
    return [*range(min(max(first, 0), high), min(max(last, low), high), step)]


def _part(rng: Rng, size: int) -> tuple[int, int, int]:
    """Return start, end and step: both ends on one side of the axis, on either, or anywhere."""
    step, far = int(rng.choice((1, 2, 3, 100))), int(rng.choice((1, 3, *_FAR)))
    # What is counted from the end lies before the first element, or it lies behind the last.
    before, beyond = max(-size - far, -_FAR[0]), min(size - 1 + far, _FAR[0])
    nearer = -size - int(rng.integers(1, 3)), size - 1 + int(rng.integers(1, 3))
    match int(rng.integers(4)):
        case 0:
            return nearer[0], before, -step
        case 1:
            return beyond, before, -step
        case 2:
            return (before, beyond, step) if coin(rng) else (nearer[1], beyond, step)
        case _:
            return _place(rng, size), _place(rng, size), step if coin(rng) else -step


def _slice(rng: Rng) -> Node:
    x = _sized(rng, 1, 6, int(rng.integers(1, 4)))
    axes, want, parts = axes_of(rng, x.ndim), x, []
    # Models of the first opsets have the places as attributes, and no steps.
    older = coin(rng, 0.1)
    for k, axis in enumerate(axes):
        size = x.shape[axis]
        # One axis that is left without elements hides what the others are.
        start, end, step = _part(rng, size) if k == 0 else (0, size, 1)
        part = start, end, 1 if older else step
        parts.append(part)
        want = np.take(want, _reached(*part, size), axis)
    starts, ends, steps = ([p[k] for p in parts] for k in range(3))
    if older:
        found: dict[str, Any] = {"starts": starts, "ends": ends, "axes": axes}
        return Node([x], found, opset=int(rng.choice((1, 9))), want=[want])
    given = [x, *(numbers(*v) for v in (starts, ends, axes, steps))]
    if coin(rng) and not any(abs(v) >> 31 for v in (*starts, *ends)):
        given[1:] = [v.astype(np.int32) for v in given[1:]]
    return Node(given, fixed=(1, 2, 3, 4) if coin(rng) else (), want=[want])


def _shape(rng: Rng) -> Node:
    x = _sized(rng, 0, 4, int(rng.integers(0, 5)))
    found = option(rng, {"start": _place(rng, x.ndim), "end": _place(rng, x.ndim)}, 0.8)
    start, end = found.get("start", 0), found.get("end", x.ndim)
    want = [x.shape[k] for k in _reached(start, end, 1, x.ndim)]
    return Node([x], found, opset=int(rng.choice((15, 19, 21))), want=[numbers(*want)])


def _gather(rng: Rng) -> Node:
    x = _sized(rng, 1, 4, int(rng.integers(1, 4)))
    axis = axis_of(rng, x)
    at = _inside(rng, x.shape[axis], [(), (1,), (2, 3), (0,)][int(rng.integers(4))])
    kind = np.int32 if coin(rng) else np.int64
    want = np.take(x, at, axis)
    return Node([x, at.astype(kind)], {"axis": axis}, want=[want])


def _along(x: Array, axis: int, rng: Rng) -> Array:
    shape = [int(rng.integers(1, n + 1)) for n in x.shape]
    shape[axis] = int(rng.integers(0, 4))
    return _inside(rng, x.shape[axis], shape)


def _elements(rng: Rng) -> Node:
    x = _sized(rng, 1, 4, int(rng.integers(1, 4)))
    axis = axis_of(rng, x)
    at = _along(x, axis, rng)
    part = x[tuple(slice(n if k != axis % x.ndim else None) for k, n in enumerate(at.shape))]
    return Node([x, at], {"axis": axis}, want=[np.take_along_axis(part, at, axis)])


def _gather_nd(rng: Rng) -> Node:
    x = _sized(rng, 1, 4, 3)
    depth = int(rng.integers(1, 4))
    at = np.stack([_inside(rng, n, (2, 3)) for n in x.shape[:depth]], -1)
    return Node([x, at], want=[x[tuple(np.moveaxis(at, -1, 0))]])


def _scatter_nd(rng: Rng) -> Node:
    x = _sized(rng, 2, 4, 2)
    at = np.asarray([-x.shape[0], x.shape[0] - 1])[rng.permutation(2)[: int(rng.integers(1, 3))]]
    values, want = some(rng, len(at), x.shape[1]), x.copy()
    want[at] = values
    return Node([x, at[:, None], values], opset=int(rng.choice((11, 13, 18))), want=[want])


def _scatter_elements(rng: Rng) -> Node:
    x = _sized(rng, 2, 4, 2)
    axis = axis_of(rng, x)
    # One place along the axis is written, by its number from either end.
    at = np.asarray(_inside(rng, x.shape[axis], ()))
    shape = [1 if k == axis % 2 else n for k, n in enumerate(x.shape)]
    values, want = some(rng, *shape), x.copy()
    np.put_along_axis(want, np.full(shape, at), values, axis)
    given = [x, np.full(shape, at, np.int64), values]
    return Node(given, {"axis": axis}, opset=int(rng.choice((11, 13, 18))), want=[want])


def _pad(rng: Rng) -> Node:
    """Pads of either sign: a negative one takes elements away, up to all of them."""
    x = _sized(rng, 1, 5, int(rng.integers(1, 4)))
    axes = axes_of(rng, x.ndim) if coin(rng) else [*range(x.ndim)]
    value, want, pads = np.float32(rng.normal()), x, []
    for axis in axes:
        size = x.shape[axis]
        before = int(rng.integers(-size, 4))
        after = int(rng.integers(-size - min(before, 0), 4))
        pads.append((before, after))
        want = np.take(want, range(max(-before, 0), size - max(-after, 0)), axis)
        wide = [(0, 0)] * x.ndim
        wide[axis] = max(before, 0), max(after, 0)
        want = np.pad(want, wide, constant_values=value)
    found = numbers(*(p[0] for p in pads), *(p[1] for p in pads))
    given = [x, found, np.asarray(value)]
    if axes != [*range(x.ndim)]:
        given.append(numbers(*axes))
    return Node(given, opset=int(rng.choice((18, 19))), fixed=(1, 3), want=[want])


def _one_hot(rng: Rng) -> Node:
    """A place that is outside [-depth, depth) is at no class."""
    depth = int(rng.integers(1, 4))
    at = np.asarray(rng.integers(-depth - 2, depth + 2, (3, 2)), np.int64)
    values = np.asarray([0.5, 3.0], np.float32)
    axis = int(rng.integers(-3, 3))
    valid = (at >= -depth) & (at < depth)
    hot = (at % depth)[..., None] == np.arange(depth)
    want = np.where(hot & valid[..., None], values[1], values[0])
    want = np.moveaxis(want, -1, axis)
    return Node([at, np.asarray(depth, np.int64), values], {"axis": axis}, fixed=(1,), want=[want])


def _trilu(rng: Rng) -> Node:
    x = _sized(rng, 0, 5, int(rng.integers(2, 4)))
    k, upper = int(rng.integers(-7, 8)), int(coin(rng))
    rows, columns = np.indices(x.shape[-2:])
    kept = columns - rows >= k if upper else columns - rows <= k
    given = [x, np.asarray(k, np.int64)]
    return Node(given, {"upper": upper}, fixed=(1,), want=[np.where(kept, x, np.float32(0))])


def _eye(rng: Rng) -> Node:
    x, k = _sized(rng, 1, 5, 2), int(rng.integers(-7, 8))
    rows, columns = np.indices(x.shape)
    return Node([x], {"k": k}, want=[np.asarray(columns - rows == k, np.float32)])


def _range(rng: Rng) -> Node:
    """A limit that a step leads away from, or that is the start, leaves nothing."""
    start, limit, step = *rng.integers(-5, 6, 2), int(rng.choice((-3, -2, -1, 1, 2, 3)))
    count = max(-((int(limit) - int(start)) // -step), 0)
    want = numbers(*(int(start) + k * step for k in range(count)))
    return Node([np.asarray(v, np.int64) for v in (start, limit, step)], want=[want])


def _tile(rng: Rng) -> Node:
    x = _sized(rng, 1, 4, int(rng.integers(1, 4)))
    times = rng.integers(0, 3, x.ndim)
    return Node([x, numbers(*times)], fixed=(1,), want=[np.tile(x, tuple(int(n) for n in times))])


def _compress(rng: Rng) -> Node:
    """A condition may be shorter than the axis, and may choose nothing."""
    x = _sized(rng, 1, 5, 2)
    axis = axis_of(rng, x)
    chosen = rng.random(int(rng.integers(1, x.shape[axis] + 1))) < rng.choice((0, 0.5, 1))
    return Node([x, chosen], {"axis": axis}, want=[np.take(x, np.flatnonzero(chosen), axis)])


ROWS: Final[dict[str, Draw]] = {
    "Slice": _slice, "Shape": _shape, "Gather": _gather, "GatherElements": _elements,
    "GatherND": _gather_nd, "ScatterND": _scatter_nd, "ScatterElements": _scatter_elements,
    "Pad": _pad, "OneHot": _one_hot, "Trilu": _trilu, "EyeLike": _eye, "Range": _range,
    "Tile": _tile, "Compress": _compress,
}  # fmt: skip
