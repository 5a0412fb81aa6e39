"""What functions refuse, and just before and after it what they take: errors with their texts.

Calls are right but for one argument, which steps along a ladder of values. Where the steps go from
a result to an error or from one error to another, both sides are recorded, and so is each call that
comes to code that no other comes to. So a condition that is a little wrong is named, and an error
that tells something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from calor.dtypes import bool_, float32, int32, int64
from calor.errors import UnsupportedError

from ..rows.recorded.refusals import read
from ..rows.recorded.results import mark
from ..rows.recorded.spoilt import base, call, spoilable, told
from ..rows.recorded.store import drawn_alike
from .base import Check, Place

CONTRACT: Final = "a call with one argument off gives the result or the error that is recorded"
_REFERENCE: Final = "numpy"


def _kind(text: str) -> str:
    """Return the name of an error, or "" of a result."""
    return "" if text.startswith("=") else text.partition(":")[0]


def _reads_nothing(want: str, got: str) -> bool:
    """Return whether an index is refused of which a device reads nothing: a result is empty."""
    shape = re.match(r"= \w+\(([\d, ]*)\)", got)
    empty = shape is not None and "0" in re.findall(r"\d+", shape[1])
    return empty and _kind(want) == "ElementIndexError"


def _rounds(want: str, got: str) -> bool:
    """Return whether a matrix is singular for the reference, and rounding made it regular here."""
    return _kind(want) == "LinearAlgebraError" and not _kind(got)


def _run(label: str, place: Place) -> None:
    if not drawn_alike():
        return  # This release of NumPy draws other arguments.
    known, rows = read()[label]
    right = base(label)
    assert right is not None, f"{label} has no right call now"
    assert mark(right) == known, (
        f"{label} has other arguments than recorded, since its signature or its rows changed: "
        "record it anew"
    )
    subject = spoilable()[label]
    every = place.plain.name == _REFERENCE
    for key, name, want in rows:
        if not every and not _kind(want):
            continue  # What is refused needs no program.
        try:
            got = told(subject, call(label, key, name))
        except UnsupportedError:
            continue
        # Python words its own errors otherwise from release to release.
        texts = every and _kind(want) != "TypeError"
        same = got == want if texts else _kind(got) == _kind(want)
        same = same or (not every and (_reads_nothing(want, got) or _rounds(want, got)))
        assert same, f"{label} with {key!r} {name}: {got}, not {want}"


def recorded_refusals() -> Iterator[Check]:
    """Yield a check of each function with recorded calls."""
    known = spoilable()
    for label in read():
        if label in known:
            yield Check(
                kind="refusals",
                subject=f"recorded-{label}",
                tier="full",
                contract=CONTRACT,
                run=partial(_run, label),
                text=partial(_text, label),
                dtypes=(float32, int32, int64, bool_),
                looks=True,
            )


def _text(label: str) -> str:
    return "\n".join(map(str, read()[label]))
