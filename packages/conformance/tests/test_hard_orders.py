"""Checks of keys in orders that are hard to split: sorts and searches that are wrong are found."""

from __future__ import annotations

from typing import Any

import pytest

import calor
from calor_conformance.checks.hard_orders import hard_orders
from reference_failures import failures

SORT, ARGSORT, ARGMAX = calor.sort, calor.argsort, calor.argmax
CHECKS = [check.name for check in hard_orders()]


@pytest.mark.parametrize("name", CHECKS)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 10) == []


def unstable(x: Any, **given: Any) -> Any:
    """Order equal keys from the last to the first."""
    return x.shape[given["axis"]] - 1 - ARGSORT(calor.flip(x, axis=given["axis"]), **given)


def without_a_tail(x: Any, **given: Any) -> Any:
    """Leave the last key of long rows where it is."""
    axis = given["axis"]
    if x.shape[axis] < 8192:
        return SORT(x, **given)
    rest, last = calor.split(x, [x.shape[axis] - 1], axis=axis)
    return calor.concat([SORT(rest, **given), last], axis=axis)


def the_last(x: Any, **given: Any) -> Any:
    """Return the last of equal extremes."""
    return x.shape[given["axis"]] - 1 - ARGMAX(calor.flip(x, axis=given["axis"]), **given)


@pytest.mark.parametrize(
    ("function", "wrong", "kind"),
    [
        ("argsort", unstable, "hard-orders"),
        ("sort", without_a_tail, "hard-orders"),
        ("argmax", the_last, "hard-extremes"),
    ],
)
def test_what_is_wrong_is_found(
    function: str, wrong: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calor, function, wrong)
    names = [name for name in CHECKS if kind in name]
    found = [name for name in names if failures(name, 2)]
    assert len(found) > len(names) // 2
