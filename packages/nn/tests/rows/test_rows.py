"""Every row of the functional layers, as the conformance suite asks rows of ops."""

from __future__ import annotations

import pytest

from calor.plugins.discovery import get_device
from calor_conformance import outcomes, suite
from calor_conformance.checks.base import Check, Place

from . import attention, neural, neural_images, neural_losses

CASES = [*neural.CASES, *neural_losses.CASES, *neural_images.CASES, *attention.CASES]
CHECKS = list(suite.of_rows(CASES))


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.name)
def test_row(check: Check) -> None:
    # The strict device checks, besides, that the core keeps to the backend protocol.
    device = get_device("strict:numpy")
    result = outcomes.run(check, Place(device, get_device("numpy")))
    assert result.outcome == "passed", result.detail
