"""Cubes: operands with equal axes, for which a wrong axis or order has the right shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from calor.dtypes import float64

from .language import Subject

# Factors that choose axes, in subjects whose shapes follow from the length, and what they are in a
# cube: the ranks with axes between others come first.
_AXES: dict[str, tuple[Any, ...]] = {
    "rank": (3, 4, 5, 2),
    "axis": (0, 1, 2, 3),
    "axes": ("apart", "outer", "one", "all"),
    "place": tuple((r, a) for r in (3, 4, 2) for a in range(r)),
    "depth": (2, 3, 1),
    "rest": (1, 2, 0),
    "picks": (3, 4, 33),
}
_SHAPED = ("rank", "place", "depth")
_SIDES = (3, 4, 5)


def cubes(subjects: Iterable[Subject]) -> Iterator[Subject]:
    """Yield each subject that has axes to choose from as one with equal axes.

    Parameters
    ----------
    subjects : iterable of Subject
        The subjects.

    Yields
    ------
    Subject
        A subject in the main dtype.
    """
    for subject in subjects:
        if subject.name or not any(name in subject.factors for name in _SHAPED):
            continue
        axes = {name: values for name, values in _AXES.items() if name in subject.factors}
        factors = {**subject.factors, **axes, "length": _SIDES, "cube": (True,)}
        dtypes = (subject.main, float64) if subject.differentiable else (subject.main,)
        yield replace(subject, dtypes=dtypes, factors=factors, deep={}, name="cube")
