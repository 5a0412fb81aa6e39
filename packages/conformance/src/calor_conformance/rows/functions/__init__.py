"""Functions, how they are called at drawn arguments, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

import calor

from . import further_names, numpy_names, own_names
from .drawing import Arguments, Rng

Function = Callable[..., Any]


@dataclass(frozen=True)
class Way:
    """One way to call a function.

    Parameters
    ----------
    name : str
        The function's name in calor.
    about : str
        What tells this way from others, "" for the usual one.
    draw : callable
        Draws positional and keyword arguments.
    meaning : callable
        The function of NumPy, or one made of those.
    other : callable, default None
        What is called in calor, if it is no function of the name.
    without : frozenset of str, optional
        What is not asked of it, of `drawing.ASKS`.
    """

    name: str
    about: str
    draw: Callable[[Rng], Arguments] = field(repr=False)
    meaning: Function = field(repr=False)
    other: Function | None = field(default=None, repr=False)
    without: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """A readable name, unique among all ways."""
        return "-".join(filter(None, (self.name, self.about)))

    def call(self, *given: Any, **options: Any) -> Any:
        """Call the function of calor."""
        return (self.other or getattr(calor, self.name))(*given, **options)


# What is not asked of ways, by label: numbers whose results float32 does not have, and infinities
# where the order of products counts.
_WITHOUT: Final = {
    "exp": "limits", "cos": "limits", "prod": "large", "prod-over axes": "large",
    "einsum": "infinite", "einsum-implied": "infinite", "lerp": "infinite",
}  # fmt: skip


def ways() -> Iterator[Way]:
    """Yield each way to call each function."""
    for way in _ways():
        yield replace(way, without=frozenset(_WITHOUT.get(way.label, "").split()))


def _ways() -> Iterator[Way]:
    for names, draw in numpy_names.WAYS:
        for name in names.split():
            theirs = numpy_names.THEIRS.get(name) or getattr(np, name)
            yield Way(name, "", draw, theirs, numpy_names.OURS.get(name))
    for table in (further_names, own_names):
        for names, about, draw in table.WAYS:
            for name in names.split():
                label = "-".join(filter(None, (name, about)))
                theirs = table.THEIRS.get(label) or getattr(np, name)
                yield Way(name, about, draw, theirs, getattr(table, "OURS", {}).get(label))
