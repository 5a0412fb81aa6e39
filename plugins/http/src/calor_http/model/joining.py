"""Whether a model's rows may be computed together, and in which numbers that is worth it.

Requirements: rows are joined only if a row gives the same beside others as it gives alone, which is
tried at the start, since no declaration says it: a model may normalize over its first axis, or
choose a scale for all of it. A number of rows that was not compiled at the start would let everyone
wait, so requests are computed in the numbers that were, filled up with rows that nobody reads, and
what each number costs was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from time import perf_counter
from typing import Any, Final

import numpy as np

from calor_http.model.programs import Array, Port, Served

# A run is measured for so long, and at most and at least so many times.
_SECONDS: Final = 0.05
_TIMES: Final = (4, 20)
# A number of rows is worth compiling when a row costs so much less than in half the number.
_WORTH: Final = 0.8
# How far a row may be from the same row alone, beside the largest element, by bytes of an element.
_NEAR: Final = {1: 0.3, 2: 0.03, 4: 3e-4, 8: 1e-9}
# Numbers of rows whose runs are kept.
_KEPT: Final = 1024
# What is drawn for open sizes of later axes: enough for windows in images, few tokens elsewhere.
_IMAGE, _FEW = 64, 16


class Joining:
    """The numbers of rows that a model is run with, and their seconds.

    Parameters
    ----------
    seconds : mapping of int to float
        The seconds of a run by its number of rows. Empty if rows are not joined.
    reason : str
        Why rows are not joined; empty if they are.

    Attributes
    ----------
    most : int
        The most rows of a run; 0 if rows are not joined.
    measured : mapping of int to float
        The seconds of the runs that were timed, also where rows are not joined.
    """

    def __init__(
        self,
        seconds: Mapping[int, float] | None = None,
        reason: str = "",
        measured: Mapping[int, float] | None = None,
    ) -> None:
        self.reason = reason
        self.measured = measured or seconds or {}
        self.most = max(seconds or {}, default=0)
        # More rows take no less time, whatever was measured.
        least: dict[int, float] = {}
        for rows, taken in sorted((seconds or {}).items(), reverse=True):
            least[rows] = min(taken, *least.values()) if least else taken
        self.seconds: Mapping[int, float] = least
        self._kept: dict[int, tuple[int, ...]] = {}

    def runs(self, rows: int) -> tuple[int, ...]:
        """Return the numbers of rows of the runs that compute so many rows in the least time.

        >>> from calor_http.model.joining import Joining
        >>> Joining({1: 1.0, 2: 1.5, 4: 1.9}).runs(3), Joining({1: 1.0, 2: 1.9, 4: 3.8}).runs(5)
        ((4,), (4, 1))
        """
        found = self._kept.get(rows)
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            found = self._kept[rows] = self._cheapest(rows)
        return found

    def _cheapest(self, rows: int) -> tuple[int, ...]:
        many, rest = divmod(rows, self.most)
        # The least time of the first n rows, and the last of the runs that take it.
        best: list[tuple[float, int]] = [(0.0, 0)]
        for n in range(1, rest + 1):
            best.append(min((best[max(n - b, 0)][0] + t, b) for b, t in self.seconds.items()))
        found = []
        while rest > 0:
            found.append(best[rest][1])
            rest -= found[-1]
        return (self.most,) * many + tuple(sorted(found, reverse=True))


def drawn(ports: Sequence[Port], rows: int, seed: int = 0) -> dict[str, Array]:
    """Return random inputs with so many rows where the first axis is open; rows differ in scale."""
    rng = np.random.default_rng(seed)
    made: dict[str, Array] = {}
    for known in ports:
        sizes = [
            size if isinstance(size, int)
            else rows if place == 0
            else _IMAGE if len(known.sizes) > 2 and place > 1 else _FEW
            for place, size in enumerate(known.shape or ())
        ]  # fmt: skip
        if known.dtype.kind in "iub":
            # Zero and one are no numbers of rows, columns or classes that a model could lack. Some
            # rows are zero alone, so that no order of the rows is like another.
            whole = rng.integers(0, 2, sizes)
            if sizes and rows > 1:
                whole[(slice(None), *[slice(1)] * (len(sizes) - 1))] = 1
                whole[1::4] = 0
            made[known.name] = whole.astype(known.dtype)
            continue
        scale = 1.0 + 2.0 * np.arange(sizes[0] if sizes else 1)
        spread = scale.reshape([-1, *[1] * (len(sizes) - 1)]) if sizes else 1.0
        made[known.name] = np.asarray(rng.standard_normal(sizes) * spread).astype(known.dtype)
    return made


def warmed(model: Served, most: int) -> Joining:
    """Run a model with random inputs, so that it is compiled, and find out how rows are joined.

    Parameters
    ----------
    model : Served
        The model.
    most : int
        The most rows that may be joined.

    Returns
    -------
    Joining
        The numbers of rows that are worth it.
    """
    why = _declared_otherwise(model)
    try:
        seconds = {1: _seconds(model, 1)}
        if why or most < 2:
            return Joining(None, why or "the server was told not to", seconds)
        why = _depends(model)
    except Exception as error:
        # Whatever it is, requests have it each by themselves.
        return Joining(reason=f"random inputs make it fail: {str(error)[:200]}")
    rows = 2
    while not why and rows <= most:
        seconds[rows] = _seconds(model, rows)
        before = max(n for n in seconds if n < rows)
        if seconds[rows] / rows > _WORTH * seconds[before] / before:
            break
        rows = min(2 * rows, most) if rows < most else most + 1
    return Joining(None, why, seconds) if why else Joining(seconds)


def _declared_otherwise(model: Served) -> str:
    """Return what the declarations of a model have against joining; an empty text for nothing."""
    for known in (*model.inputs, *model.outputs):
        if known.shape is not None and (not known.shape or isinstance(known.shape[0], int)):
            return f"{known.name!r} has a fixed first axis"
    firsts = {known.shape[0] if known.shape else None for known in model.inputs}
    if any(known.shape is None for known in model.inputs):
        return "an input has an open rank"
    return "" if len(firsts) == 1 else "the first axes of the inputs have different names"


def _depends(model: Served) -> str:
    """Return how rows depend on the rows beside them; an empty text if they do not."""
    feed = drawn(model.inputs, 4, seed=1)
    together = model.run(feed)
    for known, made in zip(model.outputs, together, strict=True):
        if not made.ndim or len(made) != 4:
            return f"{known.name!r} has no row for each row of the inputs"
    for row in range(4):
        alone = model.run({name: array[row : row + 1] for name, array in feed.items()})
        for known, one, many in zip(model.outputs, alone, together, strict=True):
            if one.shape != (1, *many.shape[1:]) or not _near(one[0], many[row]):
                return f"a row of {known.name!r} depends on the rows beside it"
    return ""


def _near(one: Array, other: Array) -> bool:
    if one.dtype.kind in "biu":
        return bool(np.array_equal(one, other))
    a, b = one.astype(np.float64), other.astype(np.float64)
    room = _NEAR[one.dtype.itemsize] * float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    return bool(np.allclose(a, b, rtol=0.0, atol=room, equal_nan=True))


def _seconds(model: Served, rows: int) -> float:
    """Return the least seconds of a run, the first ones, which compile, left out."""
    feed = drawn(model.inputs, rows)
    model.run(feed)
    times: list[float] = []
    begin = perf_counter()
    while len(times) < _TIMES[0] or (len(times) < _TIMES[1] and perf_counter() - begin < _SECONDS):
        start = perf_counter()
        model.run(feed)
        times.append(perf_counter() - start)
    return min(times)


def joined(feeds: Sequence[Mapping[str, Array]], runs: Sequence[int]) -> list[dict[str, Any]]:
    """Return the inputs of runs for the rows of several requests, the last one filled up."""
    names = list(feeds[0])
    whole = {n: [feed[n] for feed in feeds] for n in names}
    rows = sum(len(array) for array in whole[names[0]])
    missing = sum(runs) - rows
    if missing:
        for arrays in whole.values():
            # Rows like the last one cannot fail where it does not.
            arrays.append(np.repeat(arrays[-1][-1:], missing, axis=0))
    joint = {n: a[0] if len(a) == 1 else np.concatenate(a) for n, a in whole.items()}
    if len(runs) == 1:
        return [joint]
    ends = list(accumulate(runs))
    return [
        {n: array[end - count : end] for n, array in joint.items()}
        for end, count in zip(ends, runs, strict=True)
    ]
