"""Places for memory whose uses are known ahead: an offset for each span of time and size.

Requirements: what lives at the same time lies apart, and the whole takes little more than the bytes
that live at once. The largest pieces are placed first, each into the smallest gap that is free for
as long as it lives. Source: Pisarchyk and Lee, "Efficient memory management for deep neural net
inference" (2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np


class Span(NamedTuple):
    """Bytes that are in use from one task to another, both included."""

    nbytes: int
    first: int
    last: int


def most_at_once(spans: Sequence[Span]) -> int:
    """Return the most bytes that are in use at the same time.

    >>> most_at_once([Span(4, 0, 1), Span(2, 1, 2), Span(3, 2, 3)])
    6
    """
    changes = [0] * (max((s.last for s in spans), default=0) + 2)
    for span in spans:
        changes[span.first] += span.nbytes
        changes[span.last + 1] -= span.nbytes
    most = live = 0
    for change in changes:
        live += change
        most = max(most, live)
    return most


# A plan packs the same spans for its common launches and for its recordings.
@lru_cache(16)
def pack(spans: tuple[Span, ...]) -> tuple[Sequence[int], int]:
    """Return the offset of each span, and the end of the last one.

    >>> pack((Span(4, 0, 1), Span(2, 1, 2), Span(3, 2, 3)))
    ([0, 4, 0], 6)
    """
    orders = (
        sorted(range(len(spans)), key=lambda i: -spans[i].nbytes),
        sorted(range(len(spans)), key=lambda i: (-spans[i].nbytes, -_length(spans[i]))),
        sorted(range(len(spans)), key=lambda i: -spans[i].nbytes * _length(spans[i])),
    )
    return min((_placed(spans, order) for order in orders), key=lambda made: made[1])


def _length(span: Span) -> int:
    return span.last - span.first + 1


def _placed(spans: Sequence[Span], order: Sequence[int]) -> tuple[list[int], int]:
    """Place the spans in this order, each into the smallest gap that takes it."""
    # The spans with a place, in the order of their places: one search of gaps needs no sort.
    table = np.zeros((4, len(spans)), np.int64)
    first, last, start, stop = table
    offsets, end = [0] * len(spans), 0
    for count, i in enumerate(order):
        span = spans[i]
        beside = ((first[:count] <= span.last) & (last[:count] >= span.first)).nonzero()[0]
        offset = _gap(start[beside], stop[beside], span.nbytes)
        place = int(start[:count].searchsorted(offset, side="right"))
        table[:, place + 1 : count + 1] = table[:, place:count]
        table[:, place] = span.first, span.last, offset, offset + span.nbytes
        offsets[i] = offset
        end = max(end, offset + span.nbytes)
    return offsets, end


def _gap(start: Any, stop: Any, nbytes: int) -> int:
    """Return the start of the smallest gap between ranges in order, or the end of the last."""
    if not len(start):
        return 0
    ends = np.maximum.accumulate(stop)
    gaps = start.copy()
    gaps[1:] -= ends[:-1]
    fitting = (gaps >= nbytes).nonzero()[0]
    if not len(fitting):
        return int(ends[-1])
    place = fitting[gaps[fitting].argmin()]
    return int(ends[place - 1]) if place else 0
