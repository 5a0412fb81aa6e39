"""The deep search: new cases for as long as it is given, from any seed.

Every row of crossings takes its turn with the next scenario of its covering array, of longer
operands too; when all pairs have met, the next array begins, from the next seed. Every other check
that draws takes its turn with a seed of its own. Kinds take turns by shares, so that those of many
rows and of slow ones leave time to the others. A row that failed once is left out.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from calor.backends.device import Device
from calor.dtypes import DType

from . import outcomes, suite
from .checks.base import Check, Place
from .checks.crossings import CROSSED, crossings, tried
from .outcomes import Result
from .rows.crossed.language import Subject
from .rows.crossed.pairwise import Scenario
from .rows.crossed.trying import scenarios
from .selection import Selection
from .strict.backend import strict_of
from .watchdog import Watchdog

EVERYTHING: Final = Selection()
# Turns of rows of each kind in a round, so that rounds give kinds about the time that they deserve.
_TURNS: Final = {
    "crossed": 300, "crossed-gradient": 100, "functions": 40, "transforms": 40, "values": 100,
    "views": 40, "sizes": 40, "jit": 40, "vmap": 20, "gradient": 20, "gradient-points": 20,
    "forward-mode": 20, "shapes": 20, "special": 20, "composites": 10, "jit-gradient": 10,
    "second-order": 10, "history": 10, "memory": 6, "random": 10, "transfers": 10, "threads": 10,
    "stored": 10, "refusals": 10, "protocol": 10, "properties": 4, "state": 4, "graphs": 4,
}  # fmt: skip


class _Asked(Place):
    """A place that knows whether a check has asked for its seed."""

    def __getattribute__(self, name: str) -> Any:
        if name == "seed":
            object.__setattr__(self, "drawn", True)
        return object.__getattribute__(self, name)


@dataclass
class Row:
    """A check of the search: how many cases of it were tried, and its result once it is over."""

    check: Check
    count: int = 0
    result: Result | None = None

    def step(self, place: Place, watchdog: Watchdog, seed: Sequence[int]) -> Result:
        """Try the next case: the check with a seed of its own."""
        number = int(np.random.SeedSequence([*seed, self.count]).generate_state(1)[0] >> 1)
        asked = _Asked(place.device, place.plain, number)
        self.count += 1
        found = outcomes.run(self.check, asked, watchdog)
        if found.outcome == "failed":
            return replace(
                found, detail=f"{found.detail}\nAgain: --only '{self.check.name}' --seed {number}"
            )
        if not hasattr(asked, "drawn"):
            # It would be the same at every turn.
            self.result = found
        return found


@dataclass
class Crossing(Row):
    """A row of crossings with its scenarios to come."""

    kind: str = ""
    subject: Subject = field(kw_only=True)
    dtype: DType = field(kw_only=True)
    left: Iterator[Scenario] | None = None
    arrays: int = 0

    def step(self, place: Place, watchdog: Watchdog, seed: Sequence[int]) -> Result:
        """Try the next scenario."""

        def run(at: Place) -> None:
            if self.left is None:
                own = [*seed, self.arrays]
                self.left = scenarios(self.subject, self.dtype, at.plain.info, own, deep=True)
                self.arrays += 1
            scenario = next(self.left, None)
            if scenario is None:
                self.left = None
                return
            tried(self.kind, self.subject, scenario, self.dtype, at, deep=True)

        self.count += 1
        return outcomes.run(replace(self.check, run=run), place, watchdog)


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
    crossed = {c.name for c in crossings()}
    made: list[Row] = []
    for check in chosen.of(suite.checks().values()):
        if check.kind not in _TURNS or outcomes.excused(check, place.plain.info) is not None:
            continue
        if check.name not in crossed:
            made.append(Row(check))
            continue
        kind, subject, dtype = CROSSED[check.name]
        made.append(Crossing(check, kind=kind, subject=subject, dtype=dtype))
    return made


def _in_turns(every: Sequence[Row]) -> Iterator[Row]:
    """Yield rows whose search goes on, of each kind in its share, until there is none."""
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in every:
        kinds[row.check.kind].append(row)
    while any(kinds.values()):
        for kind, own in kinds.items():
            for _ in range(min(_TURNS[kind], len(own))):
                row = own.pop(0)
                yield row
                if row.result is None:
                    own.append(row)


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
    """Try cases until the time is over.

    Parameters
    ----------
    device : Device
        The device.
    seconds : float
        How long to search.
    seed : int
        The seed; the same one tries the same cases in the same order.
    chosen : Selection, default EVERYTHING
        Which rows.
    strict : bool, default False
        Whether calls go through the proxy that checks the protocol.
    timeout : float, default None
        The limit of a case in seconds; None is no limit.
    tell : callable, optional
        Called with each failure.

    Returns
    -------
    list of Result
        The outcome of each row that was tried, with its number of cases.
    """
    place = Place(strict_of(device) if strict else device, device, seed)
    watchdog = Watchdog(timeout)
    every = rows(chosen, place)
    order = np.random.default_rng(seed).permutation(len(every))
    every = [every[i] for i in order]
    # Making the checks of the suite is no search.
    end = time.monotonic() + seconds
    for row in _in_turns(every):
        if time.monotonic() >= end:
            break
        found = row.step(place, watchdog, [seed])
        if found.outcome != "passed":
            row.result = found
        if found.outcome == "failed":
            tell(found)
    return [
        row.result
        if row.result is not None and row.result.outcome != "passed"
        else Result(row.check.name, "passed", f"{row.count} scenarios")
        for row in every
        if row.count
    ]


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
