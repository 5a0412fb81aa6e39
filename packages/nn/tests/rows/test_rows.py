"""Every row of the functional layers, as the conformance suite asks rows of ops."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from calor.plugins.discovery import get_device
from calor_conformance import outcomes, suite
from calor_conformance.checks.base import Check, Place

from . import attention, neural, neural_images, neural_losses

CASES = [*neural.CASES, *neural_losses.CASES, *neural_images.CASES, *attention.CASES]
CHECKS = list(suite.of_rows(CASES))


def covering(checks: list[Check]) -> Iterator[Any]:
    """Yield checks, those marked slow that bring no new pair of kind, function and dtype."""
    seen: set[tuple[str, str]] = set()
    for check in checks:
        kind, row, *_, dtype = check.name.split("/")
        pairs = set(combinations((kind, row.partition("(")[0], dtype), 2))
        yield pytest.param(check, marks=() if pairs - seen else pytest.mark.slow)
        seen |= pairs


@pytest.mark.parametrize("check", [*covering(CHECKS)], ids=lambda c: c.name)
def test_row(check: Check) -> None:
    # The strict device checks, besides, that the core keeps to the backend protocol.
    device = get_device("strict:numpy")
    result = outcomes.run(check, Place(device, get_device("numpy")))
    assert result.outcome == "passed", result.detail
