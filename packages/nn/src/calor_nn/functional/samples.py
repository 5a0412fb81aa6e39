"""Interpolated reads of tensors.

Requirements: positions are tensors, computed on the device and in compiled graphs too. A device
may take the whole read as one op; for others, and for gradients, rows of channels are gathered, so
that one lookup serves all channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from math import prod
from operator import and_, mul
from typing import Any

import numpy as np

import calor
from calor.errors import ShapeError
from calor.ops import rules
from calor.ops.base import op
from calor.ops.composites import like, wide
from calor.specs import Spec, spec
from calor_nn.functional.constant_tables import constant_indices

# A tap is its offset from the lower neighbour, and its weight as a function of the fraction.
Taps = list[tuple[int, Callable[[Any], Any]]]


def cubic_taps(a: float = -0.75) -> Taps:
    """Return the taps of Keys' cubic convolution (Keys, 1981)."""

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [
        (-1, lambda t: far(t + 1)),
        (0, near),
        (1, lambda t: near(1 - t)),
        (2, lambda t: far(2 - t)),
    ]


LINEAR: Taps = [(0, lambda t: 1 - t), (1, lambda t: t)]
TAPS: dict[str, Taps] = {"linear": LINEAR, "cubic": cubic_taps(), "nearest": []}


def read(x: Any, at: Sequence[Any], batch: Any = None) -> Any:
    """Return x (N, C, *S) at integer positions (M, P) of each axis: (M, P, C).

    ``batch`` (M,) is the sample of each row; by default the rows are the samples.
    """
    samples, channels, *sizes = x.shape
    flat = at[0]
    for size, place in zip(sizes[1:], at[1:], strict=True):
        flat = flat * size + place
    if batch is None:
        first = constant_indices(np.arange(samples)[:, None] * prod(sizes), x.device)
    else:
        first = calor.reshape(calor.astype(batch, calor.int64), (-1, 1)) * prod(sizes)
    rows = calor.reshape(
        calor.permute_dims(x, (0, *range(2, x.ndim), 1)), (samples * prod(sizes), channels)
    )
    found = calor.take(rows, calor.reshape(flat + first, (-1,)), axis=0)
    return calor.reshape(found, (*flat.shape, channels))


def reflected(place: Any, low: float, high: float) -> Any:
    """Return positions reflected at both borders until they are inside."""
    span = high - low
    if span <= 0:
        return place * 0
    turn = calor.remainder(place - low, 2 * span)
    return calor.minimum(turn, 2 * span - turn) + low


def samples(
    x: Any, at: Sequence[Any], mode: str = "linear", outside: str = "zeros", align: bool = False
) -> Any:
    """Return x (N, C, *S) at fractional positions (N, P) of each axis: (N, C, P).

    ``outside`` is "zeros", "border" or "reflection"; with ``align`` reflection is at the centres of
    the outer elements instead of their edges.
    """
    taps = TAPS[mode]
    sizes = x.shape[2:]
    borders = [(0.0, n - 1.0) if align else (-0.5, n - 0.5) for n in sizes]
    places = [wide(a) for a in at]
    if not taps:
        places = [calor.round(a) for a in places]
    # A cubic sample keeps its position and its neighbours are clamped, as exporters mean it.
    if outside == "border" and mode != "cubic":
        places = [calor.clip(a, 0, n - 1) for a, n in zip(places, sizes, strict=True)]
    elif outside == "reflection":
        places = [reflected(a, *border) for a, border in zip(places, borders, strict=True)]
    lows = [calor.trunc(a) if not taps else calor.floor(a) for a in places]
    shares = [a - low for a, low in zip(places, lows, strict=True)]
    found = [
        [_tap(low, share, tap, size, border, outside) for tap in taps or [(0, lambda t: t * 0 + 1)]]
        for low, share, size, border in zip(lows, shares, sizes, borders, strict=True)
    ]
    total = None
    for corner in product(*found):
        values = read(wide(x), [place for place, _, _ in corner])
        inside = [there for _, _, there in corner if there is not None]
        if inside:
            # What a clamped position reads is no part of the sum, whatever it is.
            values = calor.where(calor.expand_dims(reduce(and_, inside), -1), values, 0)
        weight = reduce(mul, [weight for _, weight, _ in corner])
        term = values * like(calor.expand_dims(weight, -1), values)
        total = term if total is None else total + term
    # Channels are last until here, because rows of channels are gathered.
    return calor.permute_dims(like(total, x), (0, 2, 1))


def _tap(
    low: Any, share: Any, tap: tuple[int, Any], size: int, border: tuple[float, float], outside: str
) -> tuple[Any, Any, Any]:
    """Return the integer positions of a tap along an axis, clamped, and its weights.

    Last is where the positions are inside, if elements outside are zero.
    """
    step, weigh = tap
    place, weight, inside = low + step, weigh(share), None
    if outside == "reflection":
        place = calor.trunc(reflected(place, *border))
    elif outside == "zeros":
        inside = calor.logical_and(calor.greater_equal(place, 0), calor.less_equal(place, size - 1))
        weight = calor.where(inside, weight, 0)
    return calor.astype(calor.clip(place, 0, size - 1), calor.int64), weight, inside


def _rule(x: Spec, places: Spec, *, mode: str, outside: str, align: bool, relative: bool) -> Spec:
    rules.real_floats(x)
    rules.real_floats(places)
    rank = len(x.shape) - 2
    if len(places.shape) != 3 or places.shape[0] != x.shape[0] or places.shape[2] != rank:
        raise ShapeError(f"nn.sample: positions {places} do not fit {x}")
    return spec((*x.shape[:2], places.shape[1]), x.dtype)


def _decompose(x: Any, places: Any, *, mode: str, outside: str, align: bool, relative: bool) -> Any:
    at, rank = [], x.ndim - 2
    for axis, size in enumerate(x.shape[2:]):
        place = wide(places[..., rank - 1 - axis if relative else axis])
        if relative:
            place = (place + 1) * ((size - 1 if align else size) / 2)
            place = place if align else place - 0.5
        at.append(place)
    return samples(x, at, mode, outside, align)


# x (N, C, *S) at positions (N, P, rank): (N, C, P). They are from −1 to 1 with that of the last
# axis first if ``relative``, else in elements with that of the first axis first; other attributes
# are those of ``samples``. Gradients are those of the definition.
sample = op("nn.sample", _rule, decompose=_decompose)
