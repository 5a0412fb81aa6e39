"""Layered layout: the order of boxes within a layer, then their coordinates.

Follows Sugiyama, Tagawa and Toda (1981). Links join neighbouring layers only, and barycentres order
each layer. Coordinates approach those of the neighbours by isotonic regression (pool adjacent
violators), which is exact, linear in time and keeps the order. The same graph is therefore drawn
alike on every machine.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

ORDER_SWEEPS = 12
PLACE_SWEEPS = 24
STRAIGHT_SWEEPS = 16
GAP = 18.0
LAYER_GAP = 34.0
# Straight long lines matter more than centred boxes.
_STRAIGHT = 8.0
_CENTRING = 0.02


@dataclass(slots=True)
class Box:
    """A rectangle in a layer; a box of width 0 is a bend of a line that crosses the layer.

    ``x`` and ``y`` are the upper left corner, which :func:`place` sets.
    """

    layer: int
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    above: list[Link] = field(default_factory=list)
    below: list[Link] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Link:
    """A line from the lower edge of one box to the upper edge of a box in the next layer.

    ``leaves`` and ``enters`` are the positions on these edges, as fractions of the width.
    """

    source: int
    target: int
    leaves: float = 0.5
    enters: float = 0.5


@dataclass(frozen=True, slots=True)
class Frame:
    """The size of the picture and the lower end of each layer."""

    width: float
    height: float
    bottoms: tuple[float, ...]


def place(boxes: Sequence[Box], links: Sequence[Link]) -> Frame:
    """Set the coordinates of all boxes; the upper left corner of the picture is (0, 0)."""
    for link in links:
        boxes[link.source].below.append(link)
        boxes[link.target].above.append(link)
    rows: list[list[int]] = [[] for _ in range(max((b.layer for b in boxes), default=-1) + 1)]
    for number, box in enumerate(boxes):
        rows[box.layer].append(number)
    rows = _ordered(boxes, rows)
    _set_columns(boxes, rows)
    left = min((b.x for b in boxes), default=0.0)
    top, bottoms = 0.0, []
    for row in rows:
        for number in row:
            boxes[number].x -= left
            boxes[number].y = top
        bottoms.append(top + max(boxes[n].height for n in row))
        top = bottoms[-1] + LAYER_GAP
    width = max((b.x + b.width for b in boxes), default=0.0)
    return Frame(width, bottoms[-1] if bottoms else 0.0, tuple(bottoms))


def _ordered(boxes: Sequence[Box], rows: list[list[int]]) -> list[list[int]]:
    """Return the rows in the order with the fewest crossings found by the sweeps."""
    best, fewest = rows, _crossings(boxes, rows)
    for sweep in range(ORDER_SWEEPS):
        if fewest == 0:
            break
        rows = [list(row) for row in rows]
        down = sweep % 2 == 0
        towards = _ends_above if down else _ends_below
        place_in_row = _places(boxes, rows)
        for row in rows if down else reversed(rows):
            keys = {n: _mean(towards(boxes, n, place_in_row), place_in_row[n]) for n in row}
            row.sort(key=keys.__getitem__)
            _number(boxes, row, place_in_row)
        found = _crossings(boxes, rows)
        if found < fewest:
            best, fewest = rows, found
    return best


def _places(boxes: Sequence[Box], rows: Sequence[Sequence[int]]) -> dict[int, float]:
    places: dict[int, float] = {}
    for row in rows:
        _number(boxes, row, places)
    return places


def _number(boxes: Sequence[Box], row: Sequence[int], places: dict[int, float]) -> None:
    # Counted from the middle, so that rows of different lengths are comparable.
    for i, n in enumerate(row):
        places[n] = i - (len(row) - 1) / 2


def _ends_above(boxes: Sequence[Box], number: int, places: dict[int, float]) -> list[float]:
    return [places[k.source] + k.leaves - 0.5 for k in boxes[number].above]


def _ends_below(boxes: Sequence[Box], number: int, places: dict[int, float]) -> list[float]:
    return [places[k.target] + k.enters - 0.5 for k in boxes[number].below]


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _crossings(boxes: Sequence[Box], rows: Sequence[Sequence[int]]) -> int:
    count = 0
    place = {n: i for row in rows for i, n in enumerate(row)}
    for row in rows:
        ends = sorted(
            ((place[n], k.leaves), (place[k.target], k.enters)) for n in row for k in boxes[n].below
        )
        seen: list[tuple[float, float]] = []
        for _, target in ends:
            count += len(seen) - bisect_right(seen, target)
            insort(seen, target)
    return count


def _set_columns(boxes: Sequence[Box], rows: Sequence[Sequence[int]]) -> None:
    runs = _runs(boxes, rows)

    def wish(n: int, down: bool, up: bool) -> float:
        box = boxes[n]
        wishes: list[float] = []
        if down:
            wishes += [_leaves(boxes, k) - box.width * k.enters for k in box.above]
        if up:
            wishes += [_enters(boxes, k) - box.width * k.leaves for k in box.below]
        found = _mean(wishes, box.x)
        # Lines enter beside the middle; without this pull, long chains drift sideways.
        return found - _CENTRING * (found + box.width / 2)

    def weight(n: int) -> float:
        box = boxes[n]
        if box.width == 0:
            return _STRAIGHT
        return 1.0 if box.above or box.below else 0.1

    for row in rows:
        _settle(boxes, row, lambda n: -boxes[n].width / 2, weight)
    for sweep in range(PLACE_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            _settle(boxes, row, partial(wish, down=down, up=not down), weight)
    # Finally, the bends of one line get one column where there is room for it.
    columns: dict[int, float] = {}

    def straight(n: int) -> float:
        return columns[n] if n in columns else wish(n, down=True, up=True)

    for sweep in range(STRAIGHT_SWEEPS):
        for run in runs:
            columns.update(dict.fromkeys(run, _mean([boxes[n].x for n in run], 0.0)))
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _settle(boxes, row, straight, weight)


def _runs(boxes: Sequence[Box], rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return for each line the list of its consecutive bends."""
    run_of: dict[int, list[int]] = {}
    for n in (n for row in rows for n in row if boxes[n].width == 0):
        run_of[n] = run_of.get(boxes[n].above[0].source, [])
        run_of[n].append(n)
    return list({id(run): run for run in run_of.values()}.values())


def _leaves(boxes: Sequence[Box], link: Link) -> float:
    box = boxes[link.source]
    return box.x + box.width * link.leaves


def _enters(boxes: Sequence[Box], link: Link) -> float:
    box = boxes[link.target]
    return box.x + box.width * link.enters


def _settle(
    boxes: Sequence[Box],
    row: Sequence[int],
    wish: Callable[[int], float],
    weight: Callable[[int], float],
) -> None:
    """Place the boxes of a row as near to the wished positions as order and sizes allow."""
    # Blocks of boxes that touch: [sum of weights, mean wish of the block's start, count].
    blocks: list[list[float]] = []
    offset = 0.0
    offsets = []
    for n in row:
        offsets.append(offset)
        blocks.append([weight(n), wish(n) - offset, 1])
        while len(blocks) > 1 and blocks[-2][1] > blocks[-1][1]:
            total, start, count = blocks.pop()
            last = blocks[-1]
            last[1] = (last[0] * last[1] + total * start) / (last[0] + total)
            last[0] += total
            last[2] += count
        offset += boxes[n].width + GAP
    starts = [start for _, start, count in blocks for _ in range(int(count))]
    for n, start, shift in zip(row, starts, offsets, strict=True):
        boxes[n].x = start + shift
