"""Functions at arguments that nobody chose give what is recorded of them.

Options that meet, dtypes, empty and long axes, unlike members of a batch, numbers at ends and at
both sides of what a series switches at: calls are drawn from all of those, with derivatives, and
what each gives is stored. Rows with meanings say what is right; records say that it stays so where
no row asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.errors import UnsupportedError

from ..rows.definitions import written
from ..rows.recorded.results import Outcome, mark, outcome
from ..rows.recorded.store import Recorded, drawn_alike, read
from ..rows.recorded.subjects import Subject, subjects
from ..rows.recorded.variations import arguments, every_array
from .base import Array, Check, Place

CONTRACT: Final = "a function gives at drawn arguments what is recorded, of every kind and shape"
# What cancels is noise, of which every processor has its own.
_NOISE: Final = 1e-11
_SINGLE_NOISE: Final = 2.0**-20
# The device on which programs need no compiler, so that it makes all calls.
_REFERENCE: Final = "numpy"


def difference(got: Outcome, want: Recorded, slack: float = 0.0) -> str:
    """Return what differs between a result and the recorded one, "" if nothing does.

    ``slack`` is what all numbers may be off, as a share of the largest one of the call, or of a
    tenth where all are smaller.
    """
    if got.heads != want.heads:
        pairs = zip(got.heads, want.heads, strict=False)
        first = next((p for p in pairs if p[0] != p[1]), (got.heads, want.heads))
        return f"{first[0]}, not {first[1]}"
    wrong = np.flatnonzero(wrong_places(got.values, want, slack))
    if not wrong.size:
        return ""
    at = int(wrong[0])
    return (
        f"number {at} of the results {', '.join(want.heads)} is {got.values[at]!r}, not "
        f"{want.values[at]!r} ± {want.bounds[at]:.2g}"
    )


def wrong_places(values: Array, want: Recorded, slack: float = 0.0) -> Array:
    """Return where numbers are farther from the recorded ones than they may be."""
    size = np.abs(want.values[np.isfinite(want.values)]).max(initial=0.0)
    # What is exact is whole: a share of it is none.
    more = np.where(want.bounds > 0, slack * max(size, 0.1), 0.0)
    with np.errstate(invalid="ignore"):
        near = np.abs(values - want.values) <= want.bounds + more
    near |= (values == want.values) | (np.isnan(values) & np.isnan(want.values))
    return np.asarray(~near)


def chosen(calls: Sequence[Recorded], name: str) -> Sequence[Recorded]:
    """Return the calls that a device makes: all, or the first where programs are compiled."""
    return calls if name == _REFERENCE else calls[:1]


def _run(subject: Subject, place: Place) -> None:
    if not drawn_alike():
        return  # This release of NumPy draws other arguments.
    for want in chosen(read()[subject.label], place.plain.name):
        given = arguments(subject, want.number)
        assert given is not None, f"{subject.label}: call {want.number} has no arguments now"
        assert mark(given) == want.mark, (
            f"{subject.label}: call {want.number} has other arguments than recorded, since its "
            "signature or its rows changed: record it anew"
        )
        if place.flushes and any(map(_denormal, every_array(given))):
            continue
        try:
            got = outcome(subject, given, slopes=want.slopes)
        except UnsupportedError:
            continue
        wrong = difference(got, want, 0.0 if subject.pointwise else _noise(want, place))
        assert not wrong, f"{subject.label}(*{given[0]!r}, **{given[1]!r}): {wrong}"


def _noise(want: Recorded, place: Place) -> float:
    """Return what sums in another order may be off, as a share of the largest number."""
    singles = any(head.startswith(("float32", "complex64")) for head in want.heads)
    return _SINGLE_NOISE if singles and place.plain.name != _REFERENCE else _NOISE


def _denormal(array: Any) -> bool:
    if array.dtype.kind not in "fc":
        return False
    size = np.abs(array)
    least = calor.finfo(np.float32 if array.dtype.itemsize > 2 else array.dtype).smallest_normal
    # What is computed from the least normal numbers may be denormal too.
    return bool(((size > 0) & (size < 2.0**24 * least)).any())


def recorded_calls() -> Iterator[Check]:
    """Yield a check of each function with recorded calls."""
    known = subjects()
    for label in read():
        if label in known:
            subject = known[label]
            yield Check(
                kind="functions",
                subject=f"recorded-{label}",
                tier="full",
                contract=CONTRACT,
                run=partial(_run, subject),
                text=partial(_text, subject),
                looks=True,
            )


def _text(subject: Subject) -> str:
    own = read()[subject.label]
    return "\n".join([_source(subject), *(f"{c.number} {c.mark} {c.heads}" for c in own)])


def _source(subject: Subject) -> str:
    draw = subject.draw
    while isinstance(draw, partial):
        draw = draw.func
    return written(draw)
