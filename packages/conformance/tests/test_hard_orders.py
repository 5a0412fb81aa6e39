"""Checks of sorts of keys in orders that are hard to split: a sort that is wrong there is found."""

from __future__ import annotations

from typing import Any

import pytest

import calor
from calor_conformance.checks.hard_orders import hard_orders
from reference_failures import failures

SORT, ARGSORT = calor.sort, calor.argsort
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


@pytest.mark.parametrize(("function", "wrong"), [("argsort", unstable), ("sort", without_a_tail)])
def test_a_wrong_sort_is_found(function: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calor, function, wrong)
    found = [name for name in CHECKS if failures(name, 2)]
    assert len(found) > len(CHECKS) // 2
