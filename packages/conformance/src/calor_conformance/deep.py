"""The deep search: crossings for as long as it is given, longer operands too, from any seed.

Every row of crossings takes its turn with the next scenario of its covering array; when all pairs
have met, the next array begins, from the next seed. Beside them checks that draw what they ask,
such as calls of functions, take their turns with a new seed each. What failed once is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from calor.backends.device import Device
from calor.dtypes import DType

from . import outcomes
from .checks import index_forms, layers, namesakes
from .checks.base import Check, Place
from .checks.crossings import CROSSED, crossings, tried
from .checks.protocol import strict_of
from .outcomes import Result
from .rows.crossed.language import Subject
from .rows.crossed.pairwise import Scenario
from .rows.crossed.trying import scenarios
from .selection import Selection
from .watchdog import Watchdog

EVERYTHING: Final = Selection()
# What yields the checks that draw by the seed.
_DRAWING: Final = (namesakes.namesakes, layers.layers, index_forms.index_forms)


@dataclass
class Row:
    """A row of the search: its check, its scenarios so far, and the ones to come.

    ``crossed`` is what a row of crossings tries; None is a check that draws by the seed alone.
    """

    check: Check
    crossed: tuple[str, Subject, DType] | None = None
    count: int = 0
    left: Iterator[Scenario] | None = None
    result: Result | None = None


def rows(chosen: Selection, place: Place) -> list[Row]:
    """Return the rows of a selection that the device does not exclude.

    Parameters
    ----------
    chosen : Selection
        The selection, by op, dtype, kind and pattern.
    place : Place
        The device.

    Returns
    -------
    list of Row
        The rows.
    """
    checks = [c for c in chosen.of(crossings()) if c.name in CROSSED]
    made = [Row(check, CROSSED[check.name]) for check in checks]
    for drawing in _DRAWING:
        made += [Row(check) for check in chosen.of(drawing())]
    return [row for row in made if outcomes.excused(row.check, place.plain.info) is None]


def search(
    device: Device,
    seconds: float,
    seed: int,
    *,
    chosen: Selection = EVERYTHING,
    strict: bool = False,
    timeout: float | None = None,
    tell: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    """Try scenarios until the time is over.

    Parameters
    ----------
    device : Device
        The device.
    seconds : float
        How long to search.
    seed : int
        The seed; the same one tries the same scenarios in the same order.
    chosen : Selection, default EVERYTHING
        Which rows.
    strict : bool, default False
        Whether calls go through the proxy that checks the protocol.
    timeout : float, default None
        The limit of a scenario in seconds; None is no limit.
    tell : callable, optional
        Called with each failure.

    Returns
    -------
    list of Result
        The outcome of each row that was tried, with its number of scenarios.
    """
    place = Place(strict_of(device) if strict else device, device, seed)
    watchdog = Watchdog(timeout)
    end = time.monotonic() + seconds
    every = rows(chosen, place)
    order = np.random.default_rng(seed).permutation(len(every))
    every = [every[i] for i in order]
    turn = 0
    while time.monotonic() < end and any(row.result is None for row in every):
        for row in every:
            if time.monotonic() >= end:
                break
            if row.result is None:
                found = _next(row, place, watchdog, [seed, turn])
                if found.outcome != "passed":
                    row.result = found
                if found.outcome == "failed":
                    tell(found)
        turn += 1
    return [
        row.result or Result(row.check.name, "passed", f"{row.count} scenarios")
        for row in every
        if row.count
    ]


def _next(row: Row, place: Place, watchdog: Watchdog, seed: Sequence[int]) -> Result:
    """Try the next scenario of a row."""
    row.count += 1
    if row.crossed is None:
        own = int(np.random.default_rng(seed).integers(1, 2**31))
        return outcomes.run(row.check, replace(place, seed=own), watchdog)
    kind, subject, dtype = row.crossed

    def run(at: Place) -> None:
        if row.left is None:
            row.left = scenarios(subject, dtype, at.plain.info, seed, deep=True)
        scenario = next(row.left, None)
        if scenario is None:
            row.left = None
            return
        tried(kind, subject, scenario, dtype, at, deep=True)

    return outcomes.run(replace(row.check, run=run), place, watchdog)


def told(results: Sequence[Result], seconds: float, seed: int) -> str:
    """Return one line about a search."""
    failed = sum(r.outcome == "failed" for r in results)
    count = sum(_scenarios(r) for r in results)
    return (
        f"deep: {len(results)} rows, {count} scenarios that passed, {failed} rows failed in "
        f"{seconds:.0f} s, seed {seed}"
    )


def _scenarios(result: Result) -> int:
    first: Any = result.detail.partition(" ")[0]
    return int(first) if first.isdecimal() and result.outcome == "passed" else 0
