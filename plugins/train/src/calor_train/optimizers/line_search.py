"""A line search for the strong Wolfe conditions: a bracket, then its interval made smaller.

Requirements: the steps are those of torch.optim.LBFGS, whose trial values are the minima of cubic
polynomials. Losses, slopes and lengths are Python numbers; gradients stay where they are computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from calor import Tensor

# Shares of the first slope: the least decrease, and the largest slope that is left.
_DECREASE, _CURVATURE = 1e-4, 0.9
# How near to an end of its interval a trial value may be, as a share of its length.
_EDGE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Point:
    """The loss at a length along a direction, its gradient, and its slope along the direction."""

    length: float
    loss: float
    grad: Tensor
    slope: float


def search(
    evaluate: Callable[[float], Point], start: Point, length: float, least: float, most: int
) -> tuple[Point, int]:
    """Return the point that is found, and how many were evaluated.

    The search begins at ``length``, ends where the interval is shorter than ``least``, and
    evaluates at most 1 + ``most`` points.
    """
    low, high, turn, done = _bracket(evaluate, start, length, most)
    slow = False
    while not done and turn < most and abs(high.length - low.length) >= least:
        length, slow = _trial(low, high, slow)
        new = evaluate(length)
        turn += 1
        if _too_high(new, start) or new.loss >= low.loss:
            high = new
            if high.loss < low.loss:
                low, high = high, low
            continue
        if abs(new.slope) <= -_CURVATURE * start.slope:
            done = True
        elif new.slope * (high.length - low.length) >= 0:
            high = low
        low = new
    return low, turn + 1


def _bracket(
    evaluate: Callable[[float], Point], start: Point, length: float, most: int
) -> tuple[Point, Point, int, bool]:
    """Return the lower and the higher end of an interval, how often it grew, and if it is done."""
    last, new = start, evaluate(length)
    for turn in range(most):
        if _too_high(new, start) or (turn > 1 and new.loss >= last.loss):
            return *_sorted(last, new), turn, False
        if abs(new.slope) <= -_CURVATURE * start.slope:
            return new, new, turn, True
        if new.slope >= 0:
            return *_sorted(last, new), turn, False
        further = new.length + 0.01 * (new.length - last.length), 10 * new.length
        last, new = new, evaluate(_cubic(last, new, further))
    return *_sorted(start, new), most, False


def _too_high(new: Point, start: Point) -> bool:
    return new.loss > start.loss + _DECREASE * new.length * start.slope


def _sorted(first: Point, second: Point) -> tuple[Point, Point]:
    return (first, second) if first.loss <= second.loss else (second, first)


def _trial(low: Point, high: Point, slow: bool) -> tuple[float, bool]:
    """Return a length within an interval, and whether it makes too little progress.

    One that is near an end twice, or beyond it, is moved away from it.
    """
    least, most = sorted((low.length, high.length))
    length = _cubic(low, high, (least, most))
    edge = _EDGE * (most - least)
    if min(most - length, length - least) >= edge:
        return length, False
    if not slow and least < length < most:
        return length, True
    return (most - edge if abs(length - most) < abs(length - least) else least + edge), False


def _cubic(first: Point, second: Point, bounds: tuple[float, float]) -> float:
    """Return the minimum of the cubic polynomial through two points, within bounds."""
    one, two = (first, second) if first.length <= second.length else (second, first)
    middle = (bounds[0] + bounds[1]) / 2
    if one.length == two.length:
        return middle
    rise = 3 * (one.loss - two.loss) / (one.length - two.length)
    bend = one.slope + two.slope - rise
    square = bend * bend - one.slope * two.slope
    if not square >= 0:
        return middle
    root = math.sqrt(square)
    spread = two.slope - one.slope + 2 * root
    if not spread:
        return middle
    share = (two.slope + root - bend) / spread
    return min(max(two.length - (two.length - one.length) * share, bounds[0]), bounds[1])
