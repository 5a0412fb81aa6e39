"""The contracts of devices that are made of others pass, and find what is counted wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from calor_conformance.checks import contracts_of_devices
from calor_router.buffer import RoutedBuffer
from reference_failures import failures

NAMES = [check.name for check in contracts_of_devices.contracts_of_devices()]


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 3) == []


def test_values_that_stay_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    settle = RoutedBuffer.__init__

    def keep(self: RoutedBuffer, *given: Any, **options: Any) -> None:
        settle(self, *given, **options)
        kept.append(given[1])

    monkeypatch.setattr(RoutedBuffer, "__init__", keep)
    assert "bytes" in failures("devices/contracts-of-a-router", 1)[0]
