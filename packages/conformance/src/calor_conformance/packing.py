"""Many rows in one graph, for devices with slow compilers.

Requirements: a pack gives each row the same outcome as the row alone. A row that fails in a pack
runs again alone; one that fails only in the pack is a failure that says so, and with which others,
since nothing else repeats it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import calor
from calor.errors import CalorError

from . import outcomes
from .checks.base import Check, Place
from .outcomes import Result
from .watchdog import UNWATCHED, Watchdog

# Seconds after which no fewer checks are sought with which a check fails.
_SEARCH_S: Final = 120.0


def packs(checks: Iterable[Check], size: int) -> Iterator[list[Check]]:
    """Yield groups of up to ``size`` checks that can share a graph; other checks alone."""
    pack: list[Check] = []
    for check in checks:
        if check.steps is None or size < 2:
            yield [check]
            continue
        pack.append(check)
        if len(pack) == size:
            yield pack
            pack = []
    if pack:
        yield pack


def run(pack: list[Check], place: Place, watchdog: Watchdog = UNWATCHED) -> list[Result]:
    """Run the checks of a pack together; excused and failing ones alone."""
    if len(pack) == 1:
        return [outcomes.run(pack[0], place, watchdog)]
    made: dict[str, Result] = {}
    for check in pack:
        excuse = outcomes.excused(check, place.plain.info)
        if excuse is not None:
            made[check.name] = excuse
    asked = [c for c in pack if c.name not in made]
    start = time.perf_counter()
    wrong = _together(asked, place, watchdog)
    each = (time.perf_counter() - start) / max(1, len(asked))
    for check in asked:
        told = wrong.get(check.name)
        made[check.name] = (
            Result(check.name, "passed", seconds=each)
            if told is None
            else _alone(check, asked, place, told, watchdog)
        )
    return [made[c.name] for c in pack]


def _alone(check: Check, pack: list[Check], place: Place, told: str, watchdog: Watchdog) -> Result:
    result = outcomes.run(check, place, watchdog)
    if result.outcome == "passed" and told:
        company = _company(check, pack, place, watchdog)
        lines = (f"it passes alone and fails in a larger graph: {told}", company)
        return Result(check.name, "failed", "\n".join(lines))
    return result


def _company(check: Check, pack: list[Check], place: Place, watchdog: Watchdog) -> str:
    """Return with which others of a pack a check fails again, in words."""

    def fails(some: list[Check]) -> bool:
        # Their order is that of their nodes in the graph.
        return check.name in _together(
            [c for c in pack if c is check or c in some], place, watchdog
        )

    end = time.perf_counter() + _SEARCH_S
    others = [c for c in pack if c is not check]
    if not fails(others):
        return f"It passes when it is repeated with the same others: {_names(others)}."
    while len(others) > 1 and time.perf_counter() < end:
        half = len(others) // 2
        fewer = next((some for some in (others[:half], others[half:]) if fails(some)), None)
        if fewer is None:
            break
        others = fewer
    return f"It fails again with these others: {_names(others)}."


def _names(checks: list[Check]) -> str:
    return " ".join(check.name for check in checks)


def _together(asked: list[Check], place: Place, watchdog: Watchdog) -> dict[str, str]:
    """Return failures by name; all with an empty text if the whole pack failed."""
    with calor.device(place.device):
        try:
            with watchdog.watched(asked[0].name if asked else "", max(1, len(asked))):
                recorded = [(c, list(c.steps.record(place))) for c in asked if c.steps is not None]
                calor.eval([tensors for _, tensors in recorded])
                return _judged(recorded, place)
        except Exception:
            # For any error of a backend: each check reports its own when it runs alone.
            return dict.fromkeys((c.name for c in asked), "")
        finally:
            outcomes.clear()


def _judged(recorded: list[tuple[Check, list[Any]]], place: Place) -> dict[str, str]:
    wrong: dict[str, str] = {}
    for check, tensors in recorded:
        assert check.steps is not None
        try:
            check.steps.judge(place, [t.numpy() for t in tensors])
        except (AssertionError, CalorError) as error:
            wrong[check.name] = f"{error}"
    return wrong
