"""The gradient of a value that is read in parts: the parts are joined, not padded and added.

Requirements: the gradient of ``q, k, v = x[..., :n], x[..., n:m], x[..., m:]`` is one concatenation
that writes each element once; so is the gradient of a loop over ``x[i]``. Parts that overlap are
added as before. All of it is recorded in ops, so gradients of gradients follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from calor.ops.movement import concat, fill, number_like, pad, slice_

Shape = tuple[int, ...]


class Part(NamedTuple):
    """The gradient of a box of a value: from ``starts`` to ``stops`` along each axis."""

    starts: Shape
    stops: Shape
    gradient: Any


class Parts:
    """What is known of a value's gradient: a sum of the whole and of parts."""

    __slots__ = ("parts", "shape", "whole")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.whole: Any = None
        self.parts: dict[tuple[Shape, Shape], Part] = {}

    def add(self, gradient: Any) -> None:
        """Add a gradient of the whole value."""
        self.whole = gradient if self.whole is None else self.whole + gradient

    def add_part(self, part: Part) -> None:
        """Add the gradient of a part."""
        box = part.starts, part.stops
        same = self.parts.get(box)
        if same is not None:
            part = part._replace(gradient=same.gradient + part.gradient)
        self.parts[box] = part

    def total(self) -> Any:
        """Return the gradient of the value."""
        made = _joined(list(self.parts.values()), (0,) * len(self.shape), self.shape)
        return made if self.whole is None else self.whole + made


def part_of(record: Any, g: Any) -> tuple[Shape, Part] | None:
    """Return the shape of a record's operand and its gradient, if the record reads a box of it."""
    recipe = record.recipe
    sig = recipe.signature
    if sig.op is not slice_ or not recipe.plain:
        return None
    starts, steps = sig.attributes["starts"], sig.attributes["steps"]
    shape = sig.inputs[0].shape
    sizes = g.shape
    if any(s != 1 for s in steps) or 0 in sizes or sizes == shape:
        return None
    stops = tuple([a + n for a, n in zip(starts, sizes, strict=True)])
    return shape, Part(tuple(starts), stops, g)


def _joined(parts: Sequence[Part], starts: Shape, stops: Shape) -> Any:
    """Return the gradient of a region that has these parts and is 0 elsewhere."""
    axis, groups = _cut(parts)
    lows = [min(p.starts[i] for p in parts) for i in range(len(starts))]
    highs = [max(p.stops[i] for p in parts) for i in range(len(starts))]
    if len(groups) == 1:
        made = None
        for layer in _layers(parts, axis):
            if len(layer) > 1:
                part = _joined(layer, tuple(lows), tuple(highs))
            else:
                part = _padded(layer[0].gradient, layer[0].starts, layer[0].stops, lows, highs)
            made = part if made is None else made + part
        return _padded(made, lows, highs, starts, stops)
    # The joined pieces reach from end to end of their axis.
    lows[axis], highs[axis] = starts[axis], stops[axis]
    pieces = []
    at = starts[axis]
    for group in groups:
        first, last = group[0].starts[axis], max(p.stops[axis] for p in group)
        if first > at:
            pieces.append(_zeros(group[0].gradient, lows, highs, axis, first - at))
        low, high = list(lows), list(highs)
        low[axis], high[axis] = first, last
        pieces.append(_joined(group, tuple(low), tuple(high)))
        at = last
    if at < stops[axis]:
        pieces.append(_zeros(parts[0].gradient, lows, highs, axis, stops[axis] - at))
    return _padded(concat(*pieces, axis=axis), lows, highs, starts, stops)


def _cut(parts: Sequence[Part]) -> tuple[int, list[list[Part]]]:
    """Return the axis along which parts fall into most groups that follow each other, and these.

    If there is one group, the axis is the one with most different starts.
    """
    found = [_groups(parts, axis) for axis in range(len(parts[0].starts))]
    most = max(map(len, found))
    if most == 1:
        starts = [len({p.starts[axis] for p in parts}) for axis in range(len(found))]
        return starts.index(max(starts)), found[0]
    axis = next(i for i, groups in enumerate(found) if len(groups) == most)
    return axis, found[axis]


def _groups(parts: Sequence[Part], axis: int) -> list[list[Part]]:
    groups: list[list[Part]] = []
    end = 0
    for part in sorted(parts, key=lambda p: p.starts[axis]):
        if not groups or part.starts[axis] >= end:
            groups.append([])
        groups[-1].append(part)
        end = max(end, part.stops[axis])
    return groups


def _layers(parts: Sequence[Part], axis: int) -> list[list[Part]]:
    """Return parts that overlap in few layers, in each of which parts follow along an axis."""
    layers: list[list[Part]] = []
    for part in sorted(parts, key=lambda p: p.starts[axis]):
        free = (one for one in layers if one[-1].stops[axis] <= part.starts[axis])
        layer = next(free, None)
        if layer is None:
            layers.append([part])
        else:
            layer.append(part)
    return layers


def _padded(
    g: Any,
    starts: Sequence[int],
    stops: Sequence[int],
    lows: Sequence[int],
    highs: Sequence[int],
) -> Any:
    """Return a gradient from ``starts`` to ``stops`` with zeros up to ``lows`` and ``highs``."""
    low = tuple([a - b for a, b in zip(starts, lows, strict=True)])
    high = tuple([b - a for a, b in zip(stops, highs, strict=True)])
    if not any(low) and not any(high):
        return g
    return pad(g, number_like(g, 0), low=low, high=high, interior=(0,) * len(low))


def _zeros(like: Any, lows: Sequence[int], highs: Sequence[int], axis: int, size: int) -> Any:
    shape = [b - a for a, b in zip(lows, highs, strict=True)]
    shape[axis] = size
    return fill(like, 0, tuple(shape))
