"""Repeated runs on host arrays of known shapes.

Requirements: a small model runs in the time of about thirty Python calls, so a repeated run goes
from the arrays to the program's memory and back. It compares names, shapes, types and the elements
that decide shapes. At the first difference the usual path runs, which also reports wrong inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calor.errors import CalorError
from calor.transforms.hosted import HostCall

Array = np.ndarray[Any, Any]
# Returns the program for a feed, and the inputs that stay on the host.
Find = Callable[[Mapping[str, Any]], tuple[HostCall | None, set[str]]]
# Number of sets of shapes that are kept.
LIMIT = 32
# From so many sets of shapes on, one is kept when it is met again; and how many are remembered.
_FEW = 4
_MET = 256


@dataclass(frozen=True, slots=True)
class _Known:
    """A program with its inputs by name, and with the elements for which it was compiled."""

    call: HostCall
    names: tuple[str, ...]
    host: tuple[tuple[str, Any, bytes], ...]

    def __call__(self, feed: Mapping[str, Any]) -> list[Array] | None:
        arrays = [feed[name] for name in self.names]
        if not self.call.fits(arrays):
            return None
        for name, dtype, elements in self.host:
            given = feed[name]
            if given.dtype != dtype or given.tobytes() != elements:
                return None
        return self.call(arrays)


class Repeats:
    """The programs of a model that take host arrays, by shapes."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        # None for runs that only the usual path can do.
        self._known: dict[Any, _Known | None] = {}
        # The first keys of runs that were done once.
        self._met: set[Any] = set()

    def run(self, feed: Mapping[str, Any]) -> list[Array] | None:
        """Return all outputs as new arrays, or None if the usual path has to run."""
        known = self._known.get(self._key(feed))
        if known is None:
            return None
        try:
            return known(feed)
        except CalorError:
            # The usual path raises the same error with a full message.
            return None

    def keep(self, feed: Mapping[str, Any], find: Find) -> None:
        """Store the program that ``find`` returns for the last run, if worth it."""
        key = self._key(feed)
        if key is None or self._known.get(key, self) is None:
            return
        if len(self._known) >= _FEW and key not in self._met:
            # Many sizes occur once.
            self._met = {*self._met, key} if len(self._met) < _MET else {key}
            return
        if len(self._known) >= LIMIT and key not in self._known:
            self._known.clear()
        call, host = find(feed)
        names = tuple(name for name in self._names if name not in host)
        fixed = [(n, feed[n]) for n in self._names if n in host]
        usable = call is not None and call.fits([feed[name] for name in names])
        if call is None or not usable or any(a.dtype.hasobject for _, a in fixed):
            self._known[key] = None
            return
        self._known[key] = _Known(call, names, tuple((n, a.dtype, a.tobytes()) for n, a in fixed))

    def _key(self, feed: Mapping[str, Any]) -> Any:
        """Return a first key of a run, or None for values other than arrays."""
        if len(feed) != len(self._names):
            return None
        found = []
        for name in self._names:
            given = feed.get(name)
            if type(given) is not np.ndarray:
                return None
            found.append(given.shape)
        return tuple(found)
